// Requests as they come: their bytes, limits, and clients that go away. Replies are in connection_replies.cpp.
#include "serve/http/connection.h"

#include <fmt/format.h>
#include <poll.h>

#include <iterator>
#include <limits>

#include "serve/http/percent.h"
#include "toy/base/memory.h"

namespace toy::serve {

using std::chrono::seconds;

Connection::Connection(tcp::socket socket, HttpServer::State& server)
    : stream_(std::move(socket)),
      server_(server),
      hang_up_(server.io),
      // More than a header, so that its limit is the one that counts.
      buffer_(2 * server.limits.header),
      on_chunk_([this](uint64_t, beast::string_view extensions, error_code& error) {
        chunk_bytes_ += extensions.size();
        error = chunk_bytes_ > server_.limits.header ? make_error_code(http::error::buffer_overflow) : error_code();
      }) {}

void Connection::start(bool full) {
  error_code ignored;
  stream_.socket().set_option(tcp::no_delay(true), ignored);
  const tcp::endpoint peer = stream_.socket().remote_endpoint(ignored);
  if (!ignored) client_ = peer.address().to_string();
  if (!server_.tls) return take_requests(full);
  stream_.expires_after(seconds(server_.limits.read_seconds));
  beast::async_detect_ssl(stream_, buffer_, mine([full](Connection& c, error_code error, bool is_tls) {
                            if (c.closed_) return;
                            if (error) return c.close();
                            if (!is_tls) return c.refuse(400, "this port takes TLS only; use https://");
                            c.shake_hands(full);
                          }));
}

void Connection::shake_hands(bool full) {
  tls_.emplace(stream_, *server_.tls);
  tls_->async_handshake(asio::ssl::stream_base::server, buffer_.data(),
                        mine([full](Connection& c, error_code error, size_t used) {
                          if (c.closed_) return;
                          if (error) return c.close();
                          c.buffer_.consume(used);
                          c.take_requests(full);
                        }));
}

void Connection::take_requests(bool full) {
  if (full)
    refuse(503, fmt::format("{} clients are connected already", server_.limits.connections));
  else
    read_request(seconds(server_.limits.read_seconds));
}

void Connection::read_request(seconds limit) {
  parser_.emplace();
  parser_->header_limit(std::uint32_t(server_.limits.header));
  parser_->body_limit(std::numeric_limits<std::uint64_t>::max());  // until it is known who asks
  parser_->on_chunk_header(on_chunk_);
  header_bytes_ = chunk_bytes_ = 0;
  stream_.expires_after(limit);
  parse();
}

void Connection::receive() {
  const size_t room = beast::read_size(buffer_, size_t(64) << 10);
  if (room == 0) return refuse_what_was_read(http::error::buffer_overflow);
  with_stream([&](auto& stream) {
    stream.async_read_some(buffer_.prepare(room), mine([](Connection& c, error_code error, size_t n) {
                             if (c.closed_) return;
                             c.buffer_.commit(n);
                             error ? c.close() : c.parse();
                           }));
  });
}

void Connection::parse() {
  if (buffer_.size() == 0) return receive();
  if (parser_->is_header_done())
    parse_body();
  else
    parse_header();
}

// The parser takes fields as they come, so their sum has to be bounded here.
void Connection::parse_header() {
  constexpr unsigned char kHandshake = 0x16;  // the first byte of TLS
  if (!tls_ && header_bytes_ == 0 && *static_cast<const unsigned char*>(buffer_.data().data()) == kHandshake)
    return refuse(400,
                  "the client speaks https, and this server http: write http://, or start it with --tls-cert and "
                  "--tls-key");
  error_code error;
  const size_t used = parser_->put(buffer_.data(), error);
  buffer_.consume(used);
  header_bytes_ += used;
  const auto& fields = parser_->get();
  if (header_bytes_ > server_.limits.header ||
      size_t(std::distance(fields.begin(), fields.end())) > server_.limits.fields)
    error = http::error::header_limit;
  if (error && error != http::error::need_more) return refuse_what_was_read(error);
  if (!parser_->is_header_done()) return receive();
  header_is_read();
}

void Connection::note_header() {
  const auto& fields = parser_->get();
  const auto text = [&fields](auto name) { return std::string(fields[name]); };
  HttpRequest& r = request_;
  r = {};
  r.method = std::string(fields.method_string());
  r.target = plain_target(std::string(fields.target()));
  r.content_encoding = text(http::field::content_encoding);
  r.authorization = text(http::field::authorization);
  r.api_key = text("x-api-key");
  r.anthropic_version = text("anthropic-version");
  r.host = target_host(std::string_view(fields.target().data(), fields.target().size()));
  if (r.host.empty()) r.host = text(http::field::host);
  r.origin = text(http::field::origin);
  r.fetch_site = text("sec-fetch-site");
  r.fetch_mode = text("sec-fetch-mode");
  r.content_type = text(http::field::content_type);
  r.asked_method = text(http::field::access_control_request_method);
  r.asked_headers = text(http::field::access_control_request_headers);
  r.client = client_;
}

// Whoever may not ask sends no body.
void Connection::header_is_read() {
  header_at_ = std::chrono::steady_clock::now();
  stream_.expires_after(seconds(server_.limits.read_seconds));
  const auto& fields = parser_->get();
  http11_ = fields.version() >= 11;
  head_ = fields.method() == http::verb::head;
  note_header();
  const size_t codings = fields.count(http::field::transfer_encoding);
  if (codings > 0 && (codings > 1 || !beast::iequals(fields[http::field::transfer_encoding], "chunked")))
    return refuse(501, "Transfer-Encoding: only chunked is supported");
  if (codings > 0 && !http11_) return refuse(400, "Transfer-Encoding needs HTTP/1.1");
  if (fields.count(http::field::host) > 1) return refuse(400, "the request has several Hosts");
  if (http11_ && fields[http::field::host].empty()) return refuse(400, "the request has no Host, which HTTP/1.1 needs");
  if (fields.count(http::field::origin) > 1) return refuse(400, "the request has several Origins");
  if (server_.calls.admit) {
    Admission a = server_.calls.admit(request_);
    reply_headers_ = std::move(a.headers);
    if (a.reply) return refuse(std::move(*a.reply), true);
  }
  if (const auto length = parser_->content_length(); length && *length > server_.limits.body)
    return refuse_what_was_read(http::error::body_limit);
  if (parser_->is_done()) return request_is_read();
  parser_->body_limit(server_.limits.body);
  parser_->eager(true);  // as many chunks at once as there are
  if (!beast::iequals(fields[http::field::expect], "100-continue")) return parse();
  with_stream([&](auto& stream) {
    asio::async_write(stream, asio::buffer(kContinue.data(), kContinue.size()),
                      mine([](Connection& c, error_code failed, size_t) {
                        if (!c.closed_) failed ? c.close() : c.parse();
                      }));
  });
}

// Only what has arrived counts: announcing a large body takes no room from others.
void Connection::parse_body() {
  error_code error;
  buffer_.consume(parser_->put(buffer_.data(), error));
  const size_t body = parser_->get().body().size();
  server_.bodies += body - body_, body_ = body;
  if (error && error != http::error::need_more) return refuse_what_was_read(error);
  if (server_.bodies > server_.limits.all_bodies)
    return refuse(503, "the server holds too many large requests; try again later");
  parser_->is_done() ? request_is_read() : receive();
}

void Connection::refuse_what_was_read(error_code error) {
  const HttpLimits& limits = server_.limits;
  if (error == http::error::body_limit)
    return refuse(413, fmt::format("the request's body is larger than {}", format_bytes(limits.body)));
  if (error == http::error::header_limit)
    return refuse(431, fmt::format("the request's header is larger than {}, or has more than {} fields",
                                   format_bytes(limits.header), limits.fields));
  if (error == http::error::buffer_overflow)
    return refuse(400,
                  fmt::format("the sizes or extensions of the request's chunks, or its trailer, are larger than {}",
                              format_bytes(limits.header)));
  refuse(400, "the request is not valid HTTP: " + error.message());
}

void Connection::refuse(int status, const std::string& why) {
  why_ = why;
  request_.client = client_;  // also where no header was read
  refuse(server_.calls.bad(status, why));
}

void Connection::refuse(HttpReply reply, bool whole) {
  const bool complete = whole && parser_->is_done();
  begin_exchange(complete && parser_->keep_alive());
  notes_->change([this](RequestNotes& n) { n.error = std::exchange(why_, {}); });
  parser_.reset();
  release_body();
  send(std::move(reply), number_);
}

void Connection::begin_exchange(bool keep_alive) {
  busy_ = true;
  finishing_ = chunked_ = begun_ = false;
  status_ = 0;
  full_since_.reset();
  notes_ = std::make_shared<Notepad>();
  keep_alive_ = keep_alive && !server_.stopping;
  ++number_;
  stream_.expires_never();
}

void Connection::watch() {
  if (watching_ || closed_) return;
  watching_ = true;
  const size_t room = std::min(beast::read_size(buffer_, 4096), buffer_.max_size() - buffer_.size());
  if (room == 0) return watch_for_hang_up();
  full_since_.reset();
  with_stream([&](auto& stream) {
    stream.async_read_some(buffer_.prepare(room), mine([](Connection& c, error_code error, size_t n) {
                             c.watching_ = false;
                             if (c.closed_) return;
                             c.buffer_.commit(n);
                             if (error && error != asio::error::operation_aborted) return c.close();
                             c.busy_ ? c.watch() : c.reply_is_sent();  // which has stopped this
                           }));
  });
}

// There is no room for more requests that come too early. The end of the connection comes after them, so at some time
// they are dropped, and the connection ends with this reply.
void Connection::watch_for_hang_up() {
  const auto now = std::chrono::steady_clock::now();
  if (!full_since_) full_since_ = now;
  if (now - *full_since_ >= kEarly) return drop_what_comes();
  hang_up_.expires_after(std::chrono::milliseconds(250));
  hang_up_.async_wait(mine([](Connection& c, error_code) {
    c.watching_ = false;
    if (c.closed_) return;
    pollfd p{c.stream_.socket().native_handle(), POLLRDHUP, 0};
    if (::poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR))) return c.close();
    c.busy_ ? c.watch() : c.reply_is_sent();
  }));
}

