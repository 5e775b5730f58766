#include "cli/model_file.h"

#include <fmt/format.h>

#include <filesystem>

#include "cli/console.h"
#include "cli/help.h"
#include "toy/base/error.h"
#include "toy/base/utf8.h"
#include "toy/formats/checkpoint.h"
#include "toy/runs/run.h"

namespace toy::cli {

namespace fs = std::filesystem;

CLI::Option* add_model_option(CLI::App& app, std::string& model) {
  return app.add_option("model", model, "GGUF file, a run's folder, or its id in runs or out")->check(file_name());
}

std::string run_folder(const std::string& what) {
  const std::vector<std::string> roots{"runs", "out"};  // where `toy runs` looks, too
  std::error_code error;
  if (what.empty()) return {};
  if (fs::exists(what, error)) return fs::is_directory(what, error) ? what : "";
  for (const std::string& root : roots)
    if (const fs::path run = fs::path(root) / what; fs::is_directory(run, error)) return run.string();
  try {
    return fs::path(runs::find_log(what, roots)).parent_path().string();
  } catch (const Error&) {
    return {};
  }
}

std::string model_in(const std::string& folder) {
  std::error_code error;
  for (const char* name : {"model.gguf", "weights.gguf"})
    if (const fs::path file = fs::path(folder) / name; fs::exists(file, error)) return file.string();
  const std::string checkpoints = (fs::path(folder) / "checkpoints").string();
  std::string newest;
  if (fs::is_directory(checkpoints, error))
    for (const int64_t step : checkpoint_steps(checkpoints))  // ascending
      if (const fs::path file = fs::path(checkpoint_path(checkpoints, step)) / "weights.gguf"; fs::exists(file, error))
        newest = file.string();
  return newest;
}

std::string model_file(const std::string& what) {
  const std::string folder = run_folder(what);
  if (folder.empty()) return what;  // a file, or nothing: whoever opens it says so
  const std::string file = model_in(folder);
  check(!file.empty(), "{}: the folder has no model.gguf and no checkpoint; train a model first, or give a GGUF file",
        folder);
  if (fs::path(file).parent_path() != fs::path(folder))
    to_stderr(fmt::format("toy: the run has not finished; using {}\n", one_line(file)));
  return file;
}

void require_tokenizer(const Model& model, const std::string& path, const char* way_out) {
  if (model.tokenizer) return;
  const std::string unsupported = unsupported_tokenizer(gguf::File::open(path));
  check(!unsupported.empty(), "{}: the file has no tokenizer; {}", path, way_out);
  fail("{}: {}, only {}; {}", path, unsupported, kSupportedTokenizers, way_out);
}

}  // namespace toy::cli
