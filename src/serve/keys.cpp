#include "serve/keys.h"

#include <algorithm>
#include <string_view>

namespace toy::serve {
namespace {

// The key in "Bearer KEY", or "". The name of a scheme may have any case (RFC 9110).
std::string bearer_of(const std::string& authorization) {
  constexpr std::string_view kBearer = "bearer ";
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? char(c + ('a' - 'A')) : c; };
  const std::string scheme = authorization.substr(0, kBearer.size());
  if (!std::ranges::equal(scheme, kBearer, {}, lower)) return "";
  const size_t key = authorization.find_first_not_of(' ', kBearer.size());
  return key == authorization.npos ? "" : authorization.substr(key);
}

}  // namespace

bool same_secret(const std::string& given, const std::string& expected) {
  unsigned difference = given.size() == expected.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i)  // as long as what was given
    difference |= unsigned(static_cast<unsigned char>(given[i])) ^
                  unsigned(static_cast<unsigned char>(expected.empty() ? '\0' : expected[i % expected.size()]));
  return difference == 0;
}

int64_t key_of(const HttpRequest& r, std::span<const std::string> keys) {
  const std::string given = r.api_key.empty() ? bearer_of(r.authorization) : r.api_key;
  int64_t which = 0;
  for (size_t i = 0; i < keys.size(); ++i)  // all, whichever is right
    which = same_secret(given, keys[i]) && which == 0 ? int64_t(i) + 1 : which;
  return which;
}

}  // namespace toy::serve
