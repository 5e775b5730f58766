#include "toy/eval/choices.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "chat/py_text.h"
#include "toy/base/error.h"
#include "toy/base/threads.h"
#include "toy/decode/sampler.h"

namespace toy {
namespace {

constexpr int64_t kRows = 256;         // computed together
constexpr int64_t kPositions = 16384;  // of all choices that are read side by side
constexpr int64_t kSequences = 64;

// A choice as tokens, of which ids[begin..] are scored.
struct Tokens {
  std::vector<int32_t> ids;
  size_t begin = 0;
};

// A question as tokens. `common`: how many of them all choices begin with, before any that is scored.
struct Question {
  std::vector<Tokens> choices;
  size_t common = 0;
  bool truncated = false;
};

size_t common_prefix(const Tokens& a, const Tokens& b) {
  const size_t most = std::min(a.ids.size(), b.ids.size());
  return size_t(std::mismatch(a.ids.begin(), a.ids.begin() + int64_t(most), b.ids.begin()).first - a.ids.begin());
}

class ChoiceScorer {
 public:
  ChoiceScorer(Device& device, const Model& model, std::span<const ChoiceQuestion> questions, const ChoiceOptions& o,
               const std::function<void(size_t, const ChoiceResult&)>& on_question)
      : device_(device), model_(model), questions_(questions), options_(o), on_question_(on_question) {
    check(!questions.empty(), "choices: there are no questions");
    check(model.tokenizer != nullptr, "choices: the model has no tokenizer");
    check(o.context >= 0, "ctx is {}, expected at least 1 (0: the model's own)", o.context);
    context_ = o.context > 0 ? o.context : model.spec.context;
    int64_t longest = 1, most = 1, all = 0;
    for (size_t i = 0; i < questions.size(); ++i) {
      const Question& q = tokens_.emplace_back(tokenize(i));
      for (const Tokens& t : q.choices) longest = std::max(longest, int64_t(t.ids.size()) - 1);
      most = std::max(most, int64_t(q.choices.size()));
      all += int64_t(q.choices.size());
    }
    const int64_t sequences = std::max(most, std::min({all, kSequences, kPositions / longest}));
    decoder_ = std::make_unique<Decoder>(device, model,
                                         DecoderOptions{.sequences = int(sequences),
                                                        .context = longest,
                                                        .max_rows = kRows,
                                                        .check_finite = o.check_finite,
                                                        .kv = o.kv,
                                                        .exact = o.exact,
                                                        .repack = o.repack});
  }

  ChoiceScore go() {
    for (size_t begin = 0; begin < tokens_.size();) {
      size_t end = begin;
      int64_t used = 0;
      while (end < tokens_.size() && used + int64_t(tokens_[end].choices.size()) <= decoder_->state().sequences())
        used += int64_t(tokens_[end++].choices.size());
      score_group(begin, end);
      begin = end;
    }
    return score_;
  }

 private:
  // As lm-evaluation-harness does: spaces at the end of a context belong to the choice, and the choice's tokens are
  // those of both together after as many as the context alone has.
  Tokens tokenize(size_t number, const Choice& choice) const {
    const Tokenizer& t = *model_.tokenizer;
    const std::string_view context = chat::strip(choice.context, false, true);
    const bool bos = options_.bos && t.adds_bos() && t.bos();
    Tokens result;
    if (bos) result.ids.push_back(*t.bos());
    const std::vector<int32_t> whole = t.encode(choice.context + choice.text);
    result.ids.insert(result.ids.end(), whole.begin(), whole.end());
    result.begin = std::min(t.encode(context).size() + (bos ? 1 : 0), result.ids.size() - 1);
    check(result.begin > 0,
          "question {}: no token comes before a choice; give it a prompt, or a model with a beginning-of-sequence "
          "token",
          number + 1);
    for (const int32_t id : result.ids)
      check(id >= 0 && id < model_.spec.vocab, "question {}: token {} is outside the vocabulary (0 to {})", number + 1,
            id, model_.spec.vocab - 1);
    return result;
  }

  Question tokenize(size_t number) const {
    Question q;
    for (const Choice& choice : questions_[number].choices) {
      Tokens t = tokenize(number, choice);
      if (const int64_t over = int64_t(t.ids.size()) - 1 - context_; over > 0) {
        check(over < int64_t(t.begin),
              "question {}: a choice of {} tokens does not fit into a context of {}; use a "
              "larger --ctx",
              number + 1, t.ids.size() - t.begin, context_);
        t.ids.erase(t.ids.begin(), t.ids.begin() + over);
        t.begin -= size_t(over);
        q.truncated = true;
      }
      q.choices.push_back(std::move(t));
    }
    q.common = q.choices[0].begin - 1;  // the row before a choice predicts its first token
    for (const Tokens& t : q.choices) q.common = std::min({q.common, t.begin - 1, common_prefix(q.choices[0], t)});
    return q;
  }

  void add_rows(int sequence, const Tokens& t, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) rows_.push_back({sequence, t.ids[i], false});
    score_.tokens += int64_t(end - begin);
  }

  void compute_rows() {
    decoder_->decode(rows_);
    rows_.clear();
  }

