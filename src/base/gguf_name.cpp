#include "toy/base/gguf_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <regex>
#include <system_error>

#include "toy/base/error.h"

namespace toy {

std::string SplitName::of(int number) const {
  return fmt::format("{}-{:0{}}-of-{}.gguf", stem, number, text.size(), text);
}

int SplitName::missing() const {
  std::error_code error;
  for (int number = 1; number <= parts; ++number)
    if (!std::filesystem::exists(of(number), error)) return number;
  return 0;
}

std::optional<SplitName> split_name(const std::string& path) {
  static const std::regex pattern("([\\s\\S]*)-([0-9]{5,6})-of-([0-9]{5,6})[.]gguf");
  std::smatch m;
  // Only the end is looked at: paths are foreign, and regular expressions recurse.
  constexpr size_t kEnd = sizeof("-123456-of-123456.gguf") - 1;
  const size_t begin = path.size() - std::min(path.size(), kEnd);
  const std::string end = path.substr(begin);
  if (!std::regex_match(end, m, pattern) || m[2].length() != m[3].length()) return std::nullopt;
  SplitName name{path.substr(0, begin) + m[1].str(), std::stoi(m[2]), std::stoi(m[3]), m[3]};
  if (name.part < 1 || name.part > name.parts) return std::nullopt;
  return name;
}

std::optional<SplitName> find_split(const std::string& path) {
  std::optional<SplitName> first;
  std::filesystem::path at = path;
  constexpr int kMostLinks = 40;  // as in Linux
  for (int i = 0; i <= kMostLinks; ++i) {
    const std::optional<SplitName> name = split_name(at.string());
    if (name && name->missing() == 0) return name;
    if (!first) first = name;
    std::error_code error;
    const std::filesystem::path target = std::filesystem::read_symlink(at, error);
    if (error) break;
    at = at.parent_path() / target;
  }
  return first;
}

bool is_side_file_name(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  if (name.find("mmproj") != name.npos) return true;
  // Models that were quantized with a matrix are named so, too, next to their type.
  static const std::regex type("(^|[-._])((i?q[1-8](_[a-z0-9]+)*)|tq[12]_0|mxfp4|b?f16|f32)([-._]|$)");
  return name.find("imatrix") != name.npos && !std::regex_search(name.substr(0, 255), type);
}

bool is_same_file(const std::string& out, const std::string& in) {
  std::error_code error;  // a file that does not exist is no input
  if (!std::filesystem::exists(out, error)) return false;
  if (std::filesystem::equivalent(out, in, error)) return true;
  const auto split = find_split(in);
  for (int part = 1; split && part <= split->parts; ++part)
    if (std::filesystem::equivalent(out, split->of(part), error)) return true;
  return false;
}

void refuse_overwriting(const std::string& option, const std::string& out,
                        std::initializer_list<std::pair<const char*, std::string>> inputs) {
  for (const auto& [name, path] : inputs)
    check(!is_same_file(out, path), "--{} is '{}', which {} reads; choose another name", option, out, name);
}

}  // namespace toy
