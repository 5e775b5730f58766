// libFuzzer: any bytes on a connection to the server of `toy serve` are answered as HTTP, or the connection is closed,
// and the next client is served. Complete requests are parsed as the endpoints' bodies.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <thread>

#include "serve/api/api.h"
#include "serve/api/reply_format.h"
#include "serve/http/http_server.h"

namespace {

using namespace toy::serve;

void require(bool so) {
  if (!so) std::abort();
}

void handle(const std::shared_ptr<Exchange>& exchange) {
  try {
    parse_completion(exchange->request.body, exchange->request.target == "/v1/chat/completions");
    exchange->begin("text/event-stream");
    exchange->write("data: {}\n\n");
    exchange->end();
  } catch (...) {
    const ApiError e = api_error(std::current_exception());
    exchange->send({.status = e.status, .body = error_body(e)});
  }
}

uint16_t start() {
  // Never destroyed: its thread runs until the end.
  static HttpServer& server = *new HttpServer("127.0.0.1", 0, {.body = 65536, .read_seconds = 2, .idle_seconds = 2});
  std::thread([] {
    server.run({.handle = handle,
                .bad = [](int status, const std::string& text) { return HttpReply{.status = status, .body = text}; }});
    std::_Exit(0);
  }).detach();
  return server.port();
}

// A system call's result; called again when a signal interrupts it: libFuzzer's timer sends one every few seconds.
template <class Call>
auto uninterrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// What comes back, until the server closes.
std::string answer_to(uint16_t port, std::string_view bytes) {
  const int s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  require(s >= 0);
  const auto* to = reinterpret_cast<const sockaddr*>(&address);
  require(uninterrupted([&] { return ::connect(s, to, sizeof address); }) == 0);
  while (!bytes.empty()) {
    const ssize_t n = uninterrupted([&] { return ::send(s, bytes.data(), bytes.size(), MSG_NOSIGNAL); });
    if (n <= 0) break;
    bytes.remove_prefix(size_t(n));
  }
  ::shutdown(s, SHUT_WR);
  std::string all(4096, 0);
  size_t got = 0;
  while (got < all.size()) {
    const ssize_t n = uninterrupted([&] { return ::recv(s, all.data() + got, all.size() - got, 0); });
    if (n <= 0) break;
    got += size_t(n);
  }
  ::close(s);
  all.resize(got);
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const uint16_t port = start();
  const std::string all = answer_to(port, {reinterpret_cast<const char*>(data), size});
  require(all.empty() || all.starts_with("HTTP/1.1 "));
  return 0;
}
