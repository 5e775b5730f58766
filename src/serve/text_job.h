// The texts of one request on their way to its client.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dialog/output_parser.h"
#include "serve/api/reply_format.h"
#include "serve/http/http_server.h"
#include "serve/metrics.h"

namespace toy::serve {

/// Collects the texts that a GenerationService writes for a request and sends them in its form, as they come or at the
/// end. After its texts were submitted, only the service's thread changes it.
class TextJob : public std::enable_shared_from_this<TextJob> {
 public:
  /// `timings` outlives it.
  TextJob(std::shared_ptr<Exchange> exchange, std::unique_ptr<ReplyFormat> format, bool stream, Timings& timings)
      : exchange_(std::move(exchange)), format_(std::move(format)), stream_(stream), timings_(timings) {}

  /// The texts that follow are of a prompt of this many tokens.
  void add_prompt(int64_t tokens) { reply_.prompt_tokens += tokens, ++reply_.prompts; }
  /// One more choice: `text` with its callbacks set, to be submitted. `echoed`: the prompt's text, if it is wanted.
  /// `parser` finds thoughts and calls in the text.
  TextRequest add_choice(TextRequest text, std::string echoed, OutputParser parser = OutputParser());

  /// Sends the header of a stream before there is a text: what is wrong later is an event. Any thread may call it, once
  /// the texts were submitted.
  void open();
  /// Sends a comment where a stream has sent nothing for so long; its header, too, if it `opens`. False: it has ended.
  bool keep_alive(std::chrono::milliseconds silence, bool opens);

 private:
  // The lock is held.
  void open_now();
  void end_stream(const std::string& last);
  void begin();
  void write(std::string part);
  void add(Choice& choice, const Piece& piece);
  bool text(size_t i, const GeneratedToken& token, const std::string& text);
  void finish(size_t i, const TextEnd& end);
  void note_time(size_t i);
  void note_end();
  // What goes wrong with the reply ends this request alone: the callbacks of a service must not throw.
  void fail(const std::exception_ptr& error) noexcept;
  void refuse(const ApiError& e);

  std::shared_ptr<Exchange> exchange_;
  std::unique_ptr<ReplyFormat> format_;
  const bool stream_;
  Timings& timings_;
  Reply reply_;
  std::vector<OutputParser> parsers_;                          // of each choice
  std::vector<std::chrono::steady_clock::time_point> latest_;  // tokens, of each choice
  size_t done_ = 0, tokens_ = 0;                               // choices; tokens that came
  bool begun_ = false, failed_ = false;
  std::mutex mutex_;  // of what follows, and of what is sent
  bool open_ = false, ended_ = false;
  std::chrono::steady_clock::time_point sent_at_ = std::chrono::steady_clock::now();
};

}  // namespace toy::serve
