// A server on a socket of this machine, and a client that can misbehave.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>

#include "serve/server.h"
#include "testing/adapters.h"
#include "testing/models.h"
#include "toy/backend/devices.h"
#include "toy/base/json_text.h"

namespace toy::serve {

/// One connection.
class Client {
 public:
  explicit Client(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~Client() { hang_up(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// False: the other side has closed.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(size_t(n));
    }
    return true;
  }
  /// What has come until `end` is in it, the other side closes, or nothing comes for a minute.
  std::string receive(std::string_view end = {}) {
    std::string& all = received_;
    char buffer[65536];
    while (end.empty() || all.find(end) == all.npos) {
      pollfd p{socket_, POLLIN, 0};
      const int ready = ::poll(&p, 1, 60000);
      if (ready < 0 && errno == EINTR) continue;
      if (ready <= 0) {
        ADD_FAILURE() << "nothing came";
        break;
      }
      const ssize_t n = ::recv(socket_, buffer, sizeof buffer, 0);
      if (n <= 0) break;
      all.append(buffer, size_t(n));
    }
    return all;
  }
  int socket() const { return socket_; }
  void hang_up() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }

 private:
  int socket_;
  std::string received_;
};

struct Answer {
  int status = 0;
  std::string header, body;
  nlohmann::ordered_json json() const { return parse_json<nlohmann::ordered_json>(body); }
  std::string error() const { return json()["error"]["message"].get<std::string>(); }
};

inline std::string post(const std::string& target, const std::string& body, const std::string& headers = "") {
  return "POST " + target + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

inline const std::string kChat =
    "{% for m in messages %}{% if m.content == 'no' %}{{ raise_exception('not this one') }}{% endif %}"
    "<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";

/// Waits until it is so, or fails after some seconds.
inline void wait_until(const std::function<bool()>& so) {
  for (int i = 0; i < 500 && !so(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(so());
}

/// A template of a model that writes calls of tools as JSON between tags.
inline const std::string kCallingChat =
    "{% for t in tools or [] %}[{{ t.function.name }}]{% endfor %}{# <tool_call> #}"
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif "
    "%}";
/// A schema whose values are short.
inline const std::string kShortSchema =
    R"({"type": "object", "properties": {"days": {"type": "integer", "minimum": 1, "maximum": 9}},)"
    R"( "required": ["days"], "additionalProperties": false})";

/// A server with a random model on bytes and a chat template. Adapter i of its options is testing::add_adapter() with
/// seed i.
class Loopback {
 public:
  explicit Loopback(DecoderOptions decoder = {.sequences = 4}, ServerOptions options = {}, const TlsFiles& tls = {},
                    int64_t window = 0, const std::string& chat = kChat)
      : device_(make_cpu_device(2)), model_(random_model(spec(), *device_, 3, 2.0)), options_(std::move(options)) {
    model_.spec.layers.back().window = window;
    model_.tokenizer = make_byte_tokenizer();
    options_.name = "tiny";
    for (size_t i = 0; i < options_.adapters.size(); ++i) testing::add_adapter(model_, i);
    decoder.adapters_by_sequence = !options_.adapters.empty();
    chat_.emplace(chat);
    decoder.hidden = true;
    decoder_ = std::make_unique<Decoder>(*device_, model_, decoder);
    http_ = std::make_unique<HttpServer>("127.0.0.1", 0, options_.http, tls);
    port_ = http_->port();
    thread_ = std::thread([this] { serve(*http_, *decoder_, model_, chat_, options_); });
  }
  ~Loopback() { stop(); }
  static ModelSpec spec() {
    return toy::testing::small_model("tiny", {.vocab = 256,
                                              .d_model = 40,
                                              .context = 512,
                                              .tied = false,
                                              .heads = 4,
                                              .kv_heads = 2,
                                              .d_head = 10,
                                              .d_ff = 52});
  }
  void stop() {
    if (!thread_.joinable()) return;
    http_->stop();
    thread_.join();
  }
  HttpServer& http() { return *http_; }
  void join() { thread_.join(); }
  uint16_t port() const { return port_; }

  /// Sends these bytes on a connection of their own.
  Answer ask(const std::string& bytes) const {
    Client client(port_);
    client.send(bytes);
    return parse(client.receive());
  }
  Answer post(const std::string& target, const std::string& body, const std::string& headers = "") const {
    return ask(serve::post(target, body, headers));
  }
  Answer get(const std::string& target, const std::string& headers = "") const {
    return ask("GET " + target + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers + "\r\n");
  }
  /// A number of /metrics.
  int64_t metric(const std::string& name) const {
    const std::string all = get("/metrics").body;
    const size_t at = all.find("\ntoy_" + name + " ");
    return at == all.npos ? -1 : std::stoll(all.substr(at + name.size() + 6));
  }
  static Answer parse(const std::string& all) {
    Answer r;
    const size_t end = all.find("\r\n\r\n");
    if (!all.starts_with("HTTP/1.1 ") || end == all.npos) return r;
    r.status = std::stoi(all.substr(9, 3));
    r.header = all.substr(0, end);
    r.body = all.substr(end + 4);
    return r;
  }

 private:
  std::unique_ptr<Device> device_;
  Model model_;
  ServerOptions options_;
  std::optional<ChatTemplate> chat_;
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<HttpServer> http_;
  uint16_t port_ = 0;
  std::thread thread_;
};

inline void expect_each(std::string_view text, std::initializer_list<std::string> parts) {
  for (const std::string& part : parts) EXPECT_NE(text.find(part), text.npos) << part << " is not in " << text;
}

/// The text of a body.
inline std::string quoted(const nlohmann::ordered_json& j) { return json_text(j); }

/// The data of each event.
inline std::vector<std::string> events(const std::string& chunked) {
  std::string text;
  for (size_t at = 0; at < chunked.size();) {
    const size_t line = chunked.find("\r\n", at), size = std::stoul(chunked.substr(at, line - at), nullptr, 16);
    text += chunked.substr(line + 2, size);
    at = line + 2 + size + 2;
  }
  std::vector<std::string> list;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find("\n\n", at);
    EXPECT_EQ(text.substr(at, 6), "data: ");
    list.push_back(text.substr(at + 6, end - at - 6));
    at = end + 2;
  }
  return list;
}

}  // namespace toy::serve
