#include "serve/access_log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "toy/base/json_text.h"

namespace toy::serve {
namespace {

constexpr size_t kMostBytes = 200;  // of what a client sent

std::string plain(const std::string& text) {
  std::string out;
  for (const char c : text.substr(0, kMostBytes)) {
    if (c > ' ' && c < '\x7f' && c != '"' && c != '\\')
      out += c;
    else
      out += fmt::format("\\x{:02x}", int(static_cast<unsigned char>(c)));
  }
  if (text.size() > kMostBytes) out += "...";
  return out.empty() ? "-" : out;
}

// Our own words, in quotes.
std::string sentence(const std::string& text) {
  std::string out;
  for (const char c : text.substr(0, kMostBytes)) out += c >= ' ' && c < '\x7f' && c != '"' && c != '\\' ? c : '?';
  return out;
}

std::string time_text(int64_t milliseconds) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(std::time_t(milliseconds / 1000)), milliseconds % 1000);
}

double rounded(double seconds) { return double(int64_t(seconds * 1e6 + 0.5)) / 1e6; }

}  // namespace

std::string log_line(const Answered& a, LogForm form, int64_t unix_milliseconds) {
  const HttpRequest& r = a.request;
  const RequestNotes& n = a.notes;
  if (form == LogForm::json) {
    nlohmann::ordered_json j{{"time", time_text(unix_milliseconds)},
                             {"client", plain(r.client)},
                             {"method", plain(r.method)},
                             {"path", plain(r.target)},
                             {"status", a.status},
                             {"seconds", rounded(a.seconds)}};
    if (r.key > 0) j["key"] = r.key;
    if (n.prompt >= 0) j["prompt_tokens"] = n.prompt, j["cached_tokens"] = n.cached, j["completion_tokens"] = n.tokens;
    if (n.first >= 0) j["first_token_seconds"] = rounded(n.first);
    if (!n.ignored.empty()) j["ignored"] = plain(n.ignored);
    if (!n.error.empty()) j["error"] = sentence(n.error);
    return json_text(j);
  }
  std::string line = fmt::format("{} {} {} {} {} {:.3f}s", time_text(unix_milliseconds), plain(r.client),
                                 plain(r.method), plain(r.target), a.status, a.seconds);
  if (r.key > 0) line += fmt::format(" key={}", r.key);
  if (n.prompt >= 0) line += fmt::format(" prompt={} cached={} tokens={}", n.prompt, n.cached, n.tokens);
  if (n.first >= 0) line += fmt::format(" first={:.3f}s", n.first);
  if (!n.ignored.empty()) line += " ignored=" + plain(n.ignored);
  if (!n.error.empty()) line += fmt::format(" error=\"{}\"", sentence(n.error));
  return line;
}

// A pipe that says it can be written to takes a line of this size at once.
bool AccessLog::write_now(const std::string& line) const {
  pollfd p{file_, POLLOUT, 0};
  if (::poll(&p, 1, 0) <= 0 || !(p.revents & POLLOUT)) return false;
  return ::write(file_, line.data(), line.size()) == ssize_t(line.size());
}

void AccessLog::write(const Answered& a) {
  if (form_ == LogForm::off) return;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::string line = log_line(a, form_, std::chrono::duration_cast<std::chrono::milliseconds>(now).count()) + "\n";
  const std::scoped_lock lock(mutex_);
  if (left_out_ > 0) {
    const std::string words = form_ == LogForm::json
                                  ? fmt::format("{{\"lines_left_out\":{}}}\n", left_out_)
                                  : fmt::format("({} lines were left out, nobody read them)\n", left_out_);
    line = words + line;
  }
  left_out_ = write_now(line) ? 0 : left_out_ + 1;
}

}  // namespace toy::serve
