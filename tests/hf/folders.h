// What tests of Hugging Face folders share.
#pragma once

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "toy/formats/safetensors.h"

namespace toy::testing {

inline nlohmann::json read_json_file(const std::string& path) { return nlohmann::json::parse(std::ifstream(path)); }
inline void write_text(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

/// What transformers writes for a family (tests/golden/make_hf_golden.py).
inline const nlohmann::json& golden_of(const std::string& family) {
  static const nlohmann::json all = read_json_file(std::string(TOY_SOURCE_DIR) + "/tests/golden/hf.golden.json");
  return all.at(family);
}

/// Writes the tensors of a folder again; `change` renames one or leaves it out ("").
inline void change_tensors(const std::string& folder, const std::function<std::string(const std::string&)>& change,
                           const std::vector<std::string>& more = {}) {
  const safetensors::File file = safetensors::File::open(folder + "/model.safetensors");
  safetensors::Writer writer;
  for (const auto& [name, view] : file.tensors())
    if (const std::string other = change(name); !other.empty()) writer.add(other, view);
  for (const std::string& name : more) writer.add(name, file.tensors().begin()->second);
  writer.finish(folder + "/model.safetensors");
}

}  // namespace toy::testing
