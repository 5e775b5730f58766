#include "serve/connection.h"

#include <fmt/format.h>

#include "serve/percent.h"

namespace toy::serve {
namespace {

using std::chrono::seconds;

const char* reason_of(int status) {
  return status == 200 ? "OK" : http::obsolete_reason(http::int_to_status(unsigned(status))).data();
}

std::string header_of(int status, const std::string& type, bool keep_alive) {
  return fmt::format("HTTP/1.1 {} {}\r\nServer: toy\r\nContent-Type: {}\r\nConnection: {}\r\n", status,
                     reason_of(status), type, keep_alive ? "keep-alive" : "close");
}

}  // namespace

void Connection::start(bool full) {
  error_code ignored;
  stream_.socket().set_option(tcp::no_delay(true), ignored);
  if (!server_.tls) return take_requests(full);
  stream_.expires_after(seconds(server_.limits.read_seconds));
  beast::async_detect_ssl(stream_, buffer_, [self = shared_from_this(), full](error_code error, bool is_tls) {
    if (self->closed_) return;
    if (error) return self->close();
    if (!is_tls) return self->refuse(self->server_.bad(400, "this port takes TLS only; use https://"));
    self->shake_hands(full);
  });
}

std::optional<std::chrono::steady_clock::time_point> Connection::behind_since() const {
  return unsent_ > 0 && !closed_ ? std::optional(taken_at_) : std::nullopt;
}

void Connection::refuse(const HttpReply& reply) {
  begin_exchange(false);
  send(reply, number_);
}

void Connection::close() {
  if (closed_) return;
  closed_ = true;
  server_.unsent -= std::exchange(unsent_, 0);
  release_body();
  error_code ignored;
  stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
  stream_.socket().close(ignored);
  client_is_gone();
  const auto self = shared_from_this();
  server_.connections.erase(self);
  server_.end_if_done();
}

void Connection::send(HttpReply reply, uint64_t number) {
  if (!current(number)) return;
  std::string text = header_of(reply.status, reply.type, keep_alive_);
  for (const auto& [name, value] : reply.headers) text += fmt::format("{}: {}\r\n", name, value);
  text += fmt::format("Content-Length: {}\r\n\r\n", reply.body.size());
  constexpr size_t kWorthNoCopy = size_t(64) << 10;
  if (head_) return finish_reply(std::move(text));
  if (reply.body.size() < kWorthNoCopy) return finish_reply(text + reply.body);
  put(std::move(text));
  if (!closed_) finish_reply(std::move(reply.body));
}

void Connection::begin(const std::string& type, const std::string& headers, uint64_t number) {
  if (!current(number)) return;
  chunked_ = http11_;
  keep_alive_ = keep_alive_ && chunked_;  // else the end of the connection is that of the reply
  put(header_of(200, type, keep_alive_) + headers + "Cache-Control: no-cache\r\n" +
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

void Connection::shake_hands(bool full) {
  tls_.emplace(stream_, *server_.tls);
  tls_->async_handshake(asio::ssl::stream_base::server, buffer_.data(),
                        [self = shared_from_this(), full](error_code error, size_t used) {
                          if (self->closed_) return;
                          if (error) return self->close();
                          self->buffer_.consume(used);
                          self->take_requests(full);
                        });
}

void Connection::take_requests(bool full) {
  if (full)
    refuse(server_.bad(503, fmt::format("{} clients are connected already", server_.limits.connections)));
  else
    read_header(seconds(server_.limits.read_seconds));
}

void Connection::read_header(seconds limit) {
  parser_.emplace();
  parser_->header_limit(std::uint32_t(server_.limits.header));
  parser_->body_limit(server_.limits.body);
  stream_.expires_after(limit);
  with_stream([&](auto& stream) {
    http::async_read_header(stream, buffer_, *parser_,
                            [self = shared_from_this()](error_code error, size_t) { self->header_is_read(error); });
  });
}

void Connection::header_is_read(error_code error) {
  if (closed_) return;
  if (error) return refuse_what_was_read(error);
  stream_.expires_after(seconds(server_.limits.read_seconds));
  if (parser_->get().count(http::field::transfer_encoding) > 0 && !parser_->chunked())
    return refuse(server_.bad(501, "Transfer-Encoding: only chunked is supported"));
  if (const auto length = parser_->content_length(); length && *length > server_.limits.body)
    return refuse_what_was_read(http::error::body_limit);
  const auto expected = parser_->get()[http::field::expect];
  if (!beast::iequals(expected, "100-continue")) return read_body();
  with_stream([&](auto& stream) {
    asio::async_write(
        stream, asio::buffer(kContinue.data(), kContinue.size()),
        [self = shared_from_this()](error_code failed, size_t) { failed ? self->close() : self->read_body(); });
  });
}

void Connection::read_body() {
  if (closed_) return;
  if (parser_->is_done()) return request_is_read();
  parser_->eager(true);  // as many chunks at once as there are
  with_stream([&](auto& stream) {
    http::async_read_some(stream, buffer_, *parser_, [self = shared_from_this()](error_code error, size_t) {
      if (self->closed_) return;
      error ? self->refuse_what_was_read(error) : self->part_is_read();
    });
  });
}

// Only what has arrived counts: announcing a large body takes no room from others.
void Connection::part_is_read() {
  const size_t body = parser_->get().body().size();
  server_.bodies += body - body_, body_ = body;
  if (server_.bodies <= server_.limits.all_bodies) return read_body();
  parser_.reset();
  release_body();
  refuse(server_.bad(503, "the server holds too many large requests; try again later"));
}

void Connection::refuse_what_was_read(error_code error) {
  if (error == http::error::body_limit)
    return refuse(server_.bad(413, fmt::format("the request's body is larger than {} bytes", server_.limits.body)));
  if (error == http::error::header_limit)
    return refuse(server_.bad(431, fmt::format("the request's header is larger than {} bytes", server_.limits.header)));
  const bool is_http = error.category() == http::make_error_code(http::error::bad_method).category();
  if (!is_http || error == http::error::end_of_stream || error == http::error::partial_message) return close();
  refuse(server_.bad(400, "the request is not valid HTTP: " + error.message()));
}

void Connection::begin_exchange(bool keep_alive) {
  busy_ = true;
  finishing_ = false;
  chunked_ = false;
  keep_alive_ = keep_alive && !server_.stopping;
  ++number_;
  stream_.expires_never();
}

void Connection::watch() {
  if (watching_ || closed_) return;
  watching_ = true;
  if (tls_) return watch_tls();
  stream_.socket().async_wait(tcp::socket::wait_read, [self = shared_from_this()](error_code error) {
    self->watching_ = false;
    if (self->closed_ || !self->busy_) return;
    char byte = 0;
    const ssize_t got = error ? 0 : recv(self->stream_.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) self->close();
    // More bytes are the next request, which comes too early to be read: the end of the connection is not seen.
  });
}

void Connection::watch_tls() {
  tls_->async_read_some(buffer_.prepare(4096), [self = shared_from_this()](error_code error, size_t n) {
    self->watching_ = false;
    if (self->closed_) return;
    self->buffer_.commit(n);
    if (error && error != asio::error::operation_aborted) return self->close();
    if (!self->busy_) self->reply_is_sent();  // which has stopped this
  });
}

void Connection::put(std::string text) {
  if (unsent_ == 0) taken_at_ = std::chrono::steady_clock::now();
  unsent_ += text.size(), server_.unsent += text.size();
  out_.push_back(std::move(text));
  if (out_.size() == 1) write_next();
  server_.bound_unsent();  // may close this one
}

void Connection::write_next() {
  stream_.expires_after(seconds(server_.limits.read_seconds));
  with_stream([&](auto& stream) {
    stream.async_write_some(asio::buffer(out_.front().data() + sent_, out_.front().size() - sent_),
                            [self = shared_from_this()](error_code error, size_t n) { self->written(error, n); });
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

void Connection::finish_reply(std::string last) {
  finishing_ = true;
  gone_.clear();
  if (!last.empty())
    put(std::move(last));
  else if (out_.empty())
    reply_is_sent();
}

void Connection::reply_is_sent() {
  busy_ = false;
  parser_.reset();
  release_body();
  if (tls_ && watching_) return stream_.cancel();  // and continue once that read has ended
  if (keep_alive_ && !server_.stopping) return read_header(seconds(server_.limits.idle_seconds));
  stream_.expires_after(seconds(2));
  server_.end_if_done();
  if (!tls_) return finish_sending();
  tls_->async_shutdown([self = shared_from_this()](error_code) {
    if (!self->closed_) self->finish_sending();
  });
}

void Connection::finish_sending() {
  error_code ignored;
  stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
  drain();
}

void Connection::drain() {
  scrap_.resize(size_t(64) << 10);
  stream_.async_read_some(asio::buffer(scrap_), [self = shared_from_this()](error_code error, size_t n) {
    if (self->closed_) return;
    self->drained_ += n;
    error || self->drained_ > (size_t(1) << 30) ? self->close() : self->drain();
  });
}

void Connection::client_is_gone() {
  busy_ = false;
  const auto calls = std::move(gone_);
  gone_.clear();
  for (const auto& call : calls) call();
}

namespace {

// Sends every call to the thread of the connection.
class ExchangeOf : public Exchange {
 public:
  ExchangeOf(HttpRequest r, std::shared_ptr<Connection> connection, uint64_t number, asio::io_context& io)
      : Exchange(std::move(r)), connection_(std::move(connection)), number_(number), io_(io) {}
  void send(HttpReply reply) override {
    if (std::string names = notes().ignored; !names.empty()) reply.headers.emplace_back(kIgnored, std::move(names));
    post([reply = std::move(reply)](Connection& c, uint64_t n) mutable { c.send(std::move(reply), n); });
  }
  void begin(const std::string& type) override {
    const std::string names = notes().ignored;
    std::string headers = names.empty() ? "" : fmt::format("{}: {}\r\n", kIgnored, names);
    post([type, headers = std::move(headers)](Connection& c, uint64_t n) { c.begin(type, headers, n); });
  }
  void write(std::string part) override {
    post([part = std::move(part)](Connection& c, uint64_t n) { c.write(part, n); });
  }
  void end() override {
    post([](Connection& c, uint64_t n) { c.end(n); });
  }
  void on_gone(std::function<void()> call) override {
    post([call = std::move(call)](Connection& c, uint64_t n) { c.on_gone(call, n); });
  }

 private:
  static constexpr const char* kIgnored = "X-Toy-Ignored";
  template <class Call>
  void post(Call call) {
    asio::post(io_, [c = connection_, n = number_, call = std::move(call)]() mutable { call(*c, n); });
  }
  std::shared_ptr<Connection> connection_;
  uint64_t number_;
  asio::io_context& io_;
};

}  // namespace

void Connection::request_is_read() {
  auto message = parser_->release();
  begin_exchange(message.keep_alive());
  http11_ = message.version() >= 11;
  head_ = message.method() == http::verb::head;
  HttpRequest r;
  r.method = std::string(message.method_string());
  r.target = plain_target(std::string(message.target()));
  r.content_encoding = std::string(message[http::field::content_encoding]);
  r.authorization = std::string(message[http::field::authorization]);
  r.api_key = std::string(message["x-api-key"]);
  r.anthropic_version = std::string(message["anthropic-version"]);
  r.body = std::move(message.body());
  watch();
  auto exchange = std::make_shared<ExchangeOf>(std::move(r), shared_from_this(), number_, server_.io);
  if (message.method() == http::verb::get || head_) return server_.handle(exchange);
  asio::post(*server_.handlers, [&server = server_, exchange] { server.handle(exchange); });
}

}  // namespace toy::serve
