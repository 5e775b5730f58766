// HTTP/1.1 on a socket, with or without TLS, event-driven: one thread waits for all connections, a few others handle
// requests. What a client sends or leaves out costs bounded memory and time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace toy::serve {

/// What a client may take up.
struct HttpLimits {
  size_t body = size_t(8) << 20;     ///< bytes of a request's body
  size_t header = size_t(16) << 10;  ///< bytes of its header
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

/// A request that was read completely.
struct HttpRequest {
  std::string method, target;                             ///< "POST", "/v1/completions": as plain_target()
  std::string content_encoding;                           ///< Content-Encoding, or ""
  std::string authorization, api_key, anthropic_version;  ///< headers (the second is X-Api-Key), or ""
  std::string body;
};

/// A complete reply.
struct HttpReply {
  int status = 200;
  std::string body;
  std::string type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};
};

/// What is said of a request in the header of its reply. Any thread may change it.
struct RequestNotes {
  std::string ignored;  ///< fields of the request without an effect, with commas between
};

/// A request and the way to answer it. Any thread may call it; what is sent after the client has gone is dropped.
/// Either send() once, or begin(), any number of write(), and end().
class Exchange {
 public:
  virtual ~Exchange() = default;
  const HttpRequest request;
  virtual void send(HttpReply reply) = 0;
  /// A reply that comes in parts.
  virtual void begin(const std::string& type) = 0;
  virtual void write(std::string part) = 0;
  virtual void end() = 0;
  /// Calls this once if the client goes away before the end of the reply, perhaps at once.
  virtual void on_gone(std::function<void()> call) = 0;

  /// Changes what is said of the request.
  template <class Change>
  void note(Change&& change) {
    const std::scoped_lock lock(mutex_);
    change(notes_);
  }
  RequestNotes notes() const {
    const std::scoped_lock lock(mutex_);
    return notes_;
  }

 protected:
  explicit Exchange(HttpRequest r) : request(std::move(r)) {}

 private:
  mutable std::mutex mutex_;
  RequestNotes notes_;
};

/// The reply to a request that is not HTTP, or beyond a limit.
using BadRequestReply = std::function<HttpReply(int status, const std::string& message)>;

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
  /// Serves until stop(), or SIGINT or SIGTERM. Then idle connections are closed, requests in progress are finished (a
  /// second signal ends them), and it returns. New ones are still handed on
  /// meanwhile: `handle` has to refuse them. `handle` must not throw. It is called for GET and HEAD on the thread of
  /// the connections, where it must be quick, and for other methods on kHandlers threads at once. `stopping` is told
  /// when it begins to stop, and `ending` when HttpLimits::grace_seconds are over: then all have to be answered.
  void run(const std::function<void(std::shared_ptr<Exchange>)>& handle, const BadRequestReply& bad,
           const std::function<void()>& stopping, const std::function<void()>& ending = {});
  /// As a first signal. Any thread may call it.
  void stop();
  static constexpr int kHandlers = 2;  ///< one goes on while a large request keeps the other busy

  struct State;  ///< of its connections

 private:
  std::unique_ptr<State> state_;
};

}  // namespace toy::serve
