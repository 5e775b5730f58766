#include "toy/base/hub_address.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <string_view>
#include <vector>

#include "toy/base/error.h"
#include "toy/base/shell_word.h"

namespace toy {

namespace {

// Where OWNER begins in an address; npos: it is none.
size_t begin_of_owner(const std::string& address) {
  for (const std::string_view host : {"huggingface.co/", "hf.co/", "hf://"})
    if (const size_t at = address.find(host); at != address.npos) return at + host.size();
  const size_t slash = address.find('/'), colon = address.find(':');  // "OWNER/REPO:Q4_K_M"
  const bool has_type = colon != address.npos && slash < colon && slash == address.rfind('/') &&
                        address.find_first_of(" ./~") == slash && std::isupper(uint8_t(address[colon + 1]));
  return has_type ? 0 : address.npos;
}

}  // namespace

std::string fetch_of_address(const std::string& given) {
  const std::string address = given.substr(0, given.find_first_of("?#"));  // "?download=true"
  const size_t begin = begin_of_owner(address);
  if (begin == address.npos) return {};
  std::vector<std::string> parts;  // OWNER, REPO, resolve, REVISION, FILE
  for (size_t at = begin; at <= address.size();) {
    const size_t end = std::min(address.find('/', at), address.size());
    parts.push_back(address.substr(at, end - at));
    at = end + 1;
  }
  constexpr size_t kBeforeFile = 4;
  if (parts.size() < 2 || parts[0].empty() || parts[1].empty()) return {};
  check(parts[0] != "datasets" && parts[0] != "spaces", "'{}' is no model; give the OWNER/REPO of one", address);
  std::string file;
  if (const size_t colon = parts[1].find(':'); colon != std::string::npos)
    file = "*" + parts[1].substr(colon + 1) + "*", parts[1].resize(colon);
  std::string command = fmt::format("toy fetch {}", shell_quoted(parts[0] + "/" + parts[1]));
  for (size_t i = kBeforeFile; i < parts.size(); ++i) file += (file.empty() ? "" : "/") + parts[i];
  if (!file.empty()) command += " " + shell_quoted(file);
  if (parts.size() >= kBeforeFile && parts[3] != "main") command += " --revision " + shell_quoted(parts[3]);
  return command;
}

}  // namespace toy
