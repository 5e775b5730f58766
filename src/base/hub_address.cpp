#include "toy/base/hub_address.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "toy/base/error.h"
#include "toy/base/shell_word.h"

namespace toy {

std::string fetch_of_address(const std::string& given) {
  const std::string address = given.substr(0, given.find_first_of("?#"));  // "?download=true"
  constexpr std::string_view kHost = "huggingface.co/";
  const size_t host = address.find(kHost);
  if (host == address.npos) return {};
  std::vector<std::string> parts;  // OWNER, REPO, resolve, REVISION, FILE
  for (size_t at = host + kHost.size(); at <= address.size();) {
    const size_t end = std::min(address.find('/', at), address.size());
    parts.push_back(address.substr(at, end - at));
    at = end + 1;
  }
  constexpr size_t kBeforeFile = 4;
  if (parts.size() < 2 || parts[0].empty() || parts[1].empty()) return {};
  check(parts[0] != "datasets" && parts[0] != "spaces", "'{}' is no model; give the OWNER/REPO of one", address);
  std::string command = fmt::format("toy fetch {}", shell_quoted(parts[0] + "/" + parts[1])), file;
  for (size_t i = kBeforeFile; i < parts.size(); ++i) file += (file.empty() ? "" : "/") + parts[i];
  if (!file.empty()) command += " " + shell_quoted(file);
  if (parts.size() >= kBeforeFile && parts[3] != "main") command += " --revision " + shell_quoted(parts[3]);
  return command;
}

}  // namespace toy