void Connection::drop_what_comes() {
  keep_alive_ = false;
  scrap_.resize(kScrap);
  with_stream([&](auto& stream) {
    stream.async_read_some(asio::buffer(scrap_), mine([](Connection& c, error_code error, size_t) {
                             c.watching_ = false;
                             if (c.closed_) return;
                             if (error && error != asio::error::operation_aborted) return c.close();
                             c.busy_ ? c.watch() : c.reply_is_sent();
                           }));
  });
}

void Connection::stop_watching() {
  hang_up_.cancel();
  stream_.cancel();
}

namespace {

// Sends every call to the thread of the connection.
class ExchangeOf : public Exchange {
 public:
  ExchangeOf(HttpRequest r, std::shared_ptr<Notepad> notes, std::shared_ptr<Connection> connection, uint64_t number,
             asio::io_context& io)
      : Exchange(std::move(r), std::move(notes)), connection_(std::move(connection)), number_(number), io_(io) {}
  ~ExchangeOf() override {
    try {
      if (!complete_) post([](Connection& c, uint64_t n) { c.abandoned(n); });
    } catch (...) {  // there is no memory for this; the client waits in vain
    }
  }
  void send(HttpReply reply) override {
    post([reply = std::move(reply)](Connection& c, uint64_t n) mutable { c.send(std::move(reply), n); });
    complete_ = true;
  }
  void begin(const std::string& type) override {
    post([type](Connection& c, uint64_t n) { c.begin(type, n); });
  }
  void write(std::string part) override {
    post([part = std::move(part)](Connection& c, uint64_t n) { c.write(part, n); });
  }
  void end(std::string last) override {
    post([last = std::move(last)](Connection& c, uint64_t n) {
      c.write(last, n);
      c.end(n);
    });
    complete_ = true;
  }
  void on_gone(std::function<void()> call) override {
    post([call = std::move(call)](Connection& c, uint64_t n) { c.on_gone(call, n); });
  }

