#include "bind/adapters.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "toy/base/error.h"
#include "toy/formats/gguf.h"
#include "toy/hf/peft.h"
#include "toy/models/adapter.h"
#include "toy/runs/run.h"
#include "toy/tensor/convert.h"

namespace toy {

namespace fs = std::filesystem;

void refuse_broken_weights(const std::string& path) {
  const gguf::File file = gguf::File::open(path);
  for (const gguf::TensorInfo& t : file.tensors()) {
    if (!t.dtype || is_quantized(*t.dtype)) continue;
    const View values(const_cast<std::byte*>(t.data), *t.dtype, t.shape);
    for (int64_t i = 0; i < values.count(); ++i)
      if (const double v = element(values, i); !std::isfinite(v))
        fail("{}: tensor '{}' holds {}, so the file is broken; download or convert it again", path, t.name,
             std::isnan(v) ? "NaN" : "infinity");
  }
}

namespace {

// "out/letters", "out/letters/adapter.gguf", "out/letters/peft" and "letters.gguf" are "letters".
std::string name_of_adapter(const std::string& given) {
  fs::path path = fs::absolute(given).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  if (path.filename() == runs::kAdapterFile || path.filename() == runs::kPeftFolder) path = path.parent_path();
  return (path.extension() == ".gguf" ? path.stem() : path.filename()).string();
}

}  // namespace

GivenAdapter parse_adapter(const std::string& text, bool named, const ModelFinder& finder) {
  std::error_code error;
  GivenAdapter g{text};
  const size_t sign = text.find('=');
  const bool says_name = named && sign != text.npos && sign > 0 && !fs::exists(text, error);
  if (says_name) g.name = text.substr(0, sign), g.path = text.substr(sign + 1);
  const std::string given = g.path;
  if (const size_t equals = given.rfind('='); equals != given.npos && !fs::exists(given, error)) {
    check(!fs::exists(given.substr(0, equals), error), "lora: '{}' is no file; write its scale after a colon: {}:{}",
          given, given.substr(0, equals), given.substr(equals + 1));
  }
  if (const size_t comma = given.find(','); comma != given.npos && !fs::exists(given, error))
    check(!fs::exists(given.substr(0, comma), error), "lora: '{}' is no file; give several one by one: {}, then {}",
          given, given.substr(0, comma), given.substr(comma + 1));
  if (const size_t colon = given.rfind(':'); colon != given.npos && colon > 0 && !fs::exists(given, error)) {
    const char* begin = given.c_str() + colon + 1;
    char* end = nullptr;
    g.scale = std::strtod(begin, &end);
    if (end == begin || *end != 0)
      check(!named || !fs::exists(begin, error), "lora: '{}' is no file; a name comes before '=': {}={}", given,
            given.substr(0, colon), begin);
    check(end != begin && *end == 0 && std::isfinite(g.scale),
          "lora: '{}' is no file, and its scale '{}' is no number; use FILE{} or FILE:SCALE", given, begin,
          named ? ", NAME=FILE" : "");
    g.path = given.substr(0, colon);
  }
  if (!says_name) g.name = name_of_adapter(g.path);
  if (!hf::is_peft_folder(g.path)) g.path = finder.adapter(g.path);
  return g;
}

namespace {

// The model that a run has made this adapter of, as its log says. The file of a checkpoint is two folders further down.
std::optional<std::string> base_of(const std::string& adapter) {
  for (const char* up : {".", "../.."})
    if (const fs::path run = fs::path(adapter).parent_path() / up; fs::exists(run / runs::kEventsFile))
      return base_of_adapter(run.lexically_normal().string());
  return std::nullopt;
}

}  // namespace

void apply_adapters(Model& model, const std::vector<GivenAdapter>& given) {
  for (const GivenAdapter& g : given) try {
      if (hf::is_peft_folder(g.path))
        hf::load_peft(model, g.path, g.scale);
      else
        load_adapter(model, g.path, g.scale);
    } catch (const OtherBase& e) {
      const std::string base = base_of(g.path).value_or(e.base);
      if (base.empty()) throw;
      fail("{}: it is an adapter of {}, not of this model: {}", g.path, base, e.why);
    }
}

void require_tokenizer(const Model& model, const std::string& path, const char* way_out) {
  if (model.tokenizer) return;
  const std::string unsupported = unsupported_tokenizer(gguf::File::open(path));
  check(!unsupported.empty(), "{}: the file has no tokenizer; {}", path, way_out);
  fail("{}: {}, only {}; {}", path, unsupported, kSupportedTokenizers, way_out);
}

}  // namespace toy