  void fork(int from, int to, size_t length) {
    if (length > 0) decoder_->state().fork(from, to);
    score_.shared += int64_t(length);
  }

  // What all questions begin with is computed first, then what the choices of each begin with, then the choices.
  void score_group(size_t first, size_t last) {
    DecodeState& state = decoder_->state();
    for (int s = 0; s < state.sequences(); ++s) state.reset(s);
    size_t common = tokens_[first].common;
    for (size_t i = first; i < last; ++i)
      common = std::min({common, tokens_[i].common, common_prefix(tokens_[first].choices[0], tokens_[i].choices[0])});
    std::vector<int> sequences;  // of each question's first choice
    for (size_t i = first, next = 0; i < last; next += tokens_[i++].choices.size()) sequences.push_back(int(next));
    add_rows(0, tokens_[first].choices[0], 0, common);
    compute_rows();
    for (size_t i = first + 1; i < last; ++i) fork(0, sequences[i - first], common);
    for (size_t i = first; i < last; ++i)
      add_rows(sequences[i - first], tokens_[i].choices[0], common, tokens_[i].common);
    compute_rows();
    for (size_t i = first; i < last; ++i)
      for (size_t c = 1; c < tokens_[i].choices.size(); ++c)
        fork(sequences[i - first], sequences[i - first] + int(c), tokens_[i].common);
    results_.assign(last - first, {});
    for (size_t i = first; i < last; ++i) {
      results_[i - first].logprobs.assign(tokens_[i].choices.size(), 0);
      for (size_t c = 0; c < tokens_[i].choices.size(); ++c) add_choice(i, i - first, c, sequences[i - first] + int(c));
    }
    score_rows();
    for (size_t i = first; i < last; ++i) finish(i, results_[i - first]);
  }

  void add_choice(size_t question, size_t result, size_t choice, int sequence) {
    const Tokens& t = tokens_[question].choices[choice];
    for (size_t i = tokens_[question].common; i + 1 < t.ids.size(); ++i) {
      if (int64_t(rows_.size()) == kRows) score_rows();
      const bool wanted = i + 1 >= t.begin;
      rows_.push_back({sequence, t.ids[i], wanted});
      if (wanted) targets_.push_back({&results_[result].logprobs[choice], t.ids[i + 1]});
      ++score_.tokens;
    }
  }

  void score_rows() {
    compute_rows();
    std::vector<double> logprobs(targets_.size());
    team_.run([&](int thread) {
      const Range mine = part(int64_t(targets_.size()), thread, team_.size());
      for (int64_t i = mine.begin; i < mine.end; ++i)
        logprobs[size_t(i)] = log_softmax_at(decoder_->logits(size_t(i)), targets_[size_t(i)].id);
    });
    for (size_t i = 0; i < targets_.size(); ++i) *targets_[i].sum += logprobs[i];
    targets_.clear();
  }

  void finish(size_t number, ChoiceResult& result) {
    const ChoiceQuestion& question = questions_[number];
    for (const double logprob : result.logprobs)
      if (std::isnan(logprob)) fail_internal("the model gives NaN for question {}: its weights are broken", number + 1);
    std::vector<double> normalized;
    for (size_t c = 0; c < result.logprobs.size(); ++c)
      normalized.push_back(result.logprobs[c] / double(std::max<int64_t>(question.choices[c].characters, 1)));
    const auto best = [](const std::vector<double>& v) { return size_t(std::ranges::max_element(v) - v.begin()); };
    result.best = best(result.logprobs), result.best_by_character = best(normalized);
    score_.chance =
        (score_.chance * double(score_.questions) + 1 / double(result.logprobs.size())) / double(score_.questions + 1);
    ++score_.questions;
    score_.right += result.best == question.answer ? 1 : 0;
    score_.right_by_character += result.best_by_character == question.answer ? 1 : 0;
    score_.truncated += tokens_[number].truncated ? 1 : 0;
    if (on_question_) on_question_(number, result);
  }

  struct Target {
    double* sum;
    int32_t id;
  };
  Device& device_;
  const Model& model_;
  std::span<const ChoiceQuestion> questions_;
  const ChoiceOptions& options_;
  const std::function<void(size_t, const ChoiceResult&)>& on_question_;
  ThreadPool team_{device_.threads()};
  int64_t context_ = 0;
  std::vector<Question> tokens_;
  std::unique_ptr<Decoder> decoder_;
  std::vector<DecodeRow> rows_;
  std::vector<Target> targets_;  // of the rows that want logits
  std::vector<ChoiceResult> results_;
  ChoiceScore score_;
};

}  // namespace

double ChoiceScore::error(double accuracy) const {
  return questions < 2 ? std::numeric_limits<double>::quiet_NaN()
                       : std::sqrt(accuracy * (1 - accuracy) / double(questions - 1));
}

ChoiceScore score_choices(Device& device, const Model& model, std::span<const ChoiceQuestion> questions,
                          const ChoiceOptions& options,
                          const std::function<void(size_t, const ChoiceResult&)>& on_question) {
  return ChoiceScorer(device, model, questions, options, on_question).go();
}

}  // namespace toy
