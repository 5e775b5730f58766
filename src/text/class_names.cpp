#include "toy/text/class_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "toy/base/checksum.h"
#include "toy/base/error.h"

namespace toy {
namespace {

class ClassNames final : public Tokenizer {
 public:
  explicit ClassNames(std::vector<std::string> names) : names_(std::move(names)) {
    check(!names_.empty(), "classes: there are none");
    std::set<std::string_view> seen;
    for (const std::string& name : names_) check(seen.insert(name).second, "classes: '{}' is there twice", name);
  }
  std::string_view kind() const override { return "classes"; }
  int32_t vocab_size() const override { return int32_t(names_.size()); }
  size_t encode_part(std::string_view text, bool last, EncodePlace& place, std::vector<int32_t>& ids,
                     EncodeOptions) const override {
    if (!last) return 0;
    const auto it = std::ranges::find(names_, text);
    if (it == names_.end())
      throw EncodeError(
          "the model tells classes of pictures and reads no text, only their names: no class is called so, at ",
          place.bytes, fmt::format("; the first is '{}'", names_.front()));
    ids.push_back(int32_t(it - names_.begin()));
    place.bytes += text.size();
    return text.size();
  }
  uint64_t fingerprint() const override {
    std::string all = "classes";
    for (const std::string& name : names_) all += '\n' + name;
    return xxh64(all);
  }
  std::string token_bytes(int32_t id) const override {
    check(id >= 0 && id < vocab_size(), "class {} is not there; the model has {}", id, vocab_size());
    return names_[size_t(id)];
  }
  std::string decode(std::span<const int32_t> ids) const override {
    std::string text;
    for (const int32_t id : ids) {
      if (!text.empty()) text += ' ';
      text += token_bytes(id);
    }
    return text;
  }
  std::optional<int32_t> bos() const override { return std::nullopt; }
  std::optional<int32_t> eos() const override { return std::nullopt; }
  std::vector<int32_t> end_of_generation() const override { return {}; }
  bool adds_bos() const override { return false; }
  bool adds_eos() const override { return false; }
  void save(gguf::Writer& writer) const override {
    writer.set("tokenizer.ggml.model", gguf::Value(std::string("none")));
    writer.set(kClassesKey, gguf::Value(gguf::Array(names_)));
  }

 private:
  std::vector<std::string> names_;
};

}  // namespace

std::shared_ptr<const Tokenizer> make_class_names(std::vector<std::string> names) {
  return std::make_shared<const ClassNames>(std::move(names));
}

std::shared_ptr<const Tokenizer> load_class_names(const gguf::File& file) {
  if (!file.has(kClassesKey)) return nullptr;
  try {
    return make_class_names(file.get_strings(kClassesKey));
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("{}: {}: {}", file.path(), kClassesKey, e.what()));
  }
}

std::vector<std::string> class_names(const Tokenizer& tokenizer) {
  std::vector<std::string> names;
  for (int32_t i = 0; i < tokenizer.vocab_size(); ++i) names.push_back(tokenizer.token_bytes(i));
  return names;
}

}  // namespace toy
