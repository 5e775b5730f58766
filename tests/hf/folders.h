// What tests of Hugging Face folders share.
#pragma once

#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "toy/formats/gguf.h"
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

/// Writes a GGUF again with other metadata and other names of tensors; a key whose value is "" is left out.
inline void copy_with(const std::string& from, const std::string& to, const std::map<std::string, gguf::Value>& changes,
                      const std::map<std::string, std::string>& names = {}) {
  const gguf::File file = gguf::File::open(from);
  gguf::Writer w(file.get_string("general.architecture"));
  for (const auto& [key, value] : changes)
    if (value != gguf::Value(std::string())) w.set(key, value);
  for (const auto& [key, value] : file.metadata())
    if (!changes.contains(key) && !w.has(key) && key != "general.alignment") w.set(key, value);
  for (const gguf::TensorInfo& t : file.tensors())
    w.add(names.contains(t.name) ? names.at(t.name) : t.name, t.shape, *t.dtype, [&t](const gguf::Writer::Sink& sink) {
      sink({t.data, t.bytes});
    });
  w.finish(to);
}

}  // namespace toy::testing
