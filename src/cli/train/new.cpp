// toy new: a folder with a project that works.
#include <fmt/format.h>

#include <filesystem>
#include <regex>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/help.h"
#include "cli/scripts.h"
#include "toy/base/error.h"
#include "toy/base/shell_word.h"
#include "toy/synth/stories.h"

namespace toy::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kReadme = R"(# @NAME@

A language model that `toy` trains from `corpus.txt`.

    ./train.sh                 # under a minute; the model is out/latest/model.gguf
    ./generate.sh              # generates a text
    ./generate.sh "One day"    # continues these words

| file | content |
| --- | --- |
| `corpus.txt` | the training text: stories from a small grammar. Replace it with your own |
| `model.json` | dimensions of the model; `toy describe model.json` shows their cost |
| `train.json` | options of `toy train from-scratch`; see its `--help-all` |
| `train.sh`, `generate.sh` | the commands |

Each training goes to a folder of its own in `out`, and `out/latest` is the newest. Options of `train.sh` override those
of `train.json`: `./train.sh --steps 5000`. `toy runs list` shows all runs. For a text of a few
megabytes use a larger model: `"size": "small"`, or more layers in `model.json`. For a text of a few kilobytes, which is
too short for a vocabulary of 512 pieces, use `"tokenizer": "bytes"`.

To measure it on a text that it has not seen: `toy eval out/latest --file other.txt`.
)";

constexpr const char* kTrainJson = R"({
  "corpus": "corpus.txt",
  "size": "model.json",
  "tokenizer": "spm:512",
  "name": "@NAME@",
  "batch": 16,
  "tokens": 64,
  "steps": 1000,
  "lr": 0.01,
  "weight-decay": 0.01,
  "eval-every": 250,
  "sample": 80,
  "seed": 1
}
)";

constexpr const char* kModelJson = R"({
  "d_model": 64,
  "n_layers": 2,
  "n_heads": 4,
  "n_kv": 2,
  "d_ff": 176,
  "context": 512
}
)";

// The scripts change to their own folder, so they name no paths of the caller.
constexpr const char* kScriptHead = R"sh(#!/usr/bin/env bash
# @WHAT@
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
# The program: $TOY, or toy on the PATH, or the one that created this project.
toy=${TOY:-$(command -v toy || echo @PROGRAM@)}
)sh";
constexpr const char* kTrain =
    R"sh("$toy" train from-scratch --config train.json "$@"
)sh";
constexpr const char* kGenerate =
    R"sh(prompt=${1:-Once upon a time}
[ -t 1 ] || printf '%s' "$prompt"  # a terminal shows it
"$toy" infer out/latest --prompt "$prompt" --n 300 --temperature 0.8 --seed 1
echo
)sh";

constexpr const char* kLibraryReadme = R"(# @NAME@

A program that uses the library of `toy` @VERSION@: it trains a small model on a text and generates from it.

    cmake -S . -B build -G Ninja -DCMAKE_PREFIX_PATH=PREFIX    # where toy is installed; not needed for /usr/local
    cmake --build build
    ./build/@NAME@

Install toy from its build folder: `cmake --install build/release --prefix PREFIX`. The headers in `PREFIX/include/toy`
document the library: graphs (`ops/ops.h`, `runtime/evaluate.h`), models (`models/model.h`), training
(`train/trainer.h`), generation (`decode/generate.h`) and scoring (`eval/score.h`).
)";

constexpr const char* kLibraryCMake = R"(cmake_minimum_required(VERSION 3.25)
project(@NAME@ LANGUAGES CXX)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_package(toy @VERSION@ REQUIRED)

add_executable(@NAME@ main.cpp)
target_link_libraries(@NAME@ PRIVATE toy::toy)
)";

constexpr const char* kLibraryMain = R"(// Trains a small model on a text and generates from it.
#include <cstdio>
#include <exception>
#include <string>

#include "toy/toy.h"

int main() try {
  // The text as token ids, one per byte.
  std::string text;
  for (int i = 0; i < 100; ++i) text += "The mill turns by day, and the mill rests by night. ";
  const std::shared_ptr<const toy::Tokenizer> tokenizer = toy::make_byte_tokenizer();
  const std::vector<int32_t> ids = tokenizer->encode(text);

  // A Llama with random weights.
  const auto device = toy::make_cpu_device();
  toy::Model model = toy::random_model(toy::model_spec("tiny", tokenizer->vocab_size()), *device, /*seed=*/1);
  model.tokenizer = tokenizer;

  // One step: forward, backward, AdamW.
  constexpr int64_t kSteps = 60;
  toy::Trainer trainer(*device, model, {.batch = 4, .tokens = 64});
  const toy::WindowSampler windows(ids, 4, 64, /*seed=*/1);
  const toy::Schedule rate{.kind = toy::Schedule::cosine, .peak = 5e-3, .warmup = 5, .steps = kSteps};
  double loss = 0;
  for (int64_t step = 0; step < kSteps; ++step) {
    loss = trainer.step(windows.batch(step), rate.at(step)).loss;
    if ((step + 1) % 10 == 0) std::printf("step %d: loss=%.4f\n", int(step + 1), loss);
  }

  const std::string prompt = "The mill";
  std::printf("%s%s\n", prompt.c_str(), toy::generate(*device, model, prompt, {.max_tokens = 44}).c_str());

  toy::save_model(model, "model.gguf");
  std::puts("model.gguf");
  return loss < 1 ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
)";

