// Dispatch: parses the command line, runs a command, turns errors into messages and exit codes.
#include "cli/main.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/config.h"
#include "cli/console.h"
#include "cli/options.h"
#include "cli/parse_errors.h"
#include "cli/resume.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"
#include "toy/formats/mapped_file.h"

namespace toy::cli {
namespace {

// What a program needs to know about a command and its options, from the same objects that parse them.
nlohmann::ordered_json manifest(const CLI::App& app) {
  nlohmann::ordered_json j{{"name", app.get_name()}, {"summary", app.get_description()}};
  for (const CLI::Option* o : app.get_options()) {
    if (o->get_name() == "--help") continue;
    nlohmann::ordered_json option{{"name", o->get_positional() ? o->get_name(true) : o->get_name()},
                                  {"positional", o->get_positional()},
                                  {"required", o->get_required()},
                                  {"takes_value", o->get_items_expected_max() > 0},
                                  {"help", o->get_description()}};
    if (!o->get_default_str().empty()) option["default"] = o->get_default_str();
    j["options"].push_back(std::move(option));
  }
  for (const CLI::App* sub : app.get_subcommands({})) j["commands"].push_back(manifest(*sub));
  return j;
}

int fail_with(int code, const std::string& text) {
  to_stderr(fmt::format("toy: {}\n", one_line(text)));
  return code;
}

// Results that nobody got are a failure, whatever was computed.
int with_output_written(int code) {
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) return fail_with(1, "stdout: the output could not be written");
  return code;
}

int run(CLI::App& app, int argc, char** argv) {
  const std::vector<std::string> given(argv + std::min(argc, 1), argv + argc);
  try {
    std::vector<std::string> words = with_config(app, with_resumed_options(app, protect_texts(argc, argv)));
    std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
    app.parse(words);
    return with_output_written(0);
  } catch (const CLI::ParseError& e) {
    if (const std::string unknown = explain_unknown_command(app, given); e.get_exit_code() == 0 && !unknown.empty())
      return fail_with(2, unknown);                                       // --help of a command that is not there
    if (e.get_exit_code() == 0) return with_output_written(app.exit(e));  // --help, --version
    return fail_with(2, explain(app, e, given));
  } catch (const Error& e) {
    std::fflush(stdout);
    return fail_with(e.code() == ErrorCode::bad_input ? 2 : 1, e.what());
  } catch (const std::filesystem::filesystem_error& e) {
    return fail_with(2, fmt::format("{}: {}", printable(e.path1().string()), e.code().message()));
  } catch (const std::bad_alloc&) {
    return fail_with(2, "memory: there is not enough for this; use a smaller model, batch or context");
  } catch (const std::exception& e) {
    return std::ferror(stdout) ? with_output_written(1) : fail_with(1, e.what());
  }
}

}  // namespace

const std::vector<Command>& commands() {
  static const std::vector<Command> list{
      {"new", "Make a project: a corpus, a config, scripts; or a CMake project that uses the library", add_new},
      {"train", "Train a model: from a text to a GGUF file", add_train},
      {"infer", "Continue a prompt with a GGUF model", add_infer},
      {"eval", "Score a text: perplexity, bits a byte, logprobs of every token", add_eval},
      {"describe", "Show a model's card, graph, memory plan and cost", add_describe},
      {"tokenizer", "Train a tokenizer, encode text, decode ids", add_tokenizer},
      {"corpus", "Write stories whose exact probability is known, and score texts", add_corpus},
      {"runs", "List, show and compare training runs; curves, reports", add_runs},
      {"bench", "Measure toy's speed beside this machine's ceilings", add_bench},
  };
  return list;
}

int main(int argc, char** argv) {
  ensure_standard_streams();
  install_sigbus_message();
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond the limit is an error of its write, with a message
  CLI::App app{
      "toy: readable machine learning that is also fast.\n"
      "Trains, runs and inspects transformer language models; GGUF in and out.\n",
      "toy"};
  app.set_version_flag("--version", std::string("toy ") + TOY_VERSION);
  app.require_subcommand(1);
  app.footer(
      "\nTry:  toy train from-scratch --corpus text.txt --out out\n"
      "      toy infer out/model.gguf --prompt \"Once upon a time\"\n"
      "`toy COMMAND --help` explains each; `toy --manifest` prints all of it as JSON.");
  app.add_flag_callback(
      "--manifest",
      [&app] {
        fmt::print("{}\n", json_text(manifest(app), 2));
        throw CLI::Success();
      },
      "print every command and option as JSON");
  for (const Command& c : commands()) {
    CLI::App* sub = app.add_subcommand(c.name, c.summary);
    c.add(*sub);
  }
  make_numbers_strict(app);
  return run(app, argc, argv);
}

}  // namespace toy::cli
