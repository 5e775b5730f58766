// The registry of commands: one list drives dispatch, --help and --manifest.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace toy::cli {

/// One command: a file of its own that adds a subcommand to the program and sets its callback. Callbacks throw
/// toy::Error; the exit code follows from it.
struct Command {
  const char* name;
  const char* summary;
  void (*add)(CLI::App& app);  ///< gets the subcommand to fill
};

/// All commands, in the order in which --help shows them.
const std::vector<Command>& commands();

/// Adds a subcommand whose options live in a C, which is kept as long as the parser.
template <class C>
void add_subcommand(CLI::App& app, const char* name, const char* summary) {
  auto command = std::make_shared<C>();
  CLI::App* sub = app.add_subcommand(name, summary);
  command->add(*sub);
  sub->parse_complete_callback([command] {});
}

void add_new(CLI::App& app);
void add_train(CLI::App& app);
void add_infer(CLI::App& app);
void add_eval(CLI::App& app);
void add_describe(CLI::App& app);
void add_tokenizer(CLI::App& app);
void add_corpus(CLI::App& app);
void add_bench(CLI::App& app);
void add_runs(CLI::App& app);
void add_completion(CLI::App& app);

}  // namespace toy::cli
