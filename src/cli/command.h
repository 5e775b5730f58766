// The commands, a file each. They throw toy::Error; the exit code follows from it.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

namespace toy {
class Communicator;
}

namespace toy::cli {

/// What a command is made of: a class derived from this, with members for its options, add(CLI::App&), which declares
/// them, and run(), which does the work.
struct Command {
  CLI::App* parser = nullptr;
  bool given(const char* option) const { return parser->count(option) > 0; }
};

/// Adds the command C(args...), which lives as long as the parser.
template <class C, class... Args>
void add_subcommand(CLI::App& app, const char* name, const char* summary, const Args&... args) {
  auto command = std::make_shared<C>(args...);
  command->parser = app.add_subcommand(name, summary);
  command->add(*command->parser);
  command->parser->callback([command] { command->run(); });
}

/// Adds a command that has only subcommands, which are added to the result.
inline CLI::App& add_command_group(CLI::App& app, const char* name, const char* summary) {
  return *app.add_subcommand(name, summary)->require_subcommand(1);
}

/// The subcommand of this name, or nullptr.
const CLI::App* find_command(const CLI::App& app, const std::string& name);

void add_new(CLI::App& app);
/// `ranks`: processes that a launcher started together, or nullptr.
void add_train(CLI::App& app, Communicator* ranks);
void add_infer(CLI::App& app);
void add_chat(CLI::App& app);
void add_embed(CLI::App& app);
void add_rerank(CLI::App& app);
void add_search(CLI::App& app);
void add_serve(CLI::App& app);
void add_eval(CLI::App& app);
void add_merge(CLI::App& app);
void add_quantize(CLI::App& app);
void add_list(CLI::App& app);
void add_fetch(CLI::App& app);
void add_convert(CLI::App& app);
void add_describe(CLI::App& app);
void add_look(CLI::App& app);
void add_tokenizer(CLI::App& app);
void add_corpus(CLI::App& app);
void add_data(CLI::App& app);
void add_runs(CLI::App& app);
/// The same.
void add_bench(CLI::App& app, Communicator* ranks);
void add_devices(CLI::App& app);
void add_completion(CLI::App& app);

/// What `toy completion` writes asks for the words that complete a command line; the last of `words` is being written.
/// Prints a line for each: the word, and after a tab what it means; ":files" or ":dirs" where their names do.
void print_completions(const CLI::App& root, std::vector<std::string> words);

}  // namespace toy::cli
