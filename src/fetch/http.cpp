#include "fetch/http.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "fetch/curl.h"

namespace toy::fetch {
namespace {

constexpr long kConnectSeconds = 30, kSilentSeconds = 60;
constexpr size_t kMostText = size_t(64) << 20;

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
  return out;
}

bool may_pass(CURLcode code) {
  switch (code) {
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_TOO_MANY_REDIRECTS:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_COULDNT_RESOLVE_PROXY:
      return false;
    default:
      return true;
  }
}

}  // namespace

struct Http::State {
  CURL* handle = nullptr;
  std::string token;
  std::function<bool()> stop;
  // Of the request that is under way.
  Answer answer;
  const OnBytes* on_bytes = nullptr;
  std::exception_ptr thrown;

  ~State() {
    if (handle) curl().easy_cleanup(handle);
  }

  static size_t on_header(char* data, size_t, size_t size, void* self) {
    Answer& a = static_cast<State*>(self)->answer;
    const std::string line = lower({data, size});
    const auto value_of = [&](std::string_view name) {
      if (!line.starts_with(name)) return std::string();
      const size_t begin = line.find_first_not_of(' ', name.size()), end = line.find_last_not_of("\r\n ");
      return begin == line.npos || end < begin ? "" : line.substr(begin, end + 1 - begin);
    };
    if (line.starts_with("http/")) a = {};  // the next answer of a chain of redirects
    if (const std::string type = value_of("content-type:"); !type.empty()) a.content_type = type;
    if (const std::string range = value_of("content-range:"); range.starts_with("bytes "))
      std::from_chars(range.data() + 6, range.data() + range.size(), a.range_begin);
    return size;
  }

  static size_t on_body(char* data, size_t, size_t size, void* self) {
    State& s = *static_cast<State*>(self);
    curl().easy_getinfo(s.handle, CURLINFO_RESPONSE_CODE, &s.answer.status);
    try {
      (*s.on_bytes)(s.answer, std::as_bytes(std::span(data, size)));
      return size;
    } catch (...) {
      s.thrown = std::current_exception();
      return 0;
    }
  }

  static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    const State& s = *static_cast<State*>(self);
    return s.stop && s.stop() ? 1 : 0;
  }
};

Http::Http(std::string token, std::function<bool()> stop) : state_(std::make_unique<State>()) {
  state_->handle = curl().easy_init();
  if (!state_->handle) fail_internal("libcurl cannot start");
  state_->token = std::move(token), state_->stop = std::move(stop);
}

Http::~Http() = default;

void Http::prepare(const std::string& url, const OnBytes& on_bytes) {
  State& s = *state_;
  CURL* c = s.handle;
  s.answer = {}, s.on_bytes = &on_bytes, s.thrown = nullptr;
  const auto set = curl().easy_setopt;
  curl().easy_reset(c);  // keeps the connection
  set(c, CURLOPT_URL, url.c_str());
  set(c, CURLOPT_USERAGENT, "toy");
  set(c, CURLOPT_NOSIGNAL, 1L);
  set(c, CURLOPT_FOLLOWLOCATION, 1L);
  set(c, CURLOPT_MAXREDIRS, 10L);
  set(c, CURLOPT_PROTOCOLS_STR, "http,https");
  set(c, CURLOPT_REDIR_PROTOCOLS_STR, url.starts_with("https:") ? "https" : "http,https");
  set(c, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  if (const char* trusted = std::getenv("SSL_CERT_FILE"); trusted && *trusted)  // as OpenSSL's programs have it
    set(c, CURLOPT_CAINFO, trusted);
  if (!s.token.empty()) {  // libcurl keeps it from other hosts
    set(c, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    set(c, CURLOPT_XOAUTH2_BEARER, s.token.c_str());
  }
  set(c, CURLOPT_HEADERFUNCTION, State::on_header);
  set(c, CURLOPT_HEADERDATA, &s);
  set(c, CURLOPT_WRITEFUNCTION, State::on_body);
  set(c, CURLOPT_WRITEDATA, &s);
  set(c, CURLOPT_NOPROGRESS, 0L);
  set(c, CURLOPT_XFERINFOFUNCTION, State::on_progress);
  set(c, CURLOPT_XFERINFODATA, &s);
}

void Http::perform(const std::string& url) {
  State& s = *state_;
  char reason[CURL_ERROR_SIZE] = "";
  curl().easy_setopt(s.handle, CURLOPT_ERRORBUFFER, reason);
  const CURLcode code = curl().easy_perform(s.handle);
  curl().easy_setopt(s.handle, CURLOPT_ERRORBUFFER, nullptr);
  curl().easy_getinfo(s.handle, CURLINFO_RESPONSE_CODE, &s.answer.status);
  if (s.thrown) std::rethrow_exception(s.thrown);
  if (code == CURLE_ABORTED_BY_CALLBACK) throw Stopped();
  if (code == CURLE_OK) return;
  if (code == CURLE_SSL_CONNECT_ERROR &&
      std::string_view(reason).find("wrong version number") != std::string_view::npos)
    fail("{}: the server answers without TLS; write http{}", url, url.substr(5, url.find('/', 8) - 5));  // "https"
  if (code == CURLE_COULDNT_RESOLVE_HOST)
    throw NoAddress(fmt::format("{}; is there a network? HF_ENDPOINT names another server",
                                *reason ? reason : curl().easy_strerror(code)));
  std::string text = fmt::format("{}: {}", url, *reason ? reason : curl().easy_strerror(code));
  if (code == CURLE_PEER_FAILED_VERIFICATION) text += "; SSL_CERT_FILE names a file of certificates to trust";
  if (code == CURLE_COULDNT_CONNECT) text += "; is the server running, and the address right?";
  if (may_pass(code)) throw Transient(text);
  fail("{}", text);
}

Answer Http::get(const std::string& url, uint64_t begin, const OnBytes& on_bytes) {
  prepare(url, on_bytes);
  const State& s = *state_;
  curl().easy_setopt(s.handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl().easy_setopt(s.handle, CURLOPT_LOW_SPEED_TIME, kSilentSeconds);
  const std::string range = fmt::format("{}-", begin);
  if (begin > 0) curl().easy_setopt(s.handle, CURLOPT_RANGE, range.c_str());
  perform(url);
  if (s.answer.status == 429 || s.answer.status >= 500)
    throw Transient(fmt::format("{}: the server answers with status {}; try again later", url, s.answer.status));
  return s.answer;
}

Answer Http::post_json(const std::string& url, const std::string& json, const OnBytes& on_bytes) {
  prepare(url, on_bytes);
  const State& s = *state_;
  const auto free = [](curl_slist* list) { curl().slist_free_all(list); };
  const std::unique_ptr<curl_slist, decltype(free)> headers(
      curl().slist_append(nullptr, "Content-Type: application/json"), free);
  curl().easy_setopt(s.handle, CURLOPT_HTTPHEADER, headers.get());
  curl().easy_setopt(s.handle, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(json.size()));
  curl().easy_setopt(s.handle, CURLOPT_POSTFIELDS, json.data());
  perform(url);
  return s.answer;
}

Answer Http::get_text(const std::string& url, std::string& text) {
  text.clear();
  return get(url, 0, [&](const Answer&, std::span<const std::byte> bytes) {
    check(text.size() + bytes.size() <= kMostText, "{}: the answer is longer than {} bytes", url, kMostText);
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
}

std::string url_path(const std::string& path) {
  std::string out;
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~/").find(c) != std::string_view::npos;
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

}  // namespace toy::fetch
