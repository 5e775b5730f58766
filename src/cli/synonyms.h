// Words that people know from other programs, in ours.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace toy::cli {

/// A command line in our words: `run` is `chat`, `--max-tokens 5` is `--n 5`, `-m FILE` is the argument MODEL. Only
/// where a command has no such word itself and one meaning is left: a wrong guess is worse than an error. Each
/// translation is said on stderr.
std::vector<std::string> in_our_words(const CLI::App& root, const std::vector<std::string>& words);

/// Our option ("--lr") or argument ("model") for one that the command does not have, or "".
std::string our_option(const CLI::App& app, const std::string& theirs);

/// Our recipe ("lora") for what another program calls it, with the options that make it so ("dpo --loss kto"), or "".
std::string our_recipe(const std::string& theirs);

/// Options of other programs that in_our_words() would translate for this command: "--max-tokens", ...
std::vector<std::string> known_synonyms(const CLI::App& app);

/// Why `toy` has no such option of another program: "every layer runs on --device"; "" for other words.
std::string needless_option(const CLI::App& app, const std::string& theirs);

/// "; leave it out": what to do about a value of another program, whose option is among the words, or "".
std::string needless_value(const std::string& option, const std::vector<std::string>& words);

/// Is the word a command, a recipe, or what another program calls one, or nearly?
bool names_command(const CLI::App& root, const std::string& word);

/// Our command for a word that is nearly one of another program; "" for other words.
std::string known_command(const std::string& word);

/// Why this group of commands has no such command; "" for other words.
std::string needless_command(const CLI::App& app, const std::string& word);

}  // namespace toy::cli
