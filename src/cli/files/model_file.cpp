#include "cli/files/model_file.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "cli/console.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "toy/base/clock.h"
#include "toy/base/error.h"
#include "toy/base/utf8.h"
#include "toy/hf/peft.h"
#include "toy/models/adapter.h"
#include "toy/runs/run.h"
#include "toy/tensor/convert.h"

namespace toy::cli {

namespace fs = std::filesystem;

CLI::Option* add_model_option(CLI::App& app, std::string& model) {
  return add_option(app, "model", model, "GGUF file, run or its id, name in `toy list`, or Hugging Face folder",
                    file_name());
}

ModelFinder finder() {
  return {.say = [](const std::string& line) { to_stderr(fmt::format("toy: {}\n", line)); },
          .convert = [](const auto& work) { convert_with_progress({}, work); }};
}

std::string model_file(const std::string& what) { return finder().model(what); }

std::optional<hf::Converted> convert_with_progress(
    hf::ConvertOptions options, const std::function<hf::Converted(const hf::ConvertOptions&)>& work) {
  struct Interrupted {};  // between two tensors
  std::optional<Progress> progress(std::in_place);
  progress->waiting("converting");
  Interrupt interrupt;
  const double begin = steady_seconds();
  options.progress = [&](size_t done, size_t total) {
    if (interrupt.signal()) throw Interrupted();
    progress->show({.label = "tensor",
                    .brief = "",
                    .done = int64_t(done),
                    .total = int64_t(total),
                    .seconds_left = (steady_seconds() - begin) / double(done) * double(total - done)});
  };
  try {
    return work(options);
  } catch (const Interrupted&) {
    progress.reset();
    interrupt.end_by_signal();
    return std::nullopt;
  }
}

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

void AdapterOptions::add(CLI::App& app, bool named) {
  named_ = named;
  begin_group(app, "Model");
  if (named)
    add_option(app, "--lora", lora, "Adapter as a model of its own, maybe times :SCALE")
        ->option_text("[NAME=]FILE[:SCALE]");
  else
    add_option(app, "--lora", lora, "Adapter: a GGUF, the folder of a run or of PEFT, maybe times :SCALE")
        ->option_text("FILE[:SCALE]");
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

std::vector<AdapterOptions::Given> AdapterOptions::given() const {
  std::vector<Given> list;
  std::error_code error;
  for (const std::string& text : lora) {
    Given g{text};
    const size_t sign = text.find('=');
    const bool says_name = named_ && sign != text.npos && sign > 0 && !fs::exists(text, error);
    if (says_name) g.name = text.substr(0, sign), g.path = text.substr(sign + 1);
    const std::string given = g.path;
    if (const size_t colon = given.rfind(':'); colon != given.npos && colon > 0 && !fs::exists(given, error)) {
      const char* begin = given.c_str() + colon + 1;
      char* end = nullptr;
      g.scale = std::strtod(begin, &end);
      check(end != begin && *end == 0 && std::isfinite(g.scale),
            "lora: '{}' is no file, and its scale '{}' is no number; use FILE or FILE:SCALE", given, begin);
      g.path = given.substr(0, colon);
    }
    if (!says_name) g.name = name_of_adapter(g.path);
    if (!hf::is_peft_folder(g.path)) g.path = finder().adapter(g.path);
    list.push_back(g);
  }
  return list;
}

void AdapterOptions::apply(Model& model, const std::vector<Given>& given) {
  for (const Given& g : given)
    if (hf::is_peft_folder(g.path))
      hf::load_peft(model, g.path, g.scale);
    else
      load_adapter(model, g.path, g.scale);
}

void require_tokenizer(const Model& model, const std::string& path, const char* way_out) {
  if (model.tokenizer) return;
  const std::string unsupported = unsupported_tokenizer(gguf::File::open(path));
  check(!unsupported.empty(), "{}: the file has no tokenizer; {}", path, way_out);
  fail("{}: {}, only {}; {}", path, unsupported, kSupportedTokenizers, way_out);
}

}  // namespace toy::cli
