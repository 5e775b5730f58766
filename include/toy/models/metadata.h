// What a file states of a model, by keys without the name of its architecture: "context_length" is
// "llama.context_length" in a file of Llama.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "toy/formats/gguf.h"

namespace toy {

/// Metadata of one architecture. It remembers which keys were asked for: what is left has no effect, and the user is
/// told. Every function throws naming file and key where the value is of another type.
class Metadata {
 public:
  /// `architecture`: the prefix of its keys.
  Metadata(gguf::File file, std::string architecture);
  const gguf::File& file() const { return file_; }
  /// The key in full.
  std::string key(std::string_view name) const { return prefix_ + std::string(name); }
  /// Is the key there?
  bool has(std::string_view name) const { return file_.has(key(name)); }

  /// @{
  /// The value of a key. Without `otherwise`, an absent key is an error.
  int64_t u32(std::string_view name);
  int64_t u32(std::string_view name, int64_t otherwise);
  float f32(std::string_view name);
  float f32(std::string_view name, float otherwise);
  bool flag(std::string_view name, bool otherwise);
  std::string text(std::string_view name, std::string_view otherwise);
  /// @}
  /// @{
  /// One value for each of n layers: an array of n, or a number that holds for all.
  std::vector<int64_t> u32s(std::string_view name, size_t n);
  std::vector<int64_t> u32s(std::string_view name, const std::vector<int64_t>& otherwise);
  /// @}
  /// One flag for each of n layers: an array of n, or a number k: false for every k-th layer. 0, or k = 0: for none.
  std::vector<bool> pattern(std::string_view name, size_t n, int64_t otherwise);

  /// Throws unless the key is absent or has this value, the only one that is supported.
  void require(std::string_view name, int64_t only);
  /// A key that changes nothing: warns unless it has this value, which is computed with.
  void ignore(std::string_view name, double computed_with);
  /// A key that changes nothing, whatever its value.
  void ignore(std::string_view name) { asked_.insert(key(name)); }
  /// Throws for a key that nobody asked for.
  void refuse_unknown() const;

  /// Something else that the user should know.
  void warn(std::string text) { warnings_.push_back(std::move(text)); }
  /// What warn() and ignore() said, and all keys that nobody asked for.
  std::vector<std::string> warnings() const;

 private:
  std::string asked(std::string_view name);
  const gguf::Value* find(const std::string& key) const;
  std::vector<std::string> unknown() const;

  gguf::File file_;
  std::string prefix_;
  std::set<std::string, std::less<>> asked_;
  std::vector<std::string> warnings_;
};

/// The same on the way into a file.
class MetadataWriter {
 public:
  /// `architecture`: the prefix of its keys.
  MetadataWriter(gguf::Writer& file, std::string architecture) : file_(file), prefix_(std::move(architecture) + ".") {}
  gguf::Writer& file() { return file_; }
  /// @{
  /// Sets a key.
  void u32(std::string_view name, int64_t value) { set(name, uint32_t(value)); }
  void f32(std::string_view name, float value) { set(name, value); }
  void flag(std::string_view name, bool value) { set(name, value); }
  void text(std::string_view name, std::string value) { set(name, std::move(value)); }
  /// @}
  /// A number if all layers have the same one, else an array.
  void u32s(std::string_view name, const std::vector<int64_t>& values);
  /// The number k if every k-th layer is false and the others are true, else an array of n flags.
  void pattern(std::string_view name, const std::vector<bool>& values);
  /// An array.
  void i32s(std::string_view name, const std::vector<int32_t>& values) { set(name, gguf::Array(values)); }
  /// An array of texts.
  void texts(std::string_view name, const std::vector<std::string>& values) { set(name, gguf::Array(values)); }
  /// An array of flags.
  void flags(std::string_view name, const std::vector<bool>& values) { set(name, gguf::Array(values)); }

 private:
  void set(std::string_view name, gguf::Value value) { file_.set(prefix_ + std::string(name), std::move(value)); }

  gguf::Writer& file_;
  std::string prefix_;
};

}  // namespace toy
