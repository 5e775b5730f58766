// A text that is generated token by token, whenever its reader asks for the next one.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bind/bound_model.h"
#include "toy/decode/scheduler.h"
#include "toy/decode/text_stream.h"

namespace toy::bind {

/// A token and the text that is ready to be shown after it.
struct TextPart {
  GeneratedToken token;
  std::string text;
};

/// One text. Threads take turns, and others may use the model between two tokens.
class TextRun {
 public:
  /// `named`: control tokens whose names are in the text. Throws Error{bad_input} for a prompt that does not fit, and
  /// options that the model cannot have.
  TextRun(std::shared_ptr<BoundModel> model, std::vector<int32_t> prompt, TextOptions options,
          std::vector<int32_t> named = {});
  ~TextRun();
  TextRun(const TextRun&) = delete;
  TextRun& operator=(const TextRun&) = delete;

  /// The next token; nullopt: the text has ended. A text without a token left has its last characters with id -1.
  std::optional<TextPart> next();
  /// The same for who has a turn on the model's device. Turns come before locks, so nobody waits for one with a lock
  /// that another needs who has the turn.
  std::optional<TextPart> next(const Turn&);
  /// Gives what next() returns where that takes no turn: a token that is ready, or the end. False: it takes one.
  bool next_is_ready(std::optional<TextPart>& part);
  /// Why it has ended: "length", "eos", "stop", "complete"; "" before.
  std::string reason() const;
  int64_t prompt_tokens() const { return prompt_tokens_; }

 private:
  void begin(std::vector<int32_t> prompt);

  std::optional<TextPart> taken();

  std::shared_ptr<BoundModel> model_;
  TextOptions options_;
  int64_t prompt_tokens_;
  bool repack_ = false;
  mutable std::mutex mutex_;  // of what follows
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<TextStream> stream_;
  std::deque<TextPart> ready_;
  std::optional<FinishReason> reason_;
};

/// Continues a prompt: constraints of options.form are those of its text.
std::unique_ptr<TextRun> continue_text(std::shared_ptr<BoundModel> model, std::vector<int32_t> prompt,
                                       TextOptions options);

}  // namespace toy::bind
