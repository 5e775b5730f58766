#include "toy/base/json_text.h"

#include <nlohmann/json.hpp>

namespace toy {
namespace {

template <class Json>
std::string text_of(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string json_text(const nlohmann::json& json, int indent) { return text_of(json, indent); }
std::string json_text(const nlohmann::ordered_json& json, int indent) { return text_of(json, indent); }

template <class Json>
Json parse_json(std::string_view text) {
  return Json::parse(text, nullptr, false);
}
template nlohmann::json parse_json(std::string_view);
template nlohmann::ordered_json parse_json(std::string_view);

}  // namespace toy
