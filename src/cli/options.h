// Options that several commands share.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/help.h"
#include "toy/backend/devices.h"
#include "toy/decode/decoder.h"
#include "toy/models/model.h"
#include "toy/train/trainer.h"

namespace toy::cli {

struct DeviceOptions {
  std::string device = "cpu";
  int threads = 0;
  void add(CLI::App& app);
  std::unique_ptr<Device> make() const;
};

/// --kv, --exact and --repack of commands that decode.
struct DecodingOptions {
  DecoderOptions decoder;
  std::string repack = "auto";
  /// `more`: names of others in the list of DecoderOptions.
  void add(CLI::App& app, std::initializer_list<std::string_view> more = {});
  /// These with what a list changes: "exact, kv(f32), repack(off)". Throws Error{bad_input} beginning with `what`.
  DecodingOptions with(std::string_view what, std::string_view list) const;
  /// Should quantized weights be repacked to generate or score so many tokens in all?
  bool repacks(const Model& model, int64_t generated, int64_t scored) const;
};

/// Bytes for DecoderOptions::cache where nobody says: room for every sequence to be full and, where layers keep more
/// than pages, as much for snapshots, of which a conversation needs some; or half of what is free.
size_t likely_cache(const Model& model, const DecoderOptions& options);

/// How JSON names them: "q8_0" where activations are rounded to it, else "exact".
constexpr const char* products_name(bool rounds_activations) { return rounds_activations ? "q8_0" : "exact"; }

/// What the dense products of a training step are computed in.
struct ComputeOptions {
  std::string compute = "f32";
  void add(CLI::App& app);
  /// `auto` measures both for some milliseconds and says on stderr what it chose.
  DType choose(Device& device) const;
};

/// What all files of a kind that this program writes begin with: the first 64 KiB of one are enough.
using IsOwn = std::function<bool(std::string_view beginning)>;
/// Throws Error{bad_input} where `out` is a file that is not empty and that no command of this kind has written: names
/// are soon mistaken.
void refuse_replacing(const std::string& option, const std::string& out, const IsOwn& is_own);
/// The same for commands that write a model: another model is replaced only with --overwrite, which add_overwrite()
/// adds.
void refuse_replacing_model(const std::string& option, const std::string& out, bool overwrite);
void add_overwrite(CLI::App& app, bool& overwrite);

/// --parse-special, on unless --no-parse-special is given.
void add_parse_special(CLI::App& app, bool& value);

/// --ctx of a command that decodes: 0, or as many positions as a model may state.
CLI::Option* add_context_option(CLI::App& app, int64_t& context, const char* help);
/// Warns on stderr when `positions` are more than the model of this file was trained for.
void warn_of_long_context(const std::string& path, const ModelSpec& spec, int64_t positions);

/// Notes about a file that was opened, one line each on stderr.
void print_warnings(const std::string& path, const std::vector<std::string>& warnings);
/// @{
/// Says on stderr what a text of the command line may have been meant to be: a file, which `option` would read, or a
/// line break, where it has a backslash and an n.
void note_text(const std::string& text, const std::string& option);
/// Is standard input a pipe or a file?
bool has_piped_input();
/// Says that what a pipe brings is not read, as `there_is` a text already, and `how` both are.
void note_unread_input(const std::string& there_is, const std::string& how);
void note_line_breaks(const std::string& text);
/// @}

/// The words of the command line (without the program), the values of text options marked so that the parser cannot
/// mistake them.
std::vector<std::string> protect_texts(const std::vector<std::string>& given);
/// Whether the word after this one is the value of a text option, whatever it looks like.
bool takes_any_text(const std::string& word);
/// Removes the mark of protect_texts().
CLI::Validator unmarked();

/// An option whose value is any text: it may be empty, or look like an option itself. Of a vector: several of them.
template <class T>
CLI::Option* add_text_option(CLI::App& app, const char* name, T& value, const char* help) {
  return add_option(app, name, value, help)->transform(unmarked());
}

}  // namespace toy::cli
