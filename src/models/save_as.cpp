#include "toy/models/save_as.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "toy/base/nearest.h"
#include "toy/formats/requantize.h"

namespace toy {
namespace {

std::string lower(std::string text) {
  for (char& c : text) c = char(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// Removed when it goes, whatever happens.
struct TemporaryFile {
  std::string path;
  ~TemporaryFile() {
    std::error_code none;
    std::filesystem::remove(path, none);
  }
};

}  // namespace

std::vector<std::string> stored_names() {
  std::vector<std::string> names{"f32", "f16", "bf16"};
  for (const std::string_view mix : gguf::mix_names())
    if (const std::string name = lower(std::string(mix)); std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  return names;
}

StoredAs parse_stored_as(std::string_view option, const std::string& text) {
  const std::string name = lower(text);
  for (const DType plain : {DType::f32, DType::f16, DType::bf16})
    if (name == name_of(plain)) return {plain};
  for (const std::string_view mix : gguf::mix_names())
    if (const std::string known = lower(std::string(mix)); name == known || name + "_m" == known)
      return {.mix = std::string(mix)};
  const std::vector<std::string> names = stored_names();
  const std::string near = name == "int8" || name == "8bit"   ? "q8_0"
                           : name == "int4" || name == "4bit" ? "q4_k_m"
                                                              : nearest(name, names);
  fail("{} is '{}', expected one of {}{}", option, text, fmt::join(names, ", "),
       near.empty() ? "" : fmt::format(". Did you mean '{}'?", near));
}

void with_f32_file(const Model& model, const std::string& path, const std::function<void(const gguf::File&)>& use) {
  const auto nameless = [&] {  // mapped, so that nothing is left behind should the process end
    // A name that remove_leftovers() knows.
    const TemporaryFile whole{fmt::format("{}.f32.{}-0.tmp", path, ::getpid())};
    save_model(model, whole.path);
    return gguf::File::open(whole.path);
  };
  use(nameless());
}

void save_model(const Model& model, const std::string& path, const StoredAs& stored) {
  if (stored.mix.empty()) return save_model(model, path, stored.plain);
  with_f32_file(model, path, [&](const gguf::File& file) {
    gguf::requantize(file, path, {.mix = stored.mix, .threads = model.params->device().host_threads()});
  });
}

}  // namespace toy
