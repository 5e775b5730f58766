// HTTP/1.1 on a socket, with or without TLS, event-driven: one thread waits for all connections, a few others handle
// requests. What a client sends or leaves out costs bounded memory and time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace toy::serve {

/// What a client may take up.
struct HttpLimits {
  size_t body = size_t(8) << 20;     ///< bytes of a request's body
  size_t header = size_t(16) << 10;  ///< bytes of its header; also of the extensions of all its chunks, and its trailer
  size_t fields = 256;               ///< in its header
  size_t unsent = size_t(4) << 20;   ///< bytes of a stream that the client has not taken; beyond, it is cut off
  /// Bytes of all replies that clients have not taken; beyond, those are cut off who took nothing for the longest time.
  size_t all_unsent = size_t(256) << 20;
  size_t all_bodies = size_t(256) << 20;  ///< bytes that arrived of all bodies, until their replies end; beyond: 503
  size_t connections = 4096;
  int read_seconds = 30;   ///< to send a request, and to take some bytes of a reply
  int idle_seconds = 120;  ///< between requests
  int grace_seconds = 30;  ///< to finish requests after SIGTERM
  int last_seconds = 5;    ///< to answer the others after that
};

/// What a client asks for. What its header says is known before its body is read.
struct HttpRequest {
  std::string method, target;                             ///< "POST", "/v1/completions": as plain_target()
  std::string content_encoding;                           ///< Content-Encoding, or ""
  std::string authorization, api_key, anthropic_version;  ///< headers (the second is X-Api-Key), or ""
  std::string host, origin, fetch_site, fetch_mode;       ///< Host, Origin, Sec-Fetch-Site, Sec-Fetch-Mode, or ""
  std::string content_type;                               ///< Content-Type, or ""
  std::string asked_method, asked_headers;  ///< Access-Control-Request-Method and -Headers of a preflight, or ""
  std::string client;                       ///< the address
  int64_t key = 0;                          ///< which API key it has, from 1, as HttpCalls::admit says; 0: none
  std::string body;
};

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

/// A complete reply.
struct HttpReply {
  int status = 200;
  std::string body;
  std::string type = "application/json";
  HttpHeaders headers = {};
};

/// What is said of a request where it is logged and counted.
struct RequestNotes {
  int status = 0;       ///< in place of that of the reply, whose header was sent before an error; 0: none
  int64_t prompt = -1;  ///< tokens; -1: it is no request for texts
  int64_t cached = 0;   ///< tokens of the prompt that were not computed again
  int64_t tokens = 0;   ///< generated
  double first = -1;    ///< seconds until the first token; -1: there was none
  std::string ignored;  ///< fields of the request without an effect, with commas between: the header X-Toy-Ignored
  std::string error;    ///< why what came is no request, or beyond a limit
};

/// The notes of one request. Any thread may change and read them.
class Notepad {
 public:
  template <class Change>
  void change(Change&& call) {
    const std::scoped_lock lock(mutex_);
    call(notes_);
  }
  RequestNotes notes() const {
    const std::scoped_lock lock(mutex_);
    return notes_;
  }

 private:
  mutable std::mutex mutex_;
  RequestNotes notes_;
};

/// A request and the way to answer it. Any thread may call it; what is sent after the client has gone is dropped.
/// Either send() once, or begin(), any number of write(), and end(). One that is destroyed before ends the connection.
class Exchange {
 public:
  virtual ~Exchange() = default;
  const HttpRequest request;
  const std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
  virtual void send(HttpReply reply) = 0;
  /// A reply that comes in parts.
  virtual void begin(const std::string& type) = 0;
  virtual void write(std::string part) = 0;
  /// With a last part, perhaps: a client that has it may leave, and is not taken for one that left before the end.
  virtual void end(std::string last = {}) = 0;
  /// Calls this once if the client goes away before the end of the reply, perhaps at once.
  virtual void on_gone(std::function<void()> call) = 0;
  /// Changes what is said of the request: `change(RequestNotes&)`.
  template <class Change>
  void note(Change&& change) {
    notes_->change(change);
  }

  RequestNotes notes() const { return notes_->notes(); }

 protected:
  explicit Exchange(HttpRequest r, std::shared_ptr<Notepad> notes = std::make_shared<Notepad>())
      : request(std::move(r)), notes_(std::move(notes)) {}

 private:
  const std::shared_ptr<Notepad> notes_;
};

/// The reply to a request that is not HTTP, or beyond a limit.
using BadRequestReply = std::function<HttpReply(int status, const std::string& message)>;

/// What follows from the header of a request.
struct Admission {
  std::optional<HttpReply> reply = {};  ///< the reply, whatever the body is; none: the body is read, and handled
  HttpHeaders headers = {};             ///< of every reply to it
};

/// A request whose reply is complete, or whose client has gone before (status 499).
struct Answered {
  const HttpRequest& request;  ///< without its body
  int status = 0;
  double seconds = 0;  ///< since its header was read
  RequestNotes notes;
};

/// What a server calls. All but `handle` are called on the thread of the connections, where they must be quick; none
/// may throw but for a lack of memory, which ends the request with status 503.
struct HttpCalls {
  /// Called for GET and HEAD on the thread of the connections, and for other methods on kHandlers threads at once.
  std::function<void(std::shared_ptr<Exchange>)> handle;
  BadRequestReply bad;
  /// It begins to stop, with so many requests that are not answered; others are still handed on, and have to be
  /// refused.
  std::function<void(size_t requests)> stopping = {};
  /// HttpLimits::grace_seconds are over: all have to be answered.
  std::function<void()> ending = {};
  std::function<Admission(HttpRequest& header)> admit = {};
  std::function<void(const Answered&)> answered = {};
  /// At the end handlers are still busy. Where it returns, they are waited for.
  std::function<void()> stuck = {};
};

/// The PEM files of a server that speaks TLS.
struct TlsFiles {
  std::string certificate;  ///< the server's, and those that lead to a known authority; "": plain HTTP
  std::string key;          ///< its private key, not encrypted
};

/// Listens on one address. Throws Error{bad_input} where it cannot be had: a port in use, an unknown host; and for
/// files that are not a certificate and its key.
class HttpServer {
 public:
  HttpServer(const std::string& host, uint16_t port, const HttpLimits& limits, const TlsFiles& tls = {});
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// The port that it has: the system's choice for port 0.
  uint16_t port() const;
  /// Can no other machine connect?
  bool loopback() const;
  /// Serves until stop(), or SIGINT or SIGTERM. Then idle connections are closed, requests in progress are finished,
  /// and it returns. Another signal ends the process at once, whatever it does.
  void run(const HttpCalls& calls);
  /// As a first signal. Any thread may call it.
  void stop();
  static constexpr int kHandlers = 2;
  static constexpr size_t kLargeBody = 64 << 10;  ///< larger ones are read one by one: others need not wait for them

  struct State;  ///< of its connections

 private:
  std::unique_ptr<State> state_;
};

}  // namespace toy::serve
