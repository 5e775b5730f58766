// The ceilings of a machine that was measured before.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/bench.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/data/text_files.h"

namespace toy::cli {

bool look_disturbed(const Ceilings& c) {
  constexpr double kSlack = 0.8;  // of two levels that are as fast, either may be measured faster
  for (size_t i = 1; i < c.levels.size(); ++i)
    if (c.levels[i - 1].read < kSlack * c.levels[i].read) return true;
  return false;
}

Ceilings read_ceilings(const std::string& path) {
  const auto j = parse_json<nlohmann::json>(read_text_file(path));
  check(j.is_object(), "ceilings: {} is not JSON as `toy bench machine --json` writes it", path);
  const auto number = [&](const nlohmann::json& object, const char* key) {
    check(object.is_object() && object.contains(key) && object[key].is_number() && object[key] >= 0,
          "ceilings: {}: '{}' is missing or not a number; the file is made by `toy bench machine --json`", path, key);
    constexpr double kMost = 1e15;
    return json_number<double>(object[key], fmt::format("ceilings: {}: '{}'", path, key), 0, kMost);
  };
  Ceilings c;
  c.fma = number(j, "fma_gflops"), c.exp = number(j, "exp_gops");
  check(j.contains("levels") && j["levels"].is_array() && !j["levels"].empty(),
        "ceilings: {}: 'levels' is missing; the file is made by `toy bench machine --json`", path);
  for (const nlohmann::json& l : j["levels"])
    c.levels.push_back(
        {l.value("name", "memory"), size_t(number(l, "bytes")), number(l, "read_gbs"), number(l, "copy_gbs")});
  c.levels.back().holds = 0;  // what is beyond all others has no end
  const bool positive = c.fma > 0 && c.exp > 0 &&
                        std::all_of(c.levels.begin(), c.levels.end(), [](const MemoryLevel& l) { return l.read > 0; });
  check(positive, "ceilings: {}: a speed is 0; measure again with `toy bench machine --json`", path);
  return c;
}

}  // namespace toy::cli
