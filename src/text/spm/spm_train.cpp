// Training through the sentencepiece library. This is the one file that sees it: the model that it writes is read as
// any other .model file, and nothing else depends on the library.
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "text/spm/spm.h"
#include "toy/base/error.h"
#include "toy/base/utf8.h"

namespace toy {
namespace {

constexpr int32_t kBasicTokens = 3 + 256;  // <unk>, <s>, </s>, and the bytes
constexpr int32_t kLeastTokens = 300;      // below that the bytes tokenizer is the better choice
constexpr int32_t kMostTokens = 1'000'000;
// The library keeps positions within a word in 16 bits (bpe_model_trainer.h) and aborts beyond, so no
// sentence may be long.
constexpr size_t kLongestSentence = 4000;

/// Characters that the library keeps out of pieces or uses itself: line breaks end a sentence, a tab is its
/// word boundary, U+2581 its space, U+2585 its mark for unknown characters, and NUL ends a key of its trie.
bool is_reserved(std::string_view c) {
  return c == "\n" || c == "\t" || c == std::string_view("\0", 1) || c == "\xE2\x96\x81" || c == "\xE2\x96\x85";
}

/// Calls f(character) for every character, with "" for a byte that is not UTF-8.
template <class F>
void for_each_character(std::string_view text, F f) {
  while (!text.empty()) {
    const size_t bytes = utf8_character(text);
    f(text.substr(0, bytes));
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
}

/// The characters that get a token of their own: all of them in most texts, but at most half of the free
/// places, the most frequent ones first (in order of their bytes among equals). The others are left to the
/// byte tokens.
std::unordered_set<std::string_view> choose_alphabet(std::string_view text, size_t places) {
  std::unordered_map<std::string_view, int64_t> counts;
  for_each_character(text, [&](std::string_view c) {
    if (!c.empty() && !is_reserved(c)) ++counts[c];
  });
  std::vector<std::pair<int64_t, std::string_view>> order;
  for (const auto& [c, count] : counts) order.emplace_back(-count, c);
  std::sort(order.begin(), order.end());
  order.resize(std::min(order.size(), places / 2));
  std::unordered_set<std::string_view> alphabet;
  for (const auto& [count, c] : order) alphabet.insert(c);
  return alphabet;
}

/// Pieces of the text, none longer than kLongestSentence, cut at characters outside the alphabet (no piece
/// can span those), else before the last space, else anywhere.
std::vector<std::string> cut_into_sentences(std::string_view text,
                                            const std::unordered_set<std::string_view>& alphabet) {
  std::vector<std::string> sentences;
  std::string sentence;
  const auto finish = [&](std::string rest) {
    if (!sentence.empty()) sentences.push_back(std::move(sentence));
    sentence = std::move(rest);
  };
  for_each_character(text, [&](std::string_view c) {
    if (c.empty() || !alphabet.contains(c)) return finish("");
    if (sentence.size() + c.size() > kLongestSentence) {
      const size_t space = sentence.rfind(' ');
      std::string rest;
      if (space != std::string::npos && space > 0) {
        rest = sentence.substr(space);
        sentence.resize(space);
      }
      finish(std::move(rest));
    }
    sentence += c;
  });
  finish("");
  return sentences;
}

class Sentences final : public sentencepiece::SentenceIterator {
 public:
  explicit Sentences(std::vector<std::string> sentences) : sentences_(std::move(sentences)) {}
  bool done() const override { return next_ == sentences_.size(); }
  void Next() override { ++next_; }
  const std::string& value() const override { return sentences_[next_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::vector<std::string> sentences_;
  size_t next_ = 0;
};

/// Unigram training adds up counts by thread, and the order of those sums decides about the last bits of the scores:
/// the number of threads is part of the result. (BPE counts in integers.)
constexpr int kUnigramThreads = 4;

/// llama.cpp has no byte tokens in unigram vocabularies. So that it gives us no <unk> for every line break, the two
/// characters of ordinary texts that are in no piece get tokens of their own.
constexpr std::array<std::string_view, 2> kUnigramLiterals = {"\n", "\t"};

/// One kind of training: what the command line calls it, and which tokens it does not have to learn.
struct Kind {
  SpmModel model;
  const char *spec, *library_name;
  int32_t basic_tokens, literals;
};
constexpr Kind kBpe = {SpmModel::bpe, "spm", "bpe", kBasicTokens, 0};
constexpr Kind kUnigram = {SpmModel::unigram, "unigram", "unigram", kBasicTokens + int32_t(kUnigramLiterals.size()),
                           int32_t(kUnigramLiterals.size())};

/// The library's model, serialized.
std::string train(const Kind& kind, std::vector<std::string> sentences, const SpmTrainOptions& options) {
  Sentences iterator(std::move(sentences));
  std::string model;
  const int threads = kind.model == SpmModel::bpe ? options.threads : kUnigramThreads;
  const auto status = sentencepiece::SentencePieceTrainer::Train(
      {{"model_type", kind.library_name},
       {"vocab_size", std::to_string(options.vocab_size - kind.literals - int32_t(options.control.names.size()))},
       {"hard_vocab_limit", "false"},
       {"byte_fallback", "true"},
       {"character_coverage", "1.0"},  // the alphabet is already chosen
       {"normalization_rule_name", "identity"},
       {"add_dummy_prefix", "false"},
       {"remove_extra_whitespaces", "false"},
       {"allow_whitespace_only_pieces", "true"},
       {"max_sentence_length", std::to_string(2 * kLongestSentence)},
       {"unk_id", "0"},
       {"bos_id", "1"},
       {"eos_id", "2"},
       {"pad_id", "-1"},
       {"num_threads", std::to_string(threads)},
       {"minloglevel", "3"}},
      &iterator, &model);
  check(status.ok(), "{}:{}: training failed: {}", kind.spec, options.vocab_size, status.error_message());
  return model;
}

/// The library has said what it had to say: the rest is read as any other file.
SpmVocabulary read_out(const Kind& kind, const std::string& model) {
  SpmVocabulary v = parse_spm_model(model, "trained vocabulary");
  v.names = {};
  for (int32_t i = 0; i < kind.literals; ++i) {
    v.tokens.emplace_back(kUnigramLiterals[size_t(i)]);
    v.scores.push_back(0);
    v.types.push_back(int32_t(TokenType::user_defined));
  }
  return v;
}

std::shared_ptr<const Tokenizer> train_kind(const Kind& kind, std::string_view text, SpmTrainOptions options) {
  options.control = without(options.control, {"<unk>", "<s>", "</s>"});
  const int32_t wanted = options.vocab_size, basic = kind.basic_tokens + int32_t(options.control.names.size());
  check(wanted >= kLeastTokens && wanted <= kMostTokens,
        "{}:{}: the number of tokens must be within {} and {} ({} are taken by the bytes and special tokens)",
        kind.spec, wanted, kLeastTokens, kMostTokens, basic);
  check(options.threads >= 1 && options.threads <= 1024, "{}:{}: threads is {}, not within 1 and 1024", kind.spec,
        wanted, options.threads);
  const auto alphabet = choose_alphabet(text, size_t(std::max(0, wanted - basic)));
  std::vector<std::string> sentences = cut_into_sentences(text, alphabet);
  check(!sentences.empty(), "{}:{}: there is no text to train the tokenizer on", kind.spec, wanted);
  SpmVocabulary vocabulary = read_out(kind, train(kind, std::move(sentences), options));
  vocabulary.add_bos = options.add_bos;
  vocabulary.scores.resize(vocabulary.scores.size() + options.control.names.size());
  add_control_tokens(vocabulary, options.control);
  const size_t got = vocabulary.tokens.size();
  check(
      got == size_t(wanted), "{}:{}: the text is too small: it gives {} tokens. {}", kind.spec, wanted, got,
      got >= size_t(kLeastTokens) ? "Ask for fewer, or give more text" : "Give more text, or take the tokenizer bytes");
  return std::make_shared<const SpmTokenizer>(std::move(vocabulary));
}

}  // namespace

std::shared_ptr<const Tokenizer> train_spm(std::string_view text, const SpmTrainOptions& options) {
  return train_kind(kBpe, text, options);
}

std::shared_ptr<const Tokenizer> train_unigram(std::string_view text, const SpmTrainOptions& options) {
  return train_kind(kUnigram, text, options);
}

}  // namespace toy
