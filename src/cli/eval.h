// What the commands of `toy eval` share.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "cli/progress.h"
#include "toy/eval/score.h"

namespace toy::cli {

/// Options of a text that is scored, and of how.
struct EvalOptions {
  std::string file;
  bool by_documents = false, no_bos = false;
  ScoreOptions score;
  DeviceOptions device;
  DecodingOptions decoding;

  /// --file, --by-documents, --no-bos, --ctx, --stride.
  void add_text(CLI::App& app, bool file_required = true);
  /// --kv and the like, --device, --threads, --check-finite.
  void add_machine(CLI::App& app);
  /// The documents of the text. Throws Error{bad_input} where there are none.
  std::vector<std::string> documents() const;
  /// Their tokens, after a check of the context; warns on stderr of one longer than that of training. What a decoder
  /// needs to score them is in `score` then.
  EvalText tokens(const Model& model, const std::string& path, std::span<const std::string> documents);
  int64_t context(const Model& model) const { return score.context > 0 ? score.context : model.spec.context; }
  int64_t stride(const Model& model) const {
    return score.stride > 0 ? score.stride : std::max<int64_t>(1, context(model) / 2);
  }
};

/// Tokens that will be scored.
int64_t scored_tokens(const EvalText& text);

/// Progress over tokens, or what `label` counts.
class EvalProgress {
 public:
  explicit EvalProgress(int64_t total, std::string_view label = "token");
  void show(int64_t done, std::optional<double> loss = {});

 private:
  ProgressState state_;
  Progress progress_;
  double begin_;
};

/// A value with the digits that its error leaves, "2.5128 +- 0.0041".
std::string with_error(double value, double error);
/// What errors are over: "documents", or "blocks of 64 tokens".
std::string error_over(bool documents);
/// "+- is the standard error over 358 blocks of 64 tokens", or why there is none.
std::string error_note(bool documents, int64_t blocks);

void add_eval_lmc(CLI::App& app);
void add_eval_kl(CLI::App& app);
void add_eval_choices(CLI::App& app);

}  // namespace toy::cli
