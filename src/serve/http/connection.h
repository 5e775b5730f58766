// The clients of an HttpServer, and what they share. Everything runs on the thread of its io_context.
#pragma once

#include <atomic>
#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <set>

#include "serve/http/http_server.h"

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
  HttpCalls calls;
  std::set<std::shared_ptr<Connection>> connections;
  bool accepting = false, stopping = false, ending = false;  // ending: all requests are answered
  size_t unsent = 0, bodies = 0;                             // bytes of all connections
  std::atomic<int> handling = 0;                             // handlers that are busy
  std::unique_ptr<asio::thread_pool> handlers;
  std::optional<asio::strand<asio::thread_pool::executor_type>> one_by_one;  // of the handlers, for large bodies

  void accept();
  void wait_for_signal();
  void run_until_stopped();
  bool handlers_end_within(std::chrono::milliseconds time) const;
  void begin_stop();
  void end_grace();
  void end_now();
  void end_if_done();
  void bound_unsent();
};

/// One client: reads its requests one after the other and sends the replies.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, HttpServer::State& server);

  // `full`: there is no room for its request.
  void start(bool full);
  // Is a request in progress?
  bool busy() const { return busy_; }
  // Since when has the client taken nothing of what is there for it? None: nothing is.
  std::optional<std::chrono::steady_clock::time_point> behind_since() const;
  // Answers a request in progress whose reply has not begun.
  void give_up(HttpReply reply);
  void close();

  // ---- The reply to request `number`; that of an earlier one is dropped.
  void send(HttpReply reply, uint64_t number);
  void begin(const std::string& type, uint64_t number);
  void write(const std::string& part, uint64_t number);
  void end(uint64_t number);
  void on_gone(std::function<void()> call, uint64_t number);
  // Nobody will answer it.
  void abandoned(uint64_t number);
  // Runs it; what it throws ends this connection.
  template <class Call>
  void guard(Call&& call) {
    try {
      call(*this);
    } catch (...) {
      broke();
    }
  }

 private:
  // A call of this connection that the io_context makes later. Where it never comes, for a lack of memory on the way,
  // the connection ends.
  template <class Call>
  class Mine {
   public:
    Mine(std::shared_ptr<Connection> c, Call call) : c_(std::move(c)), call_(std::move(call)) {}
    Mine(Mine&&) = default;
    Mine(const Mine&) = delete;
    Mine& operator=(const Mine&) = delete;
    ~Mine() {
      if (c_) c_->dropped();
    }
    template <class... Arguments>
    void operator()(Arguments... arguments) {
      const std::shared_ptr<Connection> c = std::move(c_);
      c->guard([&](Connection& self) { call_(self, arguments...); });
    }

   private:
    std::shared_ptr<Connection> c_;
    Call call_;
  };
  template <class Call>
  Mine<Call> mine(Call call) {
    return Mine<Call>(shared_from_this(), std::move(call));
  }
  void broke();
  void dropped() noexcept;

  // Calls it with the stream of requests and replies.
  template <class Call>
  void with_stream(Call&& call) {
    if (tls_)
      call(*tls_);
    else
      call(stream_);
  }

  // ---- Reading.
  void shake_hands(bool full);
  void take_requests(bool full);
  bool current(uint64_t number) const { return !closed_ && busy_ && !finishing_ && number == number_; }
  void read_request(std::chrono::seconds limit);
  void receive();
  void parse();
  void parse_header();
  void header_is_read();
  void note_header();
  void parse_body();
  // Answers before the request is complete. `whole`: it is understood, and others may follow if it has no body.
  void refuse(HttpReply reply, bool whole = false);
  void refuse(int status, const std::string& why);
  void refuse_what_was_read(error_code error);
  void request_is_read();
  void begin_exchange(bool keep_alive);
  // A client that closes its side while it waits has gone. The beginning of the next request is kept.
  void watch();
  void watch_for_hang_up();
  void drop_what_comes();
  void stop_watching();
  void release_body() { server_.bodies -= std::exchange(body_, 0); }

  // ---- Writing.
  std::string header_of(int status, const std::string& type) const;
  void put(std::string text);
  void write_next();
  void written(error_code error, size_t n);
  void finish_reply(std::string last);
  void reply_is_sent();
  // The client may still be sending: closing now would take the reply from it.
  void finish_sending();
  void drain();
  void client_is_gone() noexcept;
  void answered(int status) noexcept;

  static constexpr size_t kScrap = size_t(16) << 10;
  static constexpr std::chrono::seconds kEarly{10};  // for requests that fill all room before their time
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

  beast::tcp_stream stream_;
  std::optional<asio::ssl::stream<beast::tcp_stream&>> tls_;
  HttpServer::State& server_;
  asio::steady_timer hang_up_;
  std::string why_;  // of the request that is being refused
  // Bodies leave it as they come: it holds a header, or the size of a chunk with its extensions, or a trailer.
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<ArrivingBody>> parser_;
  std::function<void(uint64_t, beast::string_view, error_code&)> on_chunk_;
  HttpRequest request_;             // whose header was read; without the body
  std::shared_ptr<Notepad> notes_;  // of the request
  HttpHeaders reply_headers_;       // of every reply to it
  uint64_t number_ = 0;             // of the request
  bool busy_ = false, finishing_ = false, closed_ = false, watching_ = false, begun_ = false;
  bool keep_alive_ = false, chunked_ = false, http11_ = true, head_ = false;
  int status_ = 0;                             // of the reply
  size_t header_bytes_ = 0, chunk_bytes_ = 0;  // that were parsed; of extensions
  std::deque<std::string> out_;
  size_t sent_ = 0, unsent_ = 0, drained_ = 0;  // of the first of `out_`; of all; after the reply
  size_t body_ = 0;                             // counted in State::bodies
  std::chrono::steady_clock::time_point taken_at_;
  std::optional<std::chrono::steady_clock::time_point> full_since_;  // of requests that came too early
  std::optional<std::chrono::steady_clock::time_point> header_at_;   // of the request
  std::string client_;
  std::vector<char> scrap_;
  std::vector<std::function<void()>> gone_;
};

}  // namespace toy::serve
