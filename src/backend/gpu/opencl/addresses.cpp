#include "backend/gpu/opencl/addresses.h"

#include <cctype>
#include <string_view>
#include <vector>

#include "toy/base/error.h"

namespace toy::gpu::opencl {
namespace {

constexpr std::string_view kFaults = "FAULT_PARAMETERS";

bool of_names(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && (std::isspace(static_cast<unsigned char>(s.front())) || s.front() == '\\')) s.remove_prefix(1);
  while (!s.empty() && (std::isspace(static_cast<unsigned char>(s.back())) || s.back() == '\\')) s.remove_suffix(1);
  return s;
}

// What FAULT_PARAMETERS stands for.
std::string fault_parameters(std::string_view text) {
  const std::string define = "#define " + std::string(kFaults);
  const size_t at = text.find(define);
  if (at == text.npos) return {};
  const std::string_view rest = text.substr(at + define.size());
  return std::string(trimmed(rest.substr(0, rest.find('\n'))));
}

// The new parameters, and the pointers that they stand for.
std::pair<std::string, std::string> buffers_and_offsets(std::string parameters, std::string_view text) {
  if (const size_t at = parameters.find(kFaults); at != parameters.npos)
    parameters.replace(at, kFaults.size(), fault_parameters(text));
  std::string buffers, offsets, pointers;
  for (std::string_view rest = parameters; !rest.empty();) {
    const size_t comma = rest.find(',');
    const std::string one(trimmed(rest.substr(0, comma)));
    rest.remove_prefix(comma == rest.npos ? rest.size() : comma + 1);
    buffers += (buffers.empty() ? "" : ", ") + one;
    if (one.find('*') == one.npos) continue;
    size_t begin = one.size();
    while (begin > 0 && of_names(one[begin - 1])) --begin;
    const std::string type = one.substr(0, begin), name = one.substr(begin);
    buffers += "_buffer";
    offsets += fmt::format(", ulong {}_offset", name);
    const char* const bytes = type.find("const") == type.npos ? "GLOBAL char*" : "GLOBAL const char*";
    pointers += fmt::format(" {}{} = ({})(({}){}_buffer + {}_offset);", type, name, type, bytes, name, name);
  }
  return {buffers + offsets, pointers};
}

}  // namespace

Addresses::~Addresses() {
  for (const auto& [first, range] : ranges_) functions().clReleaseMemObject(range.buffer);
}

void* Addresses::add(Memory buffer, size_t bytes) {
  const std::scoped_lock lock(mutex_);
  const uintptr_t first = next_;
  ranges_.emplace(first, Range{buffer, bytes});
  bytes_ += bytes;
  next_ = (first + bytes) / alignment_ * alignment_ + 2 * alignment_;  // its end is no address of the next one
  return reinterpret_cast<void*>(first);
}

void Addresses::remove(void* first) noexcept {
  const std::scoped_lock lock(mutex_);
  const auto at = ranges_.find(reinterpret_cast<uintptr_t>(first));
  if (at == ranges_.end()) return;
  functions().clReleaseMemObject(at->second.buffer);
  bytes_ -= at->second.bytes;
  ranges_.erase(at);
}

size_t Addresses::bytes() const {
  const std::scoped_lock lock(mutex_);
  return bytes_;
}

Addresses::Spot Addresses::find(const void* address) const {
  if (!address) return {};
  const std::scoped_lock lock(mutex_);
  const auto value = reinterpret_cast<uintptr_t>(address);
  auto at = ranges_.upper_bound(value);
  if (at == ranges_.begin() || value - (--at)->first > at->second.bytes)
    fail_internal("device 'opencl': {} is no address of its memory", address);
  return {at->second.buffer, value - at->first};
}

std::string with_offsets(std::string text) {
  constexpr std::string_view kKernel = "KERNEL(";
  for (size_t at = 0; (at = text.find(kKernel, at)) != text.npos;) {
    const size_t name_end = text.find(')', at), open = text.find_first_not_of(" \n", name_end + 1), begin = open + 1;
    at += kKernel.size();
    if (name_end == text.npos || open == text.npos || text[open] != '(') continue;  // its definition
    const size_t end = text.find(')', begin), body = end == text.npos ? end : text.find_first_not_of(" \\\n", end + 1);
    if (body == text.npos || text[body] != '{') continue;  // a comment
    const auto [parameters, pointers] = buffers_and_offsets(text.substr(begin, end - begin), text);
    text.insert(body + 1, pointers);
    text.replace(begin, end - begin, parameters);
  }
  return text;
}

}  // namespace toy::gpu::opencl
