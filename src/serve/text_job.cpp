#include "serve/text_job.h"

#include <utility>

#include "dialog/answer_reader.h"
#include "toy/base/error.h"

namespace toy::serve {

TextRequest TextJob::add_choice(TextRequest text, std::string echoed, OutputParser parser) {
  parsers_.push_back(std::move(parser));
  const size_t i = reply_.choices.size();
  Choice& choice = reply_.choices.emplace_back();
  choice.index = int64_t(i);
  choice.prompt = text.prompt;
  choice.echoed = std::move(echoed);
  text.on_text = [job = shared_from_this(), i](const GeneratedToken& token, const std::string& t) {
    return job->text(i, token, t);
  };
  text.on_end = [job = shared_from_this(), i](const TextEnd& end) { job->finish(i, end); };
  return text;
}

void TextJob::write(std::string part) {
  if (!part.empty()) exchange_->write(std::move(part));
}

void TextJob::begin() {
  if (std::exchange(begun_, true)) return;
  exchange_->begin("text/event-stream");
  write(format_->begin(reply_));
}

void TextJob::add(Choice& choice, const Piece& piece) {
  choice.text += piece.text;
  choice.thought += piece.thought;
  for (const ToolCallPart& part : piece.calls) add_part(choice.calls, part);
}

bool TextJob::text(size_t i, const GeneratedToken& token, const std::string& text) {
  Choice& choice = reply_.choices[i];
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
  count_(200);
  if (!stream_) return exchange_->send({.body = format_->body(reply_)});
  write(format_->end(reply_));
  exchange_->end();
}

void TextJob::fail(const std::exception_ptr& error) {
  refuse(api_error(error));  // of the request: a grammar that takes too long
}

void TextJob::refuse(const ApiError& e) {
  failed_ = true;  // the other choices end with their next token
  count_(e.status);
  if (!begun_) return exchange_->send(error_reply(e, format_->error_body()));
  write(format_->error(e));
  exchange_->end();
}

}  // namespace toy::serve
