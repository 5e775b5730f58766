#include "bind/json_options.h"

#include <fmt/format.h>

#include <set>

#include "toy/base/error.h"
#include "toy/base/nearest.h"

namespace toy::bind {

using nlohmann::ordered_json;

JsonOptions::JsonOptions(std::string what, std::string_view json) : what_(std::move(what)) {
  std::set<std::string> keys;
  given_ = read_json<ordered_json>(what_, json.empty() ? "{}" : json, [&](const std::string& key) {
    check(keys.insert(key).second, "{}: '{}' is given twice; keep one of them", what_, key);
  });
  check(given_.is_object(), "{}: not a JSON object of options; use e.g. {{\"seed\": 1}}", what_);
}

const ordered_json* JsonOptions::take(std::string_view name) {
  known_.emplace_back(name);
  const auto found = given_.find(known_.back());
  return found == given_.end() || found->is_null() ? nullptr : &*found;
}

void JsonOptions::finish() const {
  for (const auto& [key, value] : given_.items()) {
    if (std::ranges::find(known_, key) != known_.end()) continue;
    const std::string near = nearest(key, known_);
    constexpr size_t kFew = 64;
    fail("unknown option '{}' of {}{}", key, what_,
         !near.empty()           ? fmt::format("; did you mean '{}'?", near)
         : known_.size() <= kFew ? fmt::format("; there are {}", fmt::join(known_, ", "))
                                 : "");
  }
}

std::vector<std::string> JsonOptions::texts(std::string_view name, const ordered_json& given) {
  std::vector<std::string> all;
  for (const ordered_json& v : given.is_array() ? given : ordered_json::array({given})) {
    check(v.is_string() || v.is_number() || v.is_boolean(),
          "{} is {}; use a number, a string, true or false, or a list of them", name, json_text(v));
    all.push_back(v.is_string() ? v.get<std::string>() : json_text(v));
  }
  check(!all.empty(), "{} is an empty list; leave it out", name);
  return all;
}

}  // namespace toy::bind
