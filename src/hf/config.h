// JSON files of a Hugging Face model, read with messages that name file and key.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace toy::hf {

/// An object. A key whose value is null counts as absent.
class Config {
 public:
  Config() : values_(nlohmann::json::object()) {}
  /// Throws Error{bad_input} naming `path` for what is no object.
  Config(nlohmann::json values, std::string path);
  /// Of a file. Throws Error{bad_input} for one that is missing or not JSON.
  static Config open(const std::string& path);
  /// The same where the file is there, else an empty object.
  static Config open_if_there(const std::string& path);

  const std::string& path() const { return path_; }
  const nlohmann::json& values() const { return values_; }
  /// nullptr: absent.
  const nlohmann::json* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }
  /// The object of a key, an empty one where it is absent.
  Config object(std::string_view key) const;
  /// Sets what is not there; null stays null, as in transformers. `defaults` is JSON.
  void add_defaults(std::string_view defaults);

  /// @{
  /// The value of a key. Without `otherwise`, an absent key is an error. Throws naming file, key and value for one of
  /// another type.
  int64_t integer(std::string_view key) const;
  int64_t integer(std::string_view key, int64_t otherwise) const;
  float number(std::string_view key) const;
  float number(std::string_view key, float otherwise) const;
  bool flag(std::string_view key, bool otherwise) const;
  std::string text(std::string_view key, std::string_view otherwise) const;
  /// @}
  /// A list of positive numbers. Throws naming file and key for anything else.
  std::vector<float> numbers(std::string_view key) const;
  /// One whole number, or a list of them; none where the key is absent.
  std::vector<int64_t> integers(std::string_view key) const;
  /// Throws unless the key is absent or its value is this, the only one that is supported.
  void require(std::string_view key, const nlohmann::json& only) const;

 private:
  std::string name(std::string_view key) const;

  nlohmann::json values_;
  std::string path_;
};

}  // namespace toy::hf
