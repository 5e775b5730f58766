// What the commands below `toy eval` share.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/progress.h"
#include "toy/eval/compare.h"
#include "toy/eval/score.h"
#include "toy/train/data.h"

namespace toy::cli {

/// A text, or the rows of a training, and how they are cut into windows.
struct EvalTextOptions {
  std::string file, rows;
  DataOptions row_options;
  ScoreOptions score;
  bool by_documents = false, no_bos = false, parse_special = true;

  /// `data`: the help of --data.
  void add(CLI::App& app, const char* data = "Rows whose answers are scored, as training counts them");
  /// Reads the text in the tokens of the model in the file `path`.
  EvalText read(const Model& model, const std::string& path);
  int64_t documents() const { return documents_; }
  /// What is scored: a name in JSON and a file.
  std::pair<const char*, const std::string&> source() const {
    return {rows.empty() ? "file" : "data", rows.empty() ? file : rows};
  }

 private:
  EvalText read_rows(const Model& model, const std::string& path);
  std::vector<const CLI::Option*> of_rows_, of_text_;  // what only these have
  int64_t documents_ = 0;
};

/// Progress over tokens or questions, with the time that is left.
class EvalProgress {
 public:
  EvalProgress(std::string_view label, int64_t total);
  /// One more; `loss` so far where there is one.
  void next(std::optional<double> loss = {});
  /// So many of so many.
  void reached(int64_t done, int64_t total, std::optional<double> loss = {});
  /// Removes the bar, before a result is printed.
  void end() { progress_.reset(); }

 private:
  ProgressState state_;
  double begin_;
  std::optional<Progress> progress_;
};

/// A value with the digits that its error leaves, "2.5128 +- 0.0041".
std::string with_error(double value, double error);
/// A part of 1 as "50.0 +- 2.3%".
std::string percent(const MeanError& m);

/// toy eval MODEL --data FOLDER: how many pictures a classifier gets right.
void eval_images(Device& device, const std::string& model_path, const std::string& data, bool json);

void add_eval_kl(CLI::App& app);
void add_eval_lmc(CLI::App& app);
void add_eval_choices(CLI::App& app);
void add_eval_generate(CLI::App& app);
void add_eval_sts(CLI::App& app);
void add_eval_retrieval(CLI::App& app);
void add_eval_classify(CLI::App& app);

}  // namespace toy::cli
