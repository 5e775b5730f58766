#include "cli/train/run_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/console.h"
#include "cli/help.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"

namespace toy::cli {
namespace {

using nlohmann::ordered_json;

// A number where the option takes numbers.
ordered_json typed(const CLI::Option& option, const std::string& text) {
  const ordered_json j = parse_json<ordered_json>(text);
  return j.is_number() && !option.get_type_name().starts_with("TEXT") ? j : ordered_json(text);
}

}  // namespace

void put_line(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    fail_internal("{}", lost_output(errno));
}

ordered_json options_json(const CLI::App& app) {
  ordered_json j = ordered_json::object();
  const auto shut_out = [](const CLI::Option& o) {
    const auto excludes = o.get_excludes();
    return std::any_of(excludes.begin(), excludes.end(), [](const auto* e) { return e->count() > 0; });
  };
  for (const CLI::Option* o : app.get_options()) {
    if (o->get_lnames().empty() || is_help(*o) || o->get_lnames()[0] == "config") continue;
    const std::string& name = o->get_lnames()[0];
    if (is_flag(*o)) {
      j[name] = o->count() > 0 && o->reduced_results()[0] == "true";
      continue;
    }
    const std::vector<std::string> values = o->count() > 0 ? o->reduced_results() : std::vector<std::string>{};
    if (values.size() > 1) {
      for (const std::string& v : values) j[name].push_back(typed(*o, v));
    } else {
      const std::string text = values.empty() ? o->get_default_str() : values[0];
      j[name] = values.empty() && (text.empty() || shut_out(*o)) ? ordered_json(nullptr) : typed(*o, text);
    }
  }
  return j;
}

}  // namespace toy::cli
