// Models trained with the sentencepiece library, for comparing with it.
#pragma once

#include <gtest/gtest.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "text_testing.h"

namespace toy::testing {

using Library = sentencepiece::SentencePieceProcessor;
using Settings = std::unordered_map<std::string, std::string>;

class Lines final : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(const std::string& text) {
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      lines_.push_back(text.substr(at, end - at));
      at = end + 1;
    }
  }
  bool done() const override { return next_ == lines_.size(); }
  void Next() override { ++next_; }
  const std::string& value() const override { return lines_[next_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::vector<std::string> lines_;
  size_t next_ = 0;
};

/// A .model file, with the settings of train_spm changed by `settings`.
inline std::string trained_model(const std::string& text, Settings settings) {
  settings.insert({{"model_type", "bpe"},
                   {"vocab_size", "600"},
                   {"hard_vocab_limit", "false"},
                   {"byte_fallback", "true"},
                   {"character_coverage", "1.0"},
                   {"normalization_rule_name", "identity"},
                   {"add_dummy_prefix", "false"},
                   {"remove_extra_whitespaces", "false"},
                   {"allow_whitespace_only_pieces", "true"},
                   {"minloglevel", "3"}});
  Lines lines(text);
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(settings, &lines, &model);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return model;
}

inline std::shared_ptr<const Tokenizer> parsed(std::string_view model) {
  return load_spm_model(std::as_bytes(std::span(model.data(), model.size())), "test.model");
}

/// The same ids for `rounds` random texts, each with one of `extra` in it, and for a long one.
inline void expect_same(const Library& library, const Tokenizer& ours, uint32_t seed, int rounds,
                        const std::vector<std::string>& extra = {}) {
  RandomText random(seed);
  for (int round = 0; round < rounds; ++round) {
    std::string text = random.unicode(25);
    if (!extra.empty()) text += extra[random.below(uint32_t(extra.size()))] + random.unicode(5);
    ASSERT_EQ(ours.encode(text), library.EncodeAsIds(text)) << "\"" << text << "\"";
  }
  // Not so long that a unigram tokenizer would cut it up (unigram_encode.cpp).
  const std::string text = training_text(seed, ours.kind() == "unigram" ? 4000 : 20000);
  EXPECT_EQ(ours.encode(text), library.EncodeAsIds(text));
}

}  // namespace toy::testing
