// The clients of an HttpServer, and what they share. Everything runs on the thread of its io_context.
#pragma once

#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <deque>
#include <optional>
#include <set>

#include "serve/http_server.h"

namespace toy::serve {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using boost::system::error_code;

class Connection;

/// A string that has room for what has arrived only, whatever length the header announces.
struct ArrivingBody : http::string_body {
  struct reader : http::string_body::reader {
    using http::string_body::reader::reader;
    void init(const boost::optional<std::uint64_t>&, error_code& error) { error = {}; }
  };
};

/// What the connections of a server share.
struct HttpServer::State {
  State(const HttpLimits& l, std::unique_ptr<asio::ssl::context> t) : limits(l), tls(std::move(t)) {}
  HttpLimits limits;
  std::unique_ptr<asio::ssl::context> tls;  // nullptr: plain HTTP
  asio::io_context io{1};
  tcp::acceptor acceptor{io};
  asio::signal_set signals{io};
  asio::steady_timer retry{io}, grace{io};
  std::function<void(std::shared_ptr<Exchange>)> handle;
  BadRequestReply bad;
  std::function<void()> on_stop, on_grace_end;
  std::set<std::shared_ptr<Connection>> connections;
  bool stopping = false, ending = false;  // ending: all requests are answered
  size_t unsent = 0, bodies = 0;          // bytes of all connections
  std::unique_ptr<asio::thread_pool> handlers;

  void accept();
  void wait_for_signal();
  void begin_stop();
  void end_grace();
  void end_if_done();
  void bound_unsent();
};

/// One client: reads its requests one after the other and sends the replies.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, HttpServer::State& server) : stream_(std::move(socket)), server_(server) {}

  // `full`: there is no room for its request.
  void start(bool full);
  // Is a request in progress?
  bool busy() const { return busy_; }
  // Since when has the client taken nothing of what is there for it? None: nothing is.
  std::optional<std::chrono::steady_clock::time_point> behind_since() const;
  // Answers at once, whatever the client asks for.
  void refuse(const HttpReply& reply);
  void close();

  // ---- The reply to request `number`; that of an earlier one is dropped.
  void send(HttpReply reply, uint64_t number);
  void begin(const std::string& type, const std::string& headers, uint64_t number);
  void write(const std::string& part, uint64_t number);
  void end(uint64_t number);
  void on_gone(std::function<void()> call, uint64_t number);

 private:
  // Calls it with the stream of requests and replies.
  template <class Call>
  void with_stream(Call&& call) {
    if (tls_)
      call(*tls_);
    else
      call(stream_);
  }

  void shake_hands(bool full);
  void take_requests(bool full);
  bool current(uint64_t number) const { return !closed_ && busy_ && !finishing_ && number == number_; }
  void read_header(std::chrono::seconds limit);
  void header_is_read(error_code error);
  void read_body();
  void part_is_read();
  void refuse_what_was_read(error_code error);
  void request_is_read();
  void begin_exchange(bool keep_alive);
  // A client that closes its side while it waits has gone.
  void watch();
  void release_body() { server_.bodies -= std::exchange(body_, 0); }
  // The end of a TLS stream comes in a record; only reading it tells. The beginning of the next request is kept.
  void watch_tls();
  void put(std::string text);
  void write_next();
  void written(error_code error, size_t n);
  void finish_reply(std::string last);
  void reply_is_sent();
  // The client may still be sending: closing now would take the reply from it.
  void finish_sending();
  void drain();
  void client_is_gone();

  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

  beast::tcp_stream stream_;
  std::optional<asio::ssl::stream<beast::tcp_stream&>> tls_;
  HttpServer::State& server_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<ArrivingBody>> parser_;
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

}  // namespace toy::serve
