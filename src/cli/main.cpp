// Dispatch: parses the command line, runs a command, turns errors into messages and exit codes.
#include "cli/main.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <new>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/help.h"
#include "cli/launch.h"
#include "cli/man.h"
#include "cli/options.h"
#include "cli/pages.h"
#include "cli/parse_errors.h"
#include "cli/synonyms.h"
#include "cli/tables.h"
#include "cli/train/config.h"
#include "toy/base/error.h"
#include "toy/base/utf8.h"
#include "toy/formats/mapped_file.h"

namespace toy::cli {
namespace {

void run(CLI::App& app, std::vector<std::string> given) {
  if (!given.empty() && given[0] == "--complete") return print_completions(app, {given.begin() + 1, given.end()});
  if (!given.empty() && given[0] == "help") {  // `toy help train` is `toy train --help`
    if (given.size() == 2 && given[1] == "pages") return list_pages();
    if (const Page* page = given.size() == 2 ? find_page(given[1]) : nullptr;
        page && (given[1].ends_with(".md") || !find_command(app, given[1])))
      return show(*page);
    const std::string word = fmt::format("{}", fmt::join(given.begin() + 1, given.end(), " "));
    if (const std::string text = explain_word(word); !text.empty() && !find_command(app, given[1])) {
      const size_t columns = size_t(terminal_width(STDOUT_FILENO));
      return fmt::print("{}\n", is_terminal(STDOUT_FILENO) ? wrapped(text, columns, 0) : text);
    }
    if (given.size() == 2 && !given[1].starts_with("-") && !names_command(app, given[1])) {
      const std::string near = near_topics(given[1]);
      check(near.empty(), "there is no command, page or word '{}'; {}", one_line(given[1]), near);
    }
    given.erase(given.begin());
    given.emplace_back("--help");
  }
  given = in_our_words(app, given);
  try {
    std::vector<std::string> words = with_config(app, with_resumed_options(app, protect_texts(given)));
    std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
    app.parse(words);
  } catch (const CLI::ParseError& e) {
    const bool is_error = e.get_exit_code() != 0;  // and not --help or --version
    const std::string wrong = is_error ? explain(app, e, given) : explain_unknown_command(app, given);
    check(wrong.empty(), "{}", wrong);
    app.exit(e);
  }
}

// The options of all commands take milliseconds to declare. A command line that begins with a command needs only its,
// and --version none.
void add_commands(CLI::App& app, std::string_view first, Communicator* ranks) {
  struct Entry {
    std::string_view name;
    std::function<void(CLI::App&)> add;
  };
  const Entry kCommands[] = {{"new", add_new},
                             {"train", [=](CLI::App& root) { add_train(root, ranks); }},
                             {"infer", add_infer},
                             {"chat", add_chat},
                             {"embed", add_embed},
                             {"search", add_search},
                             {"rerank", add_rerank},
                             {"serve", add_serve},
                             {"eval", add_eval},
                             {"list", add_list},
                             {"fetch", add_fetch},
                             {"quantize", add_quantize},
                             {"merge", add_merge},
                             {"convert", add_convert},
                             {"describe", add_describe},
                             {"look", add_look},
                             {"tokenizer", add_tokenizer},
                             {"corpus", add_corpus},
                             {"data", add_data},
                             {"runs", add_runs},
                             {"bench", [=](CLI::App& root) { add_bench(root, ranks); }},
                             {"devices", add_devices},
                             {"completion", add_completion}};
  const bool one = std::ranges::any_of(kCommands, [&](const Entry& e) { return e.name == first; });
  for (const Entry& e : kCommands)
    if (!one || e.name == first) e.add(app);
}

}  // namespace

const CLI::App* find_command(const CLI::App& app, const std::string& name) {
  const auto all = app.get_subcommands([&](const CLI::App* s) { return s->get_name() == name; });
  return all.empty() ? nullptr : all.front();
}

int exit_code_of(const std::function<void()>& work) {
  const auto failed = [](int code, const std::string& text) {
    std::fflush(stdout);
    to_stderr(fmt::format("toy: {}\n", one_line(text)));
    return code;
  };
  try {
    work();
    errno = 0;
    if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return 0;
    return failed(1, lost_output(errno));
  } catch (const Exit& e) {
    return e.code;
  } catch (const Error& e) {
    return failed(e.code() == ErrorCode::bad_input ? 2 : 1, e.what());
  } catch (const std::filesystem::filesystem_error& e) {
    return failed(2, fmt::format("{}: {}", printable(e.path1().string()), e.code().message()));
  } catch (const std::bad_alloc&) {
    return failed(2, "memory: there is not enough for this; use a smaller model, batch or context");
  } catch (const std::exception& e) {
    if (!std::ferror(stdout)) return failed(1, e.what());
    const auto* system = dynamic_cast<const std::system_error*>(&e);  // fmt's, of a write
    return failed(1, lost_output(system ? system->code().value() : 0));
  }
}

namespace {

int run_program(int argc, char** argv, Communicator* ranks) {
  install_sigbus_message();
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond the limit is an error of its write, with a message
  CLI::App app{"Train, run and inspect small language models.", "toy"};
  app.formatter_fn(help_text);
  app.set_help_flag("-h,--help", "Show this help");
  app.set_help_all_flag("--help-all", "Show all options");
  app.set_version_flag("--version", std::string("toy ") + TOY_VERSION, "Print the version");
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // lists take all
  app.require_subcommand(1);
  app.add_flag_callback(
      "--manifest",
      [&app] {
        print_json(manifest(app), 2);
        throw CLI::Success();
      },
      "Print all commands and options as JSON");
  app.add_option_function<std::string>(
         "--man-pages",
         [&app](const std::string& folder) {
           write_man_pages(app, folder);
           throw CLI::Success();
         },
         "Write a manual page for each command into a folder")
      ->check(folder_name());
  if (argc != 2 || argv[1] != std::string_view("--version")) add_commands(app, argc > 1 ? argv[1] : "", ranks);
  app.footer(  // last, because commands inherit it
      "toy help COMMAND shows the options of a command, toy help PAGE a page of the manual (toy help pages lists "
      "them), toy help WORD what a word such as nat means.\n\n"
      "Examples:\n"
      "  toy train from-scratch --corpus book.txt --out out/book\n"
      "  toy infer out/book --prompt \"Once upon a time\"");
  return exit_code_of([&] { run(app, {argv + std::min(argc, 1), argv + argc}); });
}

}  // namespace

int main(int argc, char** argv) {
  ensure_standard_streams();
  return run_in_ranks({argv, size_t(argc)}, [=](Communicator* ranks) { return run_program(argc, argv, ranks); });
}

}  // namespace toy::cli
