// GET and POST over HTTP, by libcurl. Proxies come from the environment (http_proxy, https_proxy, no_proxy), and so do
// the certificates to trust (SSL_CERT_FILE).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "toy/base/error.h"

namespace toy::fetch {

/// The network or the server failed in a way that may pass: a lost connection, a timeout, a busy server.
class Transient : public Error {
 public:
  explicit Transient(const std::string& text) : Error(ErrorCode::bad_input, text) {}
};

/// The server has no address, as without a network: it will not help to ask again at once.
class NoAddress : public Transient {
 public:
  using Transient::Transient;
};

/// The work was stopped by whoever asked for it.
struct Stopped {};

/// What the headers of an answer say; redirects are followed.
struct Answer {
  long status = 0;
  std::string content_type;
  int64_t range_begin = -1;  ///< first byte of a part of a file, -1: the answer does not say
};

/// One connection at a time, used again for the next request.
class Http {
 public:
  /// `token` is sent to the host that is asked, and to no other that it redirects to. `stop` is asked often while
  /// waiting; true ends a request with Stopped.
  Http(std::string token, std::function<bool()> stop);
  ~Http();

  using OnBytes = std::function<void(const Answer&, std::span<const std::byte>)>;
  /// Hands over the body of the answer, whatever its status, as it arrives, from byte `begin` if the server can. What
  /// `on_bytes` throws ends the request. Throws Transient, or Error{bad_input} for an address that cannot work.
  Answer get(const std::string& url, uint64_t begin, const OnBytes& on_bytes);
  /// The same for a short text.
  Answer get_text(const std::string& url, std::string& text);
  /// Sends a JSON text and hands over the body of the answer, whatever its status, as it arrives; the server may think
  /// for as long as it likes. Throws as get(), but for no status.
  Answer post_json(const std::string& url, const std::string& json, const OnBytes& on_bytes);

 private:
  struct State;
  void prepare(const std::string& url, const OnBytes& on_bytes);
  void perform(const std::string& url);
  std::unique_ptr<State> state_;
};

/// A path as a part of a URL: all but letters, digits and -._~/ as %XX.
std::string url_path(const std::string& path);

}  // namespace toy::fetch
