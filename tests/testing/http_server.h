// A small HTTP server on 127.0.0.1 that can misbehave.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace toy::testing {

struct HttpRequest {
  std::string target;        ///< "/a/b?c"
  std::string head;          ///< all lines, in lower case but for the target
  uint64_t range_begin = 0;  ///< of "range: bytes=N-"
  bool has_range = false;
};

/// All that is sent: status line, headers, body, whether they fit together or not. The connection is closed then.
using HttpHandler = std::function<std::string(const HttpRequest&)>;

inline std::string http_answer(const std::string& status, const std::string& headers, const std::string& body) {
  return "HTTP/1.1 " + status + "\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
         headers + "\r\n" + body;
}

class HttpServer {
 public:
  explicit HttpServer(HttpHandler handler) : handler_(std::move(handler)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listener_, 8) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
      throw std::runtime_error("no server on 127.0.0.1");
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~HttpServer() {
    stop_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::string url(const std::string& host = "127.0.0.1") const {
    return "http://" + host + ":" + std::to_string(port_);
  }
  std::vector<HttpRequest> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void serve() {
    while (!stop_) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      std::string text;
      char buffer[4096];
      for (ssize_t n = 0; text.find("\r\n\r\n") == text.npos && (n = ::recv(fd, buffer, sizeof buffer, 0)) > 0;)
        text.append(buffer, size_t(n));
      HttpRequest r;
      if (const size_t begin = text.find(' '); begin != text.npos)
        r.target = text.substr(begin + 1, text.find(' ', begin + 1) - begin - 1);
      for (const char c : text) r.head += char(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
      if (const size_t range = r.head.find("\r\nrange: bytes="); range != r.head.npos) {
        r.has_range = true;
        std::from_chars(r.head.data() + range + 15, r.head.data() + r.head.size(), r.range_begin);
      }
      {
        const std::lock_guard lock(mutex_);
        requests_.push_back(r);
      }
      const std::string answer = handler_(r);
      for (size_t sent = 0; sent < answer.size();) {
        const ssize_t n = ::send(fd, answer.data() + sent, answer.size() - sent, MSG_NOSIGNAL);
        if (n <= 0) break;
        sent += size_t(n);
      }
      ::shutdown(fd, SHUT_WR);
      while (::recv(fd, buffer, sizeof buffer, 0) > 0) {
      }
      ::close(fd);
    }
  }

  HttpHandler handler_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  std::vector<HttpRequest> requests_;
  std::thread thread_;
};

}  // namespace toy::testing
