// Replies on their way to the client, and the end of a connection.
#include <fmt/format.h>

#include "serve/http/connection.h"
#include "toy/base/utf8.h"

namespace toy::serve {

using std::chrono::seconds;

namespace {

const char* reason_of(int status) {
  return status == 200 ? "OK" : http::obsolete_reason(http::int_to_status(unsigned(status))).data();
}

}  // namespace

std::string Connection::header_of(int status, const std::string& type) const {
  std::string text = fmt::format("HTTP/1.1 {} {}\r\nServer: toy\r\n", status, reason_of(status));
  if (!type.empty()) text += fmt::format("Content-Type: {}\r\n", type);
  text += fmt::format("Connection: {}\r\n", keep_alive_ ? "keep-alive" : "close");
  for (const auto& [name, value] : reply_headers_) text += fmt::format("{}: {}\r\n", name, value);
  if (const std::string ignored = notes_->notes().ignored; !ignored.empty())
    text += fmt::format("X-Toy-Ignored: {}\r\n", one_line(ignored));
  return text;
}

std::optional<std::chrono::steady_clock::time_point> Connection::behind_since() const {
  return unsent_ > 0 && !closed_ ? std::optional(taken_at_) : std::nullopt;
}

void Connection::give_up(HttpReply reply) {
  if (!begun_) send(std::move(reply), number_);
}

void Connection::close() {
  if (closed_) return;
  closed_ = true;
  const auto self = shared_from_this();
  server_.unsent -= std::exchange(unsent_, 0);
  release_body();
  error_code ignored;
  stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
  stream_.socket().close(ignored);
  hang_up_.cancel();
  server_.connections.erase(self);
  if (busy_ && !finishing_) answered(499);  // as nginx counts clients that have gone
  client_is_gone();
  server_.end_if_done();
}

// Perhaps there is memory for a word, now that the call's is free.
void Connection::broke() {
  try {
    if (closed_) return;
    if (busy_ || begun_) return close();
    refuse(503, "there is not enough memory for this request now; try again later");
  } catch (...) {
    dropped();
  }
}

void Connection::dropped() noexcept {
  try {
    close();
  } catch (...) {
  }
}

void Connection::abandoned(uint64_t number) {
  if (current(number)) close();
}

void Connection::send(HttpReply reply, uint64_t number) {
  if (!current(number)) return;
  status_ = reply.status;
  std::string text = header_of(reply.status, reply.type);
  for (const auto& [name, value] : reply.headers) text += fmt::format("{}: {}\r\n", name, value);
  if (reply.status != 204) text += fmt::format("Content-Length: {}\r\n", reply.body.size());
  text += "\r\n";
  constexpr size_t kWorthNoCopy = size_t(64) << 10;
  if (head_) return finish_reply(std::move(text));
  if (reply.body.size() < kWorthNoCopy) return finish_reply(text + reply.body);
  begun_ = true;
  put(std::move(text));
  if (!closed_) finish_reply(std::move(reply.body));
}

void Connection::begin(const std::string& type, uint64_t number) {
  if (!current(number)) return;
  status_ = 200;
  begun_ = true;
  chunked_ = http11_;
  keep_alive_ = keep_alive_ && chunked_;  // else the end of the connection is that of the reply
  put(header_of(200, type) + "Cache-Control: no-cache\r\n" +
      (chunked_ ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n"));
}

void Connection::write(const std::string& part, uint64_t number) {
  if (!current(number) || part.empty()) return;
  put(chunked_ ? fmt::format("{:x}\r\n{}\r\n", part.size(), part) : part);
  if (unsent_ > server_.limits.unsent) close();
}

void Connection::end(uint64_t number) {
  if (current(number)) finish_reply(chunked_ ? "0\r\n\r\n" : "");
}

void Connection::on_gone(std::function<void()> call, uint64_t number) {
  if (number != number_) return;  // answered already
  if (closed_)
    call();
  else if (busy_ && !finishing_)
    gone_.push_back(std::move(call));
}

void Connection::put(std::string text) {
  if (unsent_ == 0) taken_at_ = std::chrono::steady_clock::now();
  unsent_ += text.size(), server_.unsent += text.size();
  constexpr size_t kWhole = 16384;  // small parts take less room together
  if (out_.size() > 1 && out_.back().size() < kWhole)
    out_.back() += text;
  else
    out_.push_back(std::move(text));
  if (out_.size() == 1) write_next();
  server_.bound_unsent();  // may close this one
}

void Connection::write_next() {
  stream_.expires_after(seconds(server_.limits.read_seconds));
  with_stream([&](auto& stream) {
    stream.async_write_some(asio::buffer(out_.front().data() + sent_, out_.front().size() - sent_),
                            mine([](Connection& c, error_code error, size_t n) { c.written(error, n); }));
  });
}

void Connection::written(error_code error, size_t n) {
  if (closed_) return;
  if (error) return close();
  sent_ += n, unsent_ -= n, server_.unsent -= n;
  taken_at_ = std::chrono::steady_clock::now();
  if (sent_ == out_.front().size()) out_.pop_front(), sent_ = 0;
  if (!out_.empty()) return write_next();
  stream_.expires_never();
  if (finishing_) reply_is_sent();
}

void Connection::answered(int status) noexcept {
  if (!server_.calls.answered) return;
  try {
    RequestNotes notes = notes_->notes();
    if (notes.status > 0 && status != 499) status = notes.status;
    const std::chrono::duration<double> time =
        std::chrono::steady_clock::now() - header_at_.value_or(std::chrono::steady_clock::now());
    server_.calls.answered({request_, status, header_at_ ? time.count() : 0, std::move(notes)});
  } catch (...) {  // a line of the log is missing
  }
}

void Connection::finish_reply(std::string last) {
  finishing_ = true;
  answered(status_);
  gone_.clear();
  if (!last.empty())
    put(std::move(last));
  else if (out_.empty())
    reply_is_sent();
}

void Connection::reply_is_sent() {
  busy_ = false;
  if (watching_) return stop_watching();  // and continue once that has ended
  release_body();
  request_ = {}, reply_headers_.clear(), header_at_.reset();
  if (keep_alive_ && !server_.stopping) {
    buffer_.shrink_to_fit();
    return read_request(seconds(server_.limits.idle_seconds));
  }
  stream_.expires_after(seconds(2));
  server_.end_if_done();
  if (!tls_) return finish_sending();
  tls_->async_shutdown(mine([](Connection& c, error_code) {
    if (!c.closed_) c.finish_sending();
  }));
}

void Connection::finish_sending() {
  error_code ignored;
  stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
  drain();
}

void Connection::drain() {
  scrap_.resize(kScrap);
  stream_.async_read_some(asio::buffer(scrap_), mine([](Connection& c, error_code error, size_t n) {
                            if (c.closed_) return;
                            c.drained_ += n;
                            error || c.drained_ > (size_t(1) << 30) ? c.close() : c.drain();
                          }));
}

void Connection::client_is_gone() noexcept {
  busy_ = false;
  const auto calls = std::move(gone_);
  gone_.clear();
  for (const auto& call : calls) try {
      call();
    } catch (...) {  // the other calls are made all the same
    }
}

}  // namespace toy::serve
