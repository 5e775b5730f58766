#include "cli/manifest.h"

#include "cli/help.h"

namespace toy::cli {
namespace {

nlohmann::ordered_json entry(const CLI::Option& o) {
  nlohmann::ordered_json j{{"name", o.get_positional() ? o.get_name(true) : o.get_name()},
                           {"positional", o.get_positional()},
                           {"required", o.get_required()},
                           {"takes_value", o.get_items_expected_max() > 0},
                           {"help", o.get_description()},
                           {"group", group_of(o)}};
  if (!o.get_snames().empty()) j["letter"] = "-" + o.get_snames()[0];
  if (is_advanced(o)) j["advanced"] = true;
  if (o.get_items_expected_max() > 1) j["repeatable"] = true;
  if (!o.get_default_str().empty()) j["default"] = o.get_default_str();
  const ValueNotes notes = notes_of(o);
  if (!notes.range.empty()) j["range"] = notes.range;
  if (!notes.words.empty()) j["values"] = notes.words, j["other_values"] = !notes.only_words;
  if (notes.file) j["file"] = true;
  if (notes.folder) j["folder"] = true;
  return j;
}

}  // namespace

nlohmann::ordered_json manifest(const CLI::App& app) {
  nlohmann::ordered_json j{{"name", app.get_name()}, {"summary", app.get_description()}};
  for (const CLI::Option* o : app.get_options())
    if (!is_help(*o)) j["options"].push_back(entry(*o));
  for (const CLI::App* sub : app.get_subcommands({})) j["commands"].push_back(manifest(*sub));
  return j;
}

}  // namespace toy::cli
