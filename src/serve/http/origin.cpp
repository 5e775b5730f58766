#include "serve/http/origin.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>

#include "serve/api/reply_format.h"
#include "toy/base/error.h"
#include "toy/base/utf8.h"

namespace toy::serve {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = char(c + ('a' - 'A'));
  return out;
}

// A host and the port after it, "" where there is none. Addresses of IPv6 keep their brackets.
struct Authority {
  std::string name, port;
};

std::optional<Authority> authority_of(std::string_view text) {
  const size_t bracket = text.starts_with('[') ? text.find(']') : 0;
  if (bracket == text.npos) return {};
  const size_t colon = text.find(':', bracket);
  Authority a{lower(text.substr(0, colon)), colon == text.npos ? "" : std::string(text.substr(colon + 1))};
  const auto of_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == ':' ||
           c == '[' || c == ']';
  };
  const bool digits = std::ranges::all_of(a.port, [](char c) { return c >= '0' && c <= '9'; });
  if (a.name.empty() || !std::ranges::all_of(a.name, of_name) || !digits || a.port.size() > 5) return {};
  if (bracket > 0 && a.name.size() != bracket + 1) return {};
  if (colon != text.npos && a.port.empty()) return {};
  return a;
}

bool is_address(const std::string& name) {
  in_addr v4;
  in6_addr v6;
  if (name.starts_with('[')) return ::inet_pton(AF_INET6, name.substr(1, name.size() - 2).c_str(), &v6) == 1;
  return ::inet_pton(AF_INET, name.c_str(), &v4) == 1;
}

bool is_loopback(const std::string& name) {
  return name == "localhost" || name == "[::1]" || (name.starts_with("127.") && is_address(name));
}

std::string name_of_machine() {
  std::array<char, 256> name = {};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? lower(name.data()) : "";
}

const char* default_port(bool tls) { return tls ? "443" : "80"; }

std::string_view without_scheme(std::string_view origin) {
  const size_t end = origin.find("://");
  return end == origin.npos ? "" : origin.substr(end + 3);
}

// Names that are surely ours. A page could give any other one our address later (DNS rebinding).
bool is_our_name(const std::string& name, const OriginRules& rules) {
  const std::string host = lower(rules.host);
  if (is_loopback(name) || name == host || name == "[" + host + "]") return true;
  for (const std::string& origin : rules.cors)
    if (const auto a = authority_of(without_scheme(origin)); a && a->name == name) return true;
  if (rules.loopback) return false;
  const std::string machine = name_of_machine();
  return is_address(name) || (!machine.empty() && (name == machine || name == machine + ".local"));
}

bool is_browser(const HttpRequest& r) { return !r.origin.empty() || !r.fetch_site.empty(); }

void require_host(const HttpRequest& r, const OriginRules& rules) {
  if (r.host.empty()) return;  // as programs may
  const auto a = authority_of(r.host);
  if (!a) throw ApiError(400, fmt::format("Host: '{}' is not a host and its port", one_line(r.host)));
  if (!rules.keyless || !(rules.loopback || is_browser(r))) return;
  if (!is_our_name(a->name, rules))
    throw ApiError(
        403,
        fmt::format("this server has no API key and is not known as '{}'; connect to 127.0.0.1 or localhost, "
                    "or start it with --cors http://{} or --api-key-file FILE",
                    one_line(r.host), one_line(r.host)),
        "", "forbidden_host");
  const std::string port = a->port.empty() ? default_port(rules.tls) : a->port;
  // Through a tunnel programs see another port.
  if (is_browser(r) && rules.loopback && port != std::to_string(rules.port) && is_loopback(a->name) &&
      std::ranges::find(rules.cors, (rules.tls ? "https://" : "http://") + lower(r.host)) == rules.cors.end())
    throw ApiError(403,
                   fmt::format("this server is not at '{}' but at port {}; use that, or start it with --cors {}://{}",
                               one_line(r.host), rules.port, rules.tls ? "https" : "http", one_line(r.host)),
                   "", "forbidden_host");
}