 private:
  template <class Call>
  void post(Call call) {
    asio::post(io_, [c = connection_, n = number_, call = std::move(call)]() mutable {
      c->guard([&](Connection& connection) { call(connection, n); });
    });
  }
  std::shared_ptr<Connection> connection_;
  uint64_t number_;
  asio::io_context& io_;
  std::atomic<bool> complete_ = false;
};

}  // namespace

void Connection::request_is_read() {
  begin_exchange(parser_->keep_alive());
  HttpRequest r = request_;
  r.body = std::move(parser_->get().body());
  parser_.reset();
  const bool quick = head_ || r.method == "GET";
  if (!quick) watch();  // else its reply is there before the client could have gone
  const bool large = r.body.size() > HttpServer::kLargeBody;
  auto exchange = std::make_shared<ExchangeOf>(std::move(r), notes_, shared_from_this(), number_, server_.io);
  if (quick) return server_.calls.handle(exchange);
  auto handle = [&server = server_, exchange] {
    ++server.handling;
    try {
      server.calls.handle(exchange);
    } catch (...) {  // the exchange sees that it has no answer
    }
    --server.handling;
  };
  if (large)
    asio::post(*server_.one_by_one, std::move(handle));
  else
    asio::post(*server_.handlers, std::move(handle));
}

}  // namespace toy::serve
