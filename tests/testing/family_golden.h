// The golden files of the model families (tests/golden/make_family_golden.py): metadata, names and shapes; weights
// follow from a formula.
#pragma once

#include <charconv>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "testing/files.h"
#include "toy/formats/gguf.h"

namespace toy::testing {

// ---- the formula: splitmix64 from the FNV-1a hash of a name

inline uint64_t hash_of(const std::string& name) {
  uint64_t h = 0xcbf29ce484222325;
  for (const char c : name) h = (h ^ uint8_t(c)) * 0x100000001b3;
  return h;
}
// Number i of a name: a multiple of 2^-24 in [-0.5, 0.5).
inline double uniform(uint64_t hash, int64_t i) {
  uint64_t z = hash + uint64_t(i + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return double((z ^ (z >> 31)) >> 40) * 0x1p-24 - 0.5;
}

template <class T>
std::vector<T> numbers(const gguf::File& f, const std::string& name) {
  const gguf::TensorInfo& t = f.require("golden." + name);
  const T* p = reinterpret_cast<const T*>(t.data);
  return {p, p + t.shape.count()};
}

inline Shape shape_of(const std::string& text) {
  std::vector<int64_t> dims;
  for (size_t at = 0; at < text.size();
       at = text.find(',', at) == std::string::npos ? text.size() : text.find(',', at) + 1) {
    int64_t d = 0;
    std::from_chars(text.data() + at, text.data() + text.size(), d);
    dims.push_back(d);
  }
  Shape shape;
  for (const int64_t d : dims) shape.push_back(d);
  return shape;
}

// A golden file, and the complete model file that it describes.
class GoldenFamily {
 public:
  explicit GoldenFamily(const std::string& name)
      : golden(gguf::File::open(std::string(TOY_SOURCE_DIR) + "/tests/golden/" + name + ".family.gguf")),
        names(golden.get_strings("golden.names")) {
    ids = numbers<int32_t>(golden, "ids");
    for (const int32_t r : golden.get_i32s("golden.rows")) rows.push_back(size_t(r));
  }
  // `without`: a key or tensor to leave out. `more`: keys to add.
  std::string write(const std::string& without = "", const std::map<std::string, gguf::Value>& more = {}) const {
    gguf::Writer w(golden.get_string("general.architecture"));
    for (const auto& [key, value] : golden.metadata())
      if (!key.starts_with("golden.") && key != "general.architecture" && key != without) w.set(key, value);
    for (const auto& [key, value] : more) w.set(key, value);
    std::deque<std::vector<float>> kept;
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] == without) continue;
      const Shape shape = shape_of(golden.get_strings("golden.shapes")[i]);
      const double mean = double(golden.get_f32s("golden.means")[i]),
                   width = double(golden.get_f32s("golden.widths")[i]);
      const uint64_t hash = hash_of(names[i]);
      std::vector<float>& values = kept.emplace_back();
      for (int64_t j = 0; j < shape.count(); ++j) values.push_back(float(mean + width * uniform(hash, j)));
      w.add(names[i], View(values.data(), DType::f32, shape), DType::f32);
    }
    for (const gguf::TensorInfo& t : golden.tensors())
      if (!t.name.starts_with("golden."))
        w.add(t.name, View(const_cast<std::byte*>(t.data), DType::f32, t.shape), DType::f32);
    w.finish(path);
    return path;
  }

  const gguf::File golden;
  const std::vector<std::string> names;
  std::vector<int32_t> ids;
  std::vector<size_t> rows;
  const Folder folder;
  const std::string path = folder.path("model.gguf");
};

}  // namespace toy::testing
