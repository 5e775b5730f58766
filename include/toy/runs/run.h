// Runs in their folders: found, summed up, sorted, compared.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "toy/runs/log.h"

namespace toy::runs {

/// A run in one line.
struct Summary {
  std::string id, folder, recipe, started, status;
  std::string model;      ///< name, or size and tokenizer: "tiny, spm:512"
  std::string tokenizer;  ///< as --tokenizer said it; "": it is that of another model
  int64_t vocab = 0;      ///< how many tokens there are
  int64_t step = 0, steps = 0, parameters = 0, tokens = 0, resumes = 0;
  std::optional<double> loss, best_loss, validation_loss, best_validation_loss, nats_per_byte, lr, tokens_per_second;
  /// Of reinforcement learning: mean rewards of the answers of the last steps, at most kRewardSteps, the newest last.
  std::vector<double> last_rewards;
  static constexpr size_t kRewardSteps = 10;
  std::optional<double> reward() const;     ///< their mean
  std::optional<double> validation_reward;  ///< of the last validation
  Rewards rewards;                          ///< of the last validation, before the first of the last step
  std::optional<bool> validation_is_whole;  ///< what best_validation_loss compares: losses on the whole text, or a part
  double seconds = 0;
  std::string error;                 ///< why a run failed
  std::optional<int64_t> exit_code;  ///< of a run that has ended
  JsonObject config;                 ///< every option with its value
};

/// A column of a list of runs.
struct Column {
  enum class Better { neither, less, more };
  using Cell = std::variant<std::string, std::optional<int64_t>, std::optional<double>>;
  const char* name;   ///< of JSON, --sort and --metric
  const char* title;  ///< of tables
  Better better;
  bool in_list;  ///< shown by `toy runs list`
  Cell (*cell)(const Summary&);
  bool if_any = false;  ///< shown only where a run has it
};
/// All columns; lists, comparisons, sorting and JSON go by this list. The important ones stand first: a narrow terminal
/// has no room for the last ones.
std::span<const Column> columns();
/// The column of this name. Throws Error{bad_input} that lists the names.
const Column& column(const std::string& name);
/// A cell as people read it: counts with thousands apart, times as 1:02:03, "-" for what is not there.
std::string to_text(const Column& column, const Summary& summary);
/// {"id": ..., ...} with a member for each column.
nlohmann::ordered_json to_json(const Summary& summary);

/// `folder` is the run's; `running`: a process is writing the log now.
Summary summarize(const Log& log, const std::string& folder, bool running);
/// The same of the log in a file, which is streamed: of any length, it takes little memory. Throws as read_events()
/// does.
Summary summarize_file(const std::string& path, const std::string& folder, bool running);
/// Stable; what a run does not have stands last. Ascending, or descending.
void sort_by(std::vector<Summary>& runs, const Column& column, bool descending);
/// An option that is not the same in all runs, with its value in each as people read it.
struct OptionDifference {
  std::string name;
  std::vector<std::string> values;
};
/// In the order of the options, without those that only say where and how a run is shown (--out, --json and the like).
std::vector<OptionDifference> option_differences(std::span<const Summary> runs);
/// Do losses per token compare? Not where tokenizers or validation texts differ: by their names, the number of tokens,
/// or the bytes that a token has.
bool have_same_tokens(std::span<const Summary> runs);
/// Two folders may have one name: then the runs are called by their folders.
void name_apart(std::span<Summary> runs);
/// Ids without the words that all begin with: where there is little room, what tells them apart is what counts.
std::vector<std::string> short_names(std::span<const Summary> runs);
/// One event for each column in which less or more is better, in their order. Losses per token have a best one only
/// where have_same_tokens().
std::vector<Compare> compare(std::span<const Summary> runs);

/// Folders of runs: `root` itself if it has a log, and those below it, at most four deep, in the order of their names.
/// Hidden folders and links to folders are not entered.
std::vector<std::string> find_runs(const std::string& root);
/// The folder of the run with this id below `roots`, or of the only one whose id begins so; nullopt if there is none.
/// `whole`: the beginning of an id is not enough.
/// Throws Error{bad_input} that names them where there are several.
std::optional<std::string> find_run(const std::string& id, std::span<const std::string> roots, bool whole = false);
/// A model or an adapter in the folder of a run or of a checkpoint: its file, "" if there is none, and why it is that
/// of a checkpoint ("" where the run has ended).
struct Made {
  std::string file, note;
};
/// kModelFile, unless a checkpoint is newer or it is not there.
Made newest_model(const std::string& folder);
/// The same of kAdapterFile.
Made newest_adapter(const std::string& folder);
/// The model that a path means: a file itself, of the folder of a run or checkpoint the newest model. Throws
/// Error{bad_input} for a folder without one.
std::string model_path(const std::string& path);
/// The log that a user means: a file, the folder of a run, or an id (or the beginning of only one) below `roots`.
/// Throws Error{bad_input} that says what is near, or which runs begin so.
std::string find_log(const std::string& what, std::span<const std::string> roots);

/// Replaces {name} by fields.at(name), {date} by 20260131, {time} by 235959 (UTC) and {seq} by the first number, 001
/// and up, whose folder is not there, and makes the folder (with its parents). Without a placeholder the path is
/// returned as it is, and nothing is made. Throws Error{bad_input} for an unknown placeholder, a brace without its
/// partner, or a folder that cannot be made.
std::string make_folder(const std::string& path, std::map<std::string, std::string> fields);

/// Now, as "2026-01-31T23:59:59Z".
std::string utc_now();
/// Name, CPUs and memory of this machine.
Host this_host(int threads);
/// The commit that is checked out in the repository around `folder`; nullopt if there is none. Reads files of .git,
/// runs nothing.
std::optional<std::string> git_commit(const std::string& folder);

}  // namespace toy::runs
