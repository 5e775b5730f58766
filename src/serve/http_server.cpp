#include "serve/http_server.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <deque>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

#include "serve/percent.h"
#include "toy/base/error.h"

namespace toy::serve {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::milliseconds;
using std::chrono::seconds;

const char* reason_of(int status) {
  return status == 200 ? "OK" : http::obsolete_reason(http::int_to_status(unsigned(status))).data();
}

std::string header_of(int status, const std::string& type, bool keep_alive) {
  return fmt::format("HTTP/1.1 {} {}\r\nServer: toy\r\nContent-Type: {}\r\nConnection: {}\r\n", status,
                     reason_of(status), type, keep_alive ? "keep-alive" : "close");
}

// Each connection takes a file descriptor; the soft limit is often 1024.
void raise_open_files() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

std::unique_ptr<asio::ssl::context> tls_context(const TlsFiles& files) {
  if (files.certificate.empty()) return nullptr;
  for (const std::string& file : {files.certificate, files.key})
    check(std::filesystem::is_regular_file(file) && std::ifstream(file).good(),
          "{}: cannot be read; give PEM files to --tls-cert and --tls-key", file);
  using asio::ssl::context;
  auto c = std::make_unique<context>(context::tls_server);
  c->set_options(context::default_workarounds | context::no_tlsv1 | context::no_tlsv1_1 | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_mode(c->native_handle(), SSL_MODE_RELEASE_BUFFERS);                  // of idle connections
  c->set_password_callback([](size_t, context::password_purpose) { return ""; });  // else OpenSSL asks the terminal
  error_code error;
  c->use_certificate_chain_file(files.certificate, error);
  check(!error, "{}: not a certificate in PEM form ({})", files.certificate, error.message());
  c->use_private_key_file(files.key, context::pem, error);
  check(!error, "{}: not the private key of {} in PEM form without a password ({})", files.key, files.certificate,
        error.message());
  check(SSL_CTX_check_private_key(c->native_handle()) == 1, "{}: not the private key of {}; they do not match",
        files.key, files.certificate);
  return c;
}

}  // namespace

class Connection;

struct HttpServer::State {
  State(const HttpLimits& l, const TlsFiles& files) : limits(l), tls(tls_context(files)) {}
  HttpLimits limits;
  std::unique_ptr<asio::ssl::context> tls;  // nullptr: plain HTTP
  asio::io_context io{1};
  tcp::acceptor acceptor{io};
  asio::signal_set signals{io};
  asio::steady_timer retry{io}, grace{io};
  std::function<void(std::shared_ptr<Exchange>)> handle;
  BadRequestReply bad;
  std::function<void()> on_stop;
  std::set<std::shared_ptr<Connection>> connections;
  bool stopping = false, ending = false;  // ending: all requests are answered
  size_t unsent = 0, bodies = 0;          // bytes of all connections
  std::unique_ptr<asio::thread_pool> worker;

  void accept();
  void wait_for_signal();
  void begin_stop();
  void end_if_done();
  void bound_unsent();
};

// One client. Everything runs on the thread of the io_context.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, HttpServer::State& server) : stream_(std::move(socket)), server_(server) {}

