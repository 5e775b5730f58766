// A server without a model, whose handlers a test brings.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "serve/http/http_server.h"

namespace toy::serve {

class PlainServer {
 public:
  using Handle = std::function<void(const std::shared_ptr<Exchange>&)>;

  explicit PlainServer(const HttpLimits& limits = {}, Handle handle = echo, HttpCalls calls = {})
      : http_("127.0.0.1", 0, limits), port_(http_.port()) {
    calls.handle = std::move(handle);
    calls.bad = [](int status, const std::string& message) {
      return HttpReply{.status = status, .body = message, .type = "text/plain"};
    };
    thread_ = std::thread([this, calls = std::move(calls)] { http_.run(calls); });
  }
  ~PlainServer() {
    http_.stop();
    thread_.join();
  }
  PlainServer(const PlainServer&) = delete;
  PlainServer& operator=(const PlainServer&) = delete;
  uint16_t port() const { return port_; }
  HttpServer& http() { return http_; }

  /// Answers with the body and who is asking.
  static void echo(const std::shared_ptr<Exchange>& e) {
    e->send({.body = e->request.authorization + "[" + e->request.body + "]", .type = "text/plain"});
  }

 private:
  HttpServer http_;
  uint16_t port_;
  std::thread thread_;
};

}  // namespace toy::serve
