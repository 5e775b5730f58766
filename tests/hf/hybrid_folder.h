// A folder of a model with recurrent layers, to change and convert.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "folders.h"
#include "testing/errors.h"
#include "testing/family_golden.h"
#include "toy/hf/convert.h"
#include "toy/models/model.h"

namespace toy::testing {

/// A family's model as a GGUF, as a folder with transformers' config.json, and as the GGUF that this becomes.
class Hybrid {
 public:
  explicit Hybrid(const std::string& family) : g_(family), config(golden_of(family).at("config")) {
    hf::convert_gguf(gguf::File::open(g_.write()), folder);
    write();
    want = slurp(convert());
  }
  void write() const { write_text(folder + "/config.json", config.dump()); }
  std::string convert() {
    done = hf::convert_folder(folder, out);
    return out;
  }
  /// Writes the config as it is now and converts.
  std::string bytes() {
    write();
    return slurp(convert());
  }
  std::string error() const {
    write();
    return message_of([&] { hf::convert_folder(folder, g_.folder.path("refused.gguf")); });
  }
  const std::string& gguf() const { return g_.path; }
  std::string path(const std::string& name) const { return g_.folder.path(name); }

 private:
  const GoldenFamily g_;

 public:
  nlohmann::json config;
  hf::Converted done;
  const std::string folder = g_.folder.path("hf"), out = g_.folder.path("again.gguf");
  std::string want;
};

struct Tensor {
  Shape shape;
  std::vector<float> values;
};

/// The tensors of a folder, to change them.
inline std::map<std::string, Tensor> read_tensors(const std::string& folder) {
  std::map<std::string, Tensor> tensors;
  const safetensors::File file = safetensors::File::open(folder + "/model.safetensors");
  for (const auto& [name, view] : file.tensors())
    tensors[name] = {view.shape, {view.as<float>(), view.as<float>() + view.count()}};
  return tensors;
}

inline void write_tensors(const std::string& folder, std::map<std::string, Tensor>& tensors) {
  safetensors::Writer writer;
  for (auto& [name, t] : tensors) writer.add(name, View(t.values.data(), DType::f32, t.shape));
  writer.finish(folder + "/model.safetensors");
}

/// Takes a tensor out.
inline Tensor take(std::map<std::string, Tensor>& from, const std::string& name) {
  Tensor t = from.at(name);
  from.erase(name);
  return t;
}

}  // namespace toy::testing