  // `full`: there is no room for its request.
  void start(bool full) {
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
  // Is a request in progress?
  bool busy() const { return busy_; }
  // Since when has the client taken nothing of what is there for it? None: nothing is.
  std::optional<std::chrono::steady_clock::time_point> behind_since() const {
    return unsent_ > 0 && !closed_ ? std::optional(taken_at_) : std::nullopt;
  }
  // Answers at once, whatever the client asks for.
  void refuse(const HttpReply& reply) {
    begin_exchange(false);
    send(reply, number_);
  }
  void close() {
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

  // ---- The reply to request `number`; that of an earlier one is dropped.
  void send(HttpReply reply, uint64_t number) {
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
  void begin(const std::string& type, uint64_t number) {
    if (!current(number)) return;
    chunked_ = http11_;
    keep_alive_ = keep_alive_ && chunked_;  // else the end of the connection is that of the reply
    put(header_of(200, type, keep_alive_) + "Cache-Control: no-cache\r\n" +
        (chunked_ ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n"));
  }
  void write(const std::string& part, uint64_t number) {
    if (!current(number) || part.empty()) return;
    put(chunked_ ? fmt::format("{:x}\r\n{}\r\n", part.size(), part) : part);
    if (unsent_ > server_.limits.unsent) close();
  }
  void end(uint64_t number) {
    if (current(number)) finish_reply(chunked_ ? "0\r\n\r\n" : "");
  }
  void on_gone(std::function<void()> call, uint64_t number) {
    if (number != number_) return;  // answered already
    if (closed_)
      call();
    else if (busy_ && !finishing_)
      gone_.push_back(std::move(call));
  }

 private:
  // Calls it with the stream of requests and replies.
  template <class Call>
  void with_stream(Call&& call) {
    if (tls_)
      call(*tls_);
    else
      call(stream_);
  }

  void shake_hands(bool full) {
    tls_.emplace(stream_, *server_.tls);
    tls_->async_handshake(asio::ssl::stream_base::server, buffer_.data(),
                          [self = shared_from_this(), full](error_code error, size_t used) {
                            if (self->closed_) return;
                            if (error) return self->close();
                            self->buffer_.consume(used);
                            self->take_requests(full);
                          });
  }

  void take_requests(bool full) {
    if (full)
      refuse(server_.bad(503, fmt::format("{} clients are connected already", server_.limits.connections)));
    else
      read_header(seconds(server_.limits.read_seconds));
  }

  bool current(uint64_t number) const { return !closed_ && busy_ && !finishing_ && number == number_; }

  void read_header(seconds limit) {
    parser_.emplace();
    parser_->header_limit(std::uint32_t(server_.limits.header));
    parser_->body_limit(server_.limits.body);
    stream_.expires_after(limit);
    with_stream([&](auto& stream) {
      http::async_read_header(stream, buffer_, *parser_,
                              [self = shared_from_this()](error_code error, size_t) { self->header_is_read(error); });
    });
  }

  void header_is_read(error_code error) {
    if (closed_) return;
    if (error) return refuse_what_was_read(error);
    stream_.expires_after(seconds(server_.limits.read_seconds));
    if (const auto length = parser_->content_length(); length && *length > server_.limits.body)
      return refuse_what_was_read(http::error::body_limit);
    const size_t body = parser_->chunked() ? server_.limits.body : size_t(parser_->content_length().value_or(0));
    if (server_.bodies + body > server_.limits.all_bodies)
      return refuse(server_.bad(503, "the server holds too many large requests; try again later"));
    server_.bodies += body, body_ = body;
    const auto expected = parser_->get()[http::field::expect];
    if (!beast::iequals(expected, "100-continue")) return read_body();
    with_stream([&](auto& stream) {
      asio::async_write(
          stream, asio::buffer(kContinue.data(), kContinue.size()),
          [self = shared_from_this()](error_code failed, size_t) { failed ? self->close() : self->read_body(); });
    });
  }

  void read_body() {
    if (closed_) return;
    with_stream([&](auto& stream) {
      http::async_read(stream, buffer_, *parser_, [self = shared_from_this()](error_code error, size_t) {
        if (self->closed_) return;
        error ? self->refuse_what_was_read(error) : self->request_is_read();
      });
    });
  }

  void refuse_what_was_read(error_code error) {
    if (error == http::error::body_limit)
      return refuse(server_.bad(413, fmt::format("the request's body is larger than {} bytes", server_.limits.body)));
    if (error == http::error::header_limit)
      return refuse(
          server_.bad(431, fmt::format("the request's header is larger than {} bytes", server_.limits.header)));
    const bool is_http = error.category() == http::make_error_code(http::error::bad_method).category();
    if (!is_http || error == http::error::end_of_stream || error == http::error::partial_message) return close();
    refuse(server_.bad(400, "the request is not valid HTTP: " + error.message()));
  }

  void request_is_read();

  void begin_exchange(bool keep_alive) {
    busy_ = true;
    finishing_ = false;
    chunked_ = false;
    keep_alive_ = keep_alive && !server_.stopping;
    ++number_;
    stream_.expires_never();
  }

  // A client that closes its side while it waits has gone.
  void watch() {
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

  void release_body() { server_.bodies -= std::exchange(body_, 0); }

  // The end of a TLS stream comes in a record; only reading it tells. The beginning of the next request is kept.
  void watch_tls() {
    tls_->async_read_some(buffer_.prepare(4096), [self = shared_from_this()](error_code error, size_t n) {
      self->watching_ = false;
      if (self->closed_) return;
      self->buffer_.commit(n);
      if (error && error != asio::error::operation_aborted) return self->close();
      if (!self->busy_) self->reply_is_sent();  // which has stopped this
    });
  }

  void put(std::string text) {
    if (unsent_ == 0) taken_at_ = std::chrono::steady_clock::now();
    unsent_ += text.size(), server_.unsent += text.size();
    out_.push_back(std::move(text));
    if (out_.size() == 1) write_next();
    server_.bound_unsent();  // may close this one
  }

  void write_next() {
    stream_.expires_after(seconds(server_.limits.read_seconds));
    with_stream([&](auto& stream) {
      stream.async_write_some(asio::buffer(out_.front().data() + sent_, out_.front().size() - sent_),
                              [self = shared_from_this()](error_code error, size_t n) { self->written(error, n); });
    });
  }

  void written(error_code error, size_t n) {
    if (closed_) return;
    if (error) return close();
    sent_ += n, unsent_ -= n, server_.unsent -= n;
    taken_at_ = std::chrono::steady_clock::now();
    if (sent_ == out_.front().size()) out_.pop_front(), sent_ = 0;
    if (!out_.empty()) return write_next();
    stream_.expires_never();
    if (finishing_) reply_is_sent();
  }

  void finish_reply(std::string last) {
    finishing_ = true;
    gone_.clear();
    if (!last.empty())
      put(std::move(last));
    else if (out_.empty())
      reply_is_sent();
  }

  void reply_is_sent() {
    busy_ = false;
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

  // The client may still be sending: closing now would take the reply from it.
  void finish_sending() {
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    drain();
  }

  void drain() {
    scrap_.resize(size_t(64) << 10);
    stream_.async_read_some(asio::buffer(scrap_), [self = shared_from_this()](error_code error, size_t n) {
      if (self->closed_) return;
      self->drained_ += n;
      error || self->drained_ > (size_t(1) << 30) ? self->close() : self->drain();
    });
  }

  void client_is_gone() {
    busy_ = false;
    const auto calls = std::move(gone_);
    gone_.clear();
    for (const auto& call : calls) call();
  }

  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

  beast::tcp_stream stream_;
  std::optional<asio::ssl::stream<beast::tcp_stream&>> tls_;
  HttpServer::State& server_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  uint64_t number_ = 0;  // of the request
  bool busy_ = false, finishing_ = false, closed_ = false, watching_ = false;
  bool keep_alive_ = false, chunked_ = false, http11_ = true, head_ = false;
  std::deque<std::string> out_;
  size_t sent_ = 0, unsent_ = 0, drained_ = 0;  // of the first of `out_`; of all; after the reply
  size_t body_ = 0;                             // counted in State::bodies
  std::chrono::steady_clock::time_point taken_at_;
  std::vector<char> scrap_;
  std::vector<std::function<void()>> gone_;
};

namespace {

// Sends every call to the thread of the connection.
class ExchangeOf : public Exchange {
 public:
  ExchangeOf(HttpRequest r, std::shared_ptr<Connection> connection, uint64_t number, asio::io_context& io)
      : Exchange(std::move(r)), connection_(std::move(connection)), number_(number), io_(io) {}
  void send(HttpReply reply) override {
    post([reply = std::move(reply)](Connection& c, uint64_t n) mutable { c.send(std::move(reply), n); });
  }
  void begin(const std::string& type) override {
    post([type](Connection& c, uint64_t n) { c.begin(type, n); });
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
  server_.bodies -= body_ - std::min(body_, message.body().size());  // no more than it took
  body_ = std::min(body_, message.body().size());
  begin_exchange(message.keep_alive());
  http11_ = message.version() >= 11;
  head_ = message.method() == http::verb::head;
  HttpRequest r;
  r.method = std::string(message.method_string());
  r.target = std::string(message.target());
  r.target = percent_decoded(r.target.substr(0, r.target.find('?')));
  r.authorization = std::string(message[http::field::authorization]);
  r.api_key = std::string(message["x-api-key"]);
  r.anthropic_version = std::string(message["anthropic-version"]);
  r.body = std::move(message.body());
  watch();
  auto exchange = std::make_shared<ExchangeOf>(std::move(r), shared_from_this(), number_, server_.io);
  asio::post(*server_.worker, [&server = server_, exchange] { server.handle(exchange); });
}

void HttpServer::State::accept() {
  acceptor.async_accept([this](error_code error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (error) {  // no file descriptor is left: others will be closed
      retry.expires_after(milliseconds(100));
      retry.async_wait([this](error_code stopped) {
        if (!stopped) accept();
      });
      return;
    }
    const auto connection = std::make_shared<Connection>(std::move(socket), *this);
    const bool full = connections.size() >= limits.connections;
    if (connections.size() < limits.connections + 256) {  // those beyond are closed without a word
      connections.insert(connection);
      connection->start(full);
    }
    accept();
  });
}

void HttpServer::State::wait_for_signal() {
  signals.async_wait([this](error_code error, int) {
    if (error) return;
    if (stopping) return io.stop();
    begin_stop();
    wait_for_signal();
  });
}

void HttpServer::State::begin_stop() {
  if (stopping) return;
  stopping = true;
  on_stop();
  grace.expires_after(seconds(limits.grace_seconds));
  grace.async_wait([this](error_code cancelled) {
    if (!cancelled) io.stop();
  });
  const auto all = connections;  // closing removes from it
  for (const auto& c : all)
    if (!c->busy()) c->close();
  end_if_done();
}

void HttpServer::State::end_if_done() {
  if (!stopping || ending) return;
  for (const auto& c : connections)
    if (c->busy()) return;
  ending = true;
  grace.expires_after(milliseconds(200));  // what was sent last is on its way
  grace.async_wait([this](error_code cancelled) {
    if (!cancelled) io.stop();
  });
}

void HttpServer::State::bound_unsent() {
  while (unsent > limits.all_unsent) {
    std::shared_ptr<Connection> slowest;
    for (const auto& c : connections)
      if (c->behind_since() && (!slowest || *c->behind_since() < *slowest->behind_since())) slowest = c;
    if (!slowest) return;
    slowest->close();
  }
}

HttpServer::HttpServer(const std::string& host, uint16_t port, const HttpLimits& limits, const TlsFiles& tls)
    : state_(std::make_unique<State>(limits, tls)) {
  raise_open_files();
  error_code error;
  const auto found = tcp::resolver(state_->io).resolve(host, std::to_string(port), tcp::resolver::passive, error);
  check(!error && !found.empty(), "host '{}': {}; use an address of this machine, such as 127.0.0.1", host,
        error.message());
  tcp::acceptor& a = state_->acceptor;
  const tcp::endpoint endpoint = found.begin()->endpoint();
  a.open(endpoint.protocol(), error);
  if (!error) a.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) a.bind(endpoint, error);
  check(error != asio::error::address_in_use, "port {} of {} is in use; choose another with --port", port, host);
  check(!error, "cannot listen on port {} of {}: {}; choose others with --port and --host", port, host,
        error.message());
  a.listen(1024, error);
  check(error != asio::error::address_in_use, "port {} of {} is in use; choose another with --port", port, host);
  check(!error, "cannot listen on port {} of {}: {}", port, host, error.message());
}

HttpServer::~HttpServer() = default;

uint16_t HttpServer::port() const { return state_->acceptor.local_endpoint().port(); }

void HttpServer::stop() {
  asio::post(state_->io, [this] { state_->begin_stop(); });
}

void HttpServer::run(const std::function<void(std::shared_ptr<Exchange>)>& handle, const BadRequestReply& bad,
                     const std::function<void()>& stopping) {
  State& s = *state_;
  s.handle = handle;
  s.bad = bad;
  s.on_stop = stopping;
  s.worker = std::make_unique<asio::thread_pool>(1);
  s.signals.add(SIGINT);
  s.signals.add(SIGTERM);
  s.wait_for_signal();
  s.accept();
  s.io.run();
  s.worker->stop();  // requests that nobody has looked at: their connections close
  s.worker->join();
  const auto all = s.connections;
  for (const auto& c : all) c->close();
}

}  // namespace toy::serve
