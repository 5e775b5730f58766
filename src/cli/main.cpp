// Dispatch: parses the command line, runs a command, turns errors into messages and exit codes.
#include "cli/main.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <new>

#include "cli/command.h"
#include "cli/config.h"
#include "cli/console.h"
#include "cli/help.h"
#include "cli/manifest.h"
#include "cli/options.h"
#include "cli/parse_errors.h"
#include "cli/resume.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"
#include "toy/formats/mapped_file.h"

namespace toy::cli {
namespace {

int fail_with(int code, const std::string& text) {
  to_stderr(fmt::format("toy: {}\n", one_line(text)));
  return code;
}

// Results that were lost are a failure, whatever was computed.
int with_output_written(int code) {
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) return fail_with(1, "stdout: the output could not be written");
  return code;
}

// `toy help train` is `toy train --help`.
std::vector<std::string> without_help_command(std::vector<std::string> words) {
  if (words.empty() || words.front() != "help") return words;
  words.erase(words.begin());
  words.emplace_back("--help");
  return words;
}

int run(CLI::App& app, int argc, char** argv) {
  const std::vector<std::string> given =
      without_help_command(std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
  try {
    std::vector<std::string> words = with_config(app, with_resumed_options(app, protect_texts(given)));
    std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
    app.parse(words);
    return with_output_written(0);
  } catch (const CLI::ParseError& e) {
    if (const std::string unknown = explain_unknown_command(app, given); e.get_exit_code() == 0 && !unknown.empty())
      return fail_with(2, unknown);                                       // --help of an unknown command
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
      {"new", "Create a project with a corpus, options and scripts", add_new},
      {"train", "Train a model on text and write it as GGUF", add_train},
      {"infer", "Generate text with a GGUF model", add_infer},
      {"eval", "Score text: perplexity, bits per byte, logprobs", add_eval},
      {"describe", "Show a model's card, graph, plan, memory and cost", add_describe},
      {"tokenizer", "Train a tokenizer, encode text, decode ids", add_tokenizer},
      {"corpus", "Write stories of known probability and score text", add_corpus},
      {"runs", "List, show and compare training runs", add_runs},
      {"bench", "Measure speed and compare it with the machine's limits", add_bench},
      {"completion", "Print a completion script for bash, zsh or fish", add_completion},
  };
  return list;
}

int main(int argc, char** argv) {
  ensure_standard_streams();
  install_sigbus_message();
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond the limit is an error of its write, with a message
  CLI::App app{"Train, run and inspect small language models.", "toy"};
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_help_all_flag("--help-all", "Show all options");
  app.set_version_flag("--version", std::string("toy ") + TOY_VERSION, "Print the version");
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // lists take all
  app.require_subcommand(1);
  app.add_flag_callback(
      "--manifest",
      [&app] {
        fmt::print("{}\n", json_text(manifest(app), 2));
        throw CLI::Success();
      },
      "Print all commands and options as JSON");
  for (const Command& c : commands()) {
    CLI::App* sub = app.add_subcommand(c.name, c.summary);
    c.add(*sub);
  }
  app.footer(  // last, because commands inherit it
      "toy help COMMAND shows the options of a command.\n\n"
      "Examples:\n"
      "  toy train from-scratch --corpus book.txt --out out/book\n"
      "  toy infer out/book --prompt \"Once upon a time\"");
  make_numbers_strict(app);
  return run(app, argc, argv);
}

}  // namespace toy::cli
