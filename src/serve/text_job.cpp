#include "serve/text_job.h"

#include <utility>

#include "dialog/answer_reader.h"
#include "serve/http/memory_reserve.h"
#include "toy/base/error.h"

namespace toy::serve {

TextRequest TextJob::add_choice(TextRequest text, std::string echoed, OutputParser parser) {
  parsers_.push_back(std::move(parser));
  const size_t i = reply_.choices.size();
  Choice& choice = reply_.choices.emplace_back();
  choice.index = int64_t(i);
  choice.prompt = text.prompt;
  latest_.push_back(exchange_->begun);
  choice.echoed = std::move(echoed);
  text.on_text = [job = shared_from_this(), i](const GeneratedToken& token, const std::string& t) {
    try {
      return job->text(i, token, t);
    } catch (...) {
      job->fail(std::current_exception());
      return false;
    }
  };
  text.on_end = [job = shared_from_this(), i](const TextEnd& end) {
    try {
      constexpr size_t kOfToken = 512;  // of the objects of log probabilities
      const MemoryReserve reserve(kSmallReserve +
                                  kOfToken * (size_t(job->reply_.tokens()) + end.generated.tokens.size()));
      job->finish(i, end);
    } catch (...) {
      job->fail(std::current_exception());
    }
  };
  return text;
}

void TextJob::open_now() {
  if (std::exchange(open_, true)) return;
  exchange_->begin(format_->type());
  sent_at_ = std::chrono::steady_clock::now();
}

void TextJob::open() {
  const std::scoped_lock lock(mutex_);
  if (stream_ && !ended_) open_now();
}

bool TextJob::keep_alive(std::chrono::milliseconds silence, bool opens) {
  const std::scoped_lock lock(mutex_);
  if (ended_) return false;
  const auto now = std::chrono::steady_clock::now();
  if (now - sent_at_ < silence || (!open_ && !opens)) return true;
  open_now();
  if (std::string comment = format_->comment(); !comment.empty()) exchange_->write(std::move(comment));
  sent_at_ = now;
  return true;
}

void TextJob::write(std::string part) {
  if (part.empty()) return;
  const std::scoped_lock lock(mutex_);
  exchange_->write(std::move(part));
  sent_at_ = std::chrono::steady_clock::now();
}

void TextJob::begin() {
  if (std::exchange(begun_, true)) return;
  {
    const std::scoped_lock lock(mutex_);
    open_now();
  }
  write(format_->begin(reply_));
}

void TextJob::end_stream(const std::string& last) { exchange_->end(last); }

void TextJob::add(Choice& choice, const Piece& piece) {
  choice.text += piece.text;
  choice.thought += piece.thought;
  for (const ToolCallPart& part : piece.calls) add_part(choice.calls, part);
}

// Of a token that came.
void TextJob::note_time(size_t i) {
  const auto now = std::chrono::steady_clock::now();
  const double time = std::chrono::duration<double>(now - latest_[i]).count();
  (latest_[i] == exchange_->begun ? timings_.first : timings_.between).observe(time);
  latest_[i] = now;
  if (tokens_ > 0) return;
  reply_.first = now;
  exchange_->note([time](RequestNotes& n) { n.first = time; });
}

void TextJob::note_end() {
  exchange_->note([&](RequestNotes& n) {
    n.prompt = reply_.prompt_tokens;
    n.tokens = reply_.tokens();
    n.cached = reply_.choices.front().end.generated.shared;
  });
}

bool TextJob::text(size_t i, const GeneratedToken& token, const std::string& text) {
  Choice& choice = reply_.choices[i];
  note_time(i);
  ++tokens_;
  if (stream_) begin();
  const bool thinks = parsers_[i].in_thought();
  Piece piece = parsers_[i].push(text);
  choice.thought_tokens += thinks || parsers_[i].in_thought() || !piece.thought.empty();
  piece.token = &token;
  add(choice, piece);
  if (stream_) write(format_->piece(choice, piece));
  return !failed_;
}

void TextJob::finish(size_t i, const TextEnd& end) {
  ++done_;
  if (failed_) return;
  if (end.error) return fail(end.error);
  if (end.generated.reason == FinishReason::deadline && tokens_ == 0)
    return refuse(ApiError(504, "the time of 'timeout' has passed before the first token; allow more, or ask later",
                           "timeout", "timeout"));
  Choice& choice = reply_.choices[i];
  if (stream_) begin();
  choice.end = end;
  Piece rest = parsers_[i].push(end.text);
  rest.append(parsers_[i].finish());
  add(choice, rest);
  if (stream_) write(format_->choice_end(choice, rest));
  if (done_ < reply_.choices.size()) return;
  note_end();
  const std::scoped_lock lock(mutex_);
  ended_ = true;
  if (!stream_) return exchange_->send({.body = format_->body(reply_)});
  end_stream(format_->end(reply_));
}

void TextJob::fail(const std::exception_ptr& error) noexcept {
  try {
    if (!failed_) refuse(api_error(error));  // of the request: a grammar that takes too long
  } catch (...) {                            // not even memory for that: the connection ends with the exchange
    failed_ = true;
  }
}

void TextJob::refuse(const ApiError& e) {
  failed_ = true;  // the other choices end with their next token
  note_end();
  exchange_->note([&e](RequestNotes& n) { n.status = e.status; });
  const std::scoped_lock lock(mutex_);
  ended_ = true;
  if (!open_) return exchange_->send(error_reply(e, format_->error_body()));
  end_stream(format_->error(e));
}

}  // namespace toy::serve