struct ProjectFile {
  std::string name, text;
};

// Trains and generates with this program: a corpus, dimensions, options, scripts.
std::vector<ProjectFile> training_project(const std::string& name) {
  const auto script = [&](const char* what, const char* commands) {
    return fill_in(kScriptHead, {{"WHAT", what}, {"PROGRAM", shell_quoted(own_path())}}) + commands;
  };
  return {{"README.md", fill_in(kReadme, {{"NAME", name}})},
          {"corpus.txt", write_stories({.seed = 1, .bytes = 300'000})},
          {"model.json", kModelJson},
          {"train.json", fill_in(kTrainJson, {{"NAME", name}})},
          {"train.sh", script("Trains the model. Options override those of train.json.", kTrain)},
          {"generate.sh", script("Continues the text in the first argument.", kGenerate)}};
}

// A CMake project that uses the installed library, of this program's version.
std::vector<ProjectFile> library_project(const std::string& name) {
  const std::string version = TOY_VERSION;
  const std::string minor = version.substr(0, version.rfind('.'));  // patches of it have its interface
  return {{"README.md", fill_in(kLibraryReadme, {{"NAME", name}, {"VERSION", minor}})},
          {"CMakeLists.txt", fill_in(kLibraryCMake, {{"NAME", name}, {"VERSION", minor}})},
          {"main.cpp", kLibraryMain},
          {".gitignore", "/build/\n/model.gguf\n"}};
}

// The name is a folder, a name in JSON and, of a library project, a target of CMake.
void check_name(const std::string& name, bool library) {
  check(std::regex_match(name, std::regex("[A-Za-z][A-Za-z0-9_-]{0,63}")),
        "the project's name is '{}'; use a letter, then up to 63 letters, digits, - and _", name);
  // Targets that CMake makes itself, and the package that the project looks for.
  for (const char* taken :
       {"all", "clean", "edit_cache", "help", "install", "package", "package_source", "rebuild_cache", "test", "toy"})
    check(!library || name != taken, "the project's name is '{}', which CMake or toy uses; choose another", name);
}

struct New : Command {
  std::string where;
  bool library = false;

  void add(CLI::App& app) {
    add_option(app, "path", where, "Folder to create; its last part is the project's name", folder_name())->required();
    app.add_flag("--lib", library, "Create a C++ project with CMake that uses the installed library");
    app.footer(
        "Examples:\n"
        "  toy new mine && mine/train.sh && mine/generate.sh\n"
        "  toy new --lib projects/mine");
  }

  void run() const {
    fs::path folder(where);
    if (!folder.has_filename()) folder = folder.parent_path();  // of "mine/"
    const std::string name = folder.filename().string();
    check_name(name, library);
    std::error_code error;
    const fs::path parent = folder.parent_path();
    check(parent.empty() || fs::is_directory(parent, error), "there is no folder '{}'; create it first",
          parent.string());
    const bool made = fs::create_directory(folder, error);
    check(made || (error && error != std::errc::file_exists),
          "'{}' exists, and nothing in it was changed; choose another name", folder.string());
    check(made, "cannot make the folder '{}': {}", folder.string(), error.message());
    std::string paths;
    try {
      for (const auto& [file, text] : library ? library_project(name) : training_project(name)) {
        const fs::path path = folder / file;
        write_file(path.string(), text);
        const auto execute = fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec;
        if (text.starts_with("#!")) fs::permissions(path, execute, fs::perm_options::add);
        paths += path.string() + "\n";
      }
    } catch (...) {
      fs::remove_all(folder, error);
      throw;
    }
    fmt::print("{}", paths);
    to_stderr(library ? fmt::format("next: build it as {}/README.md says\n", folder.string())
                      : fmt::format("next: {}/train.sh\n", folder.string()));
  }
};

}  // namespace

void add_new(CLI::App& app) { add_subcommand<New>(app, "new", "Create a project with a corpus, options and scripts"); }

}  // namespace toy::cli
