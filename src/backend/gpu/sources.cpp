#include "backend/gpu/sources.h"

#include <algorithm>

#include "toy/base/error.h"

namespace toy::gpu {
namespace {

const Source* find(std::string_view name) {
  const auto at = std::ranges::find(sources(), name, &Source::name);
  return at == sources().end() ? nullptr : &*at;
}

void append(std::string& to, const Source& from) {
  constexpr std::string_view kInclude = "#include \"";
  to += fmt::format("#line 1 \"{}\"\n", from.name);
  int line = 1;
  for (std::string_view rest = from.text; !rest.empty(); ++line) {
    const std::string_view next = rest.substr(0, rest.find('\n') + 1);
    const Source* included = nullptr;
    if (next.starts_with(kInclude)) {
      const std::string_view name = next.substr(kInclude.size());
      included = find(name.substr(0, name.find('"')));
    }
    if (included) {
      append(to, *included);
      to += fmt::format("#line {} \"{}\"\n", line + 1, from.name);
    } else {
      to += next;
    }
    rest.remove_prefix(next.size());
  }
}

}  // namespace

std::string whole_source(std::string_view name) {
  const Source* const text = find(name);
  if (!text) fail_internal("the program has no kernels '{}'", name);
  std::string whole;
  append(whole, *text);
  return whole;
}

}  // namespace toy::gpu
