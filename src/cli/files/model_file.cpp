#include "cli/files/model_file.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "cli/console.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "toy/base/clock.h"
#include "toy/base/error.h"
#include "toy/base/run_files.h"
#include "toy/base/utf8.h"

namespace toy::cli {

CLI::Option* add_model_option(CLI::App& app, std::string& model) {
  return add_option(app, "model", model, "GGUF file, run or its id, name in `toy list`, or Hugging Face folder",
                    file_name());
}

ModelFinder finder() {
  return {.say = [](const std::string& line) { to_stderr(fmt::format("toy: {}\n", line)); },
          .convert = [](const auto& work) { convert_with_progress({}, work); }};
}

std::string model_file(const std::string& what) { return finder().model(what); }

std::string model_file(const std::string& what, const std::string& after) {
  namespace fs = std::filesystem;
  std::error_code error;
  const auto is_model = [&](const std::string& path) {
    if (!fs::is_directory(path, error)) return path.ends_with(".gguf") && fs::is_regular_file(path, error);
    return fs::exists(fs::path(path) / runs::kModelFile, error) ||
           fs::exists(fs::path(path) / runs::kCheckpointsFolder, error) ||
           fs::exists(fs::path(path) / "model.safetensors", error) ||
           fs::exists(fs::path(path) / "model.safetensors.index.json", error);
  };
  if (is_model(after) && !is_model(what) && !what.ends_with(".gguf")) try {
      const std::string found = finder().model(what);
      check(!fs::exists(what, error), "{}: no model", what);
      return found;
    } catch (const Error&) {
      fail("'{}' is a model, and '{}' is none; exchange the two", after, what);
    }
  return model_file(what);
}

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

std::string name_of_model_file(const std::string& file) {
  const std::filesystem::path path = std::filesystem::absolute(file);
  return (path.filename() == runs::kModelFile ? path.parent_path().filename() : path.stem()).string();
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

std::vector<GivenAdapter> AdapterOptions::given() const {
  std::vector<GivenAdapter> list;
  constexpr double kMost = 4;
  for (const std::string& text : lora) {
    const double scale = list.emplace_back(parse_adapter(text, named_, finder())).scale;
    if (std::abs(scale) > kMost)
      to_stderr(
          fmt::format("toy: --lora {} counts the adapter {:.6g} times; 0 to 1 is usual\n", one_line(text), scale));
  }
  return list;
}

}  // namespace toy::cli