// The page of this server itself.
bool is_own_origin(const HttpRequest& r, const OriginRules& rules) {
  return !r.host.empty() && lower(r.origin) == (rules.tls ? "https://" : "http://") + lower(r.host);
}

bool is_allowed(const std::string& origin, const OriginRules& rules) {
  return std::ranges::any_of(rules.cors, [&](const std::string& o) { return o == "*" || o == lower(origin); });
}

bool changes_nothing(const HttpRequest& r) { return r.method == "GET" || r.method == "HEAD"; }

// Links of other pages may lead to the page of this server.
bool is_for_all(const HttpRequest& r) { return changes_nothing(r) && (r.target == "/" || r.target == "/health"); }

void require_origin(const HttpRequest& r, const OriginRules& rules) {
  const bool allowed = is_allowed(r.origin, rules) && !r.origin.empty();
  if (!r.origin.empty() && !allowed && !is_own_origin(r, rules))
    throw ApiError(403,
                   fmt::format("pages of '{}' may not use this server; start it with --cors ORIGIN where they should",
                               one_line(r.origin)),
                   "", "forbidden_origin");
  const bool ours = r.fetch_site.empty() || r.fetch_site == "same-origin" || r.fetch_site == "none";
  if (!ours && !allowed && !is_for_all(r))
    throw ApiError(403, "a page of another site may not use this server; start it with --cors ORIGIN where it should",
                   "", "forbidden_origin");
}

// A page of another origin may send other types without asking the server before.
void require_type(const HttpRequest& r) {
  if (changes_nothing(r) || !is_browser(r)) return;
  std::string type = lower(r.content_type.substr(0, r.content_type.find(';')));
  while (type.ends_with(' ') || type.ends_with('\t')) type.pop_back();
  if (type != "application/json" && !(type.starts_with("application/") && type.ends_with("+json")))
    throw ApiError(
        415, fmt::format("Content-Type is '{}'; browsers have to send application/json", one_line(r.content_type)));
}

// What browsers ask before they send a request of another origin.
HttpReply preflight(const HttpRequest& r) {
  HttpReply reply{.status = 204, .body = "", .type = "", .headers = {{"Allow", "GET, HEAD, POST, OPTIONS"}}};
  if (r.asked_method.empty()) return reply;
  const auto of_list = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == ',' || c == ' ';
  };
  reply.headers.emplace_back("Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS");
  if (!r.asked_headers.empty() && std::ranges::all_of(r.asked_headers, of_list))
    reply.headers.emplace_back("Access-Control-Allow-Headers", r.asked_headers);
  reply.headers.emplace_back("Access-Control-Allow-Private-Network", "true");
  reply.headers.emplace_back("Access-Control-Max-Age", "600");
  return reply;
}

}  // namespace

std::string origin_of(const std::string& text) {
  if (text == "*") return text;
  const std::string origin = lower(text);
  const bool tls = origin.starts_with("https://");
  const auto a = tls || origin.starts_with("http://") ? authority_of(without_scheme(origin)) : std::nullopt;
  check(a.has_value(),
        "cors: '{}' is not an origin; give SCHEME://HOST or SCHEME://HOST:PORT without a path, such as "
        "http://localhost:3000, or *",
        text);
  return fmt::format("{}://{}{}", tls ? "https" : "http", a->name,
                     a->port.empty() || a->port == default_port(tls) ? "" : ":" + a->port);
}

Admission admit(const HttpRequest& header, const OriginRules& rules) {
  Admission a;
  if (!rules.cors.empty()) a.headers.emplace_back("Vary", "Origin");
  if (!header.origin.empty() && is_allowed(header.origin, rules)) {
    a.headers.emplace_back("Access-Control-Allow-Origin", header.origin);
    a.headers.emplace_back("Access-Control-Expose-Headers", "X-Toy-Ignored, X-Should-Retry, Retry-After");
  }
  try {
    require_host(header, rules);
    require_origin(header, rules);
    if (header.method == "OPTIONS")
      a.reply = preflight(header);
    else
      require_type(header);
  } catch (const ApiError& e) {
    a.reply = error_reply(e);
  }
  return a;
}

}  // namespace toy::serve
