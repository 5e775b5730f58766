// Where `toy infer` and `toy look` take their prompts from.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "toy/models/model.h"

namespace toy::cli {

/// A file's text, or what standard input holds for "-". Throws for an empty one.
std::string read_text(const std::string& path, bool may_be_empty = false);

/// Throws Error{bad_input} where texts of lines are a list in JSON, whose brackets would be texts, too.
void require_lines(const std::string& name, const std::string& texts);
/// @{
/// The file of --json-schema, and of --grammar. Throws Error{bad_input} for one that is the other.
nlohmann::ordered_json read_schema(const std::string& path);
std::string read_grammar(const std::string& path);
/// @}

/// Numbers with commas, spaces or both between them. Errors name the option.
std::vector<int32_t> parse_ids(const std::string& option, const std::string& text);

struct Prompt {
  std::string where;                ///< for messages: "prompt", "stories.txt:3"
  std::optional<std::string> text;  ///< to be encoded; else it is the ids
  std::vector<int32_t> ids;
  std::vector<float> lora = {};  ///< a factor for each --lora; empty: 1
};

/// --prompt, --prompt-file, --prompts, --prompt-ids: one of them, or none (a pipe, else an empty text).
struct PromptOptions {
  bool no_bos = false, parse_special = true;

  /// `several`: with --prompts.
  void add(CLI::App& app, bool several = true);
  /// Reads files and checks what needs no model.
  void read();
  /// Takes standard input as the prompt, where that is a pipe or a file and nothing else gives one or reads it.
  void read_piped();
  /// Was --prompts given?
  bool several() const { return !lines_.empty(); }
  const std::vector<Prompt>& all() const { return prompts_; }
  const std::string& where(size_t i) const { return prompts_[i].where; }
  /// The end of the only prompt's text, for a terminal; "": there are several, or it has none.
  std::string shown() const;
  /// Factors of a prompt's adapters, empty where it has none.
  const std::vector<float>& lora(size_t i) const { return prompts_[i].lora; }
  /// Has any prompt factors? Throws Error{bad_input} for one that does not have `adapters` of them.
  bool any_lora(size_t adapters) const;
  /// Token ids of each prompt, with the beginning-of-sequence token where the tokenizer asks for it. Throws naming the
  /// prompt (the line, for --prompts) for ids outside the vocabulary, an empty prompt, or text without a tokenizer.
  std::vector<std::vector<int32_t>> tokens(const Model& model, const std::string& model_path) const;

 private:
  void note_missing_or_empty() const;
  // The argument for a text is the file of a model.
  bool is_second_model() const;

  const CLI::App* app_ = nullptr;
  std::vector<CLI::Option*> options_;  // those that give prompts
  std::string text_, ids_, file_, lines_;
  std::vector<Prompt> prompts_;
  bool is_piped_ = false;
};

}  // namespace toy::cli
