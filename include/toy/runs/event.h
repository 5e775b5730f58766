// Events of a run, schema toy/v1: one JSON object a line, described in docs/runs.md.
//
// Each kind is a struct that lists its fields in fields(e, f), which calls f(name, field, meaning) for each of them:
// writing, reading and the JSON Schema follow from that list. Numbers that are not finite are null in a file; an absent
// optional is not written. Of kinds with kOncePerStep only the last event of each step and name counts.
#pragma once

#include <cmath>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace toy::runs {

inline constexpr std::string_view kSchema = "toy/v1";
inline constexpr double kUnknown = NAN;  ///< what a number is before it is read

/// A JSON object as its text: who tells of it need not read it.
struct JsonObject {
  std::string text = "{}";
  bool operator==(const JsonObject&) const = default;
};

/// The machine of a run.
struct Host {
  std::string name;
  int64_t cpus = 0, threads = 0, memory_bytes = 0;
  static void fields(auto& e, auto&& f) {
    f("name", e.name, "the machine's name");
    f("cpus", e.cpus, "CPUs that the process may use");
    f("threads", e.threads, "threads that the device uses");
    f("memory_bytes", e.memory_bytes, "memory that was available at the start");
  }
};

/// First event, on disk before the first step is computed.
struct RunStart {
  static constexpr std::string_view kKind = "run_start";
  std::string schema{kSchema}, run_id, time, toy, recipe, backend;
  std::optional<std::string> git;
  Host host;
  JsonObject model, config;
  std::optional<JsonObject> effective = {};
  int64_t parameters = 0, steps = 0, tokens_per_step = 0, train_tokens = 0, windows_per_epoch = 0,
          validation_tokens = 0, planned_bytes = 0;
  std::optional<int64_t> trained = {};
  std::optional<double> epochs = {};
  std::optional<std::string> data = {}, base = {};
  std::optional<int64_t> ranks = {};
  static void fields(auto& e, auto&& f) {
    f("schema", e.schema, "toy/v1");
    f("run_id", e.run_id, "the name of the run's folder");
    f("time", e.time, "wall clock at the start, ISO 8601 in UTC; the only one, t counts from here");
    f("toy", e.toy, "version of toy");
    f("recipe", e.recipe, "which recipe trains");
    f("backend", e.backend, "the device");
    f("git", e.git, "commit that is checked out in the working folder, if it is in a repository");
    f("host", e.host, "the machine");
    f("model", e.model, "dimensions, as `describe --json` prints them");
    f("config", e.config, "every option with its value, as in config.json");
    f("effective", e.effective, "what the run used for options of `config` without a value of their own (null, -1)");
    f("parameters", e.parameters, "weights of the model");
    f("steps", e.steps, "steps that the run will take");
    f("tokens_per_step", e.tokens_per_step, "tokens that a step reads");
    f("train_tokens", e.train_tokens, "tokens of the training text");
    f("windows_per_epoch", e.windows_per_epoch, "rows of an epoch of the training text");
    f("validation_tokens", e.validation_tokens, "tokens of the validation text");
    f("planned_bytes", e.planned_bytes, "memory that training holds");
    f("trained", e.trained, "weights that the run changes");
    f("epochs", e.epochs, "epochs that the steps are");
    f("data", e.data, "what is trained on: the paths of --corpus or --data");
    f("base", e.base, "the model file that the run begins with");
    f("ranks", e.ranks, "processes that train together; absent: one");
  }
};

/// The run goes on from a checkpoint; what it had written of later steps no longer counts.
struct Resume {
  static constexpr std::string_view kKind = "resume";
  std::string time, from;
  std::optional<int64_t> steps = {};
  std::optional<JsonObject> config = {}, effective = {};
  static void fields(auto& e, auto&& f) {
    f("time", e.time, "wall clock, ISO 8601 in UTC");
    f("from", e.from, "the checkpoint");
    f("steps", e.steps, "steps that the run will take in all; it may have been told another number");
    f("config", e.config, "every option with its value, as in config.json");
    f("effective", e.effective, "what the run used for options of `config` without a value of their own (null, -1)");
  }
};

/// Of preference training: means over the answers, and how often the better one has the larger reward.
struct Rewards {
  std::optional<double> chosen = {}, rejected = {}, margin = {}, accuracy = {};
  static void fields(auto& e, auto&& f) {
    f("reward_chosen", e.chosen, "preference training: mean reward of chosen answers");
    f("reward_rejected", e.rejected, "preference training: mean reward of rejected answers");
    f("reward_margin", e.margin, "preference training: reward_chosen - reward_rejected");
    f("reward_accuracy", e.accuracy,
      "preference training: part of the pairs whose chosen answer has the larger reward");
  }
};

/// Of reinforcement learning: what the answers of a step were like.
struct Policy {
  std::optional<double> reward = {}, mixed = {}, finished = {}, length = {}, entropy = {}, kl = {},
                        ratio_deviation = {}, ratio_drift = {}, clip_share = {}, seconds_sampling = {},
                        seconds_reward = {};
  static void fields(auto& e, auto&& f) {
    f("reward", e.reward, "reinforcement learning: mean reward of the step's answers");
    f("groups_mixed", e.mixed,
      "reinforcement learning: part of the questions whose answers differ in the first reward");
    f("finished", e.finished, "reinforcement learning: part of the answers that ended by themselves");
    f("length", e.length, "reinforcement learning: mean tokens of an answer");
    f("entropy", e.entropy, "reinforcement learning: mean entropy of the tokens' distributions, nats");
    f("kl", e.kl, "reinforcement learning: estimated divergence from the model that the run begins with, nats a token");
    f("ratio_deviation", e.ratio_deviation,
      "reinforcement learning: largest |p / p' - 1| of the training's and the sampler's probability of a token");
    f("ratio_drift", e.ratio_drift,
      "reinforcement learning with several updates per step: largest |ratio - 1| of the updates after the first");
    f("clip_share", e.clip_share,
      "reinforcement learning with several updates per step: part of the tokens that those updates clip");
    f("seconds_sampling", e.seconds_sampling, "reinforcement learning: time to write the answers");
    f("seconds_reward", e.seconds_reward, "reinforcement learning: time to judge them");
  }
};

/// A time as events have it.
inline std::optional<int64_t> microseconds(std::optional<double> seconds) {
  return seconds ? std::optional<int64_t>(std::llround(*seconds * 1e6)) : std::nullopt;
}

/// One step of the optimizer.
struct Step {
  static constexpr std::string_view kKind = "step";
  static constexpr bool kOncePerStep = true;
  double loss = kUnknown, lr = kUnknown;
  std::optional<double> grad_norm;
  int64_t tokens = 0, wall_us = 0;
  double tokens_per_second = kUnknown;
  std::optional<bool> skipped;
  std::optional<double> seconds_left;
  std::optional<int64_t> exchange_us = {}, wait_us = {};
  Rewards rewards = {};
  Policy policy = {};
  static void fields(auto& e, auto&& f) {
    f("loss", e.loss, "mean over the step's tokens before the update, nats a token; of preferences over the answers");
    f("lr", e.lr, "learning rate");
    f("grad_norm", e.grad_norm, "global norm of the gradients before clipping; streaming updates have none");
    f("tokens", e.tokens, "tokens of this step");
    f("wall_us", e.wall_us, "microseconds of this step alone");
    f("tokens_per_second", e.tokens_per_second, "training alone, mean since the start");
    f("skipped", e.skipped, "true: not finite, nothing has changed; else absent");
    f("seconds_left", e.seconds_left, "estimated time to the end of the run, with its validations");
    f("exchange_us", e.exchange_us,
      "with several ranks: microseconds to send and add gradients, and wait for slower ranks");
    f("wait_us", e.wait_us, "with several ranks: microseconds that rank 0 waited for gradients of the others");
    Rewards::fields(e.rewards, f);
    Policy::fields(e.policy, f);
  }
};

/// Counts of equally wide bins.
struct Histogram {
  double low = kUnknown, high = kUnknown;
  std::vector<int64_t> counts;
  static void fields(auto& e, auto&& f) {
    f("low", e.low, "lower edge of the first bin");
    f("high", e.high, "upper edge of the last bin");
    f("counts", e.counts, "finite values in each bin, bins equally wide");
  }
};

/// What is told of the elements of a tensor. Means and extrema are of the finite ones.
struct TensorStats {
  int64_t count = 0, nonfinite = 0;
  double mean = kUnknown, rms = kUnknown, min = kUnknown, max = kUnknown, absmax = kUnknown;
  Histogram histogram;
  static void fields(auto& e, auto&& f) {
    f("count", e.count, "elements");
    f("nonfinite", e.nonfinite, "elements that are NaN or infinite; the rest of the numbers are of the others");
    f("mean", e.mean, "mean");
    f("rms", e.rms, "root of the mean square");
    f("min", e.min, "smallest");
    f("max", e.max, "largest");
    f("absmax", e.absmax, "largest magnitude");
    f("histogram", e.histogram, "16 bins from min to max");
  }
};

/// A value of the forward pass.
struct Tap : TensorStats {
  static constexpr std::string_view kKind = "tap";
  static constexpr bool kOncePerStep = true;
  std::string name;
  static void fields(auto& e, auto&& f) {
    f("name", e.name, "of the value");
    TensorStats::fields(e, f);
  }
};

/// The gradient of a weight, before clipping.
struct Grad : TensorStats {
  static constexpr std::string_view kKind = "grad";
  static constexpr bool kOncePerStep = true;
  std::string name;
  static void fields(auto& e, auto&& f) {
    f("name", e.name, "of the tensor");
    TensorStats::fields(e, f);
  }
};

/// Drift of one row of a tensor.
struct RowDrift {
  int64_t row = 0;
  double cos_to_init = kUnknown, l2_to_init = kUnknown;
  static void fields(auto& e, auto&& f) {
    f("row", e.row, "index of the row: the token's id");
    f("cos_to_init", e.cos_to_init, "cosine of the angle to the row at the start");
    f("l2_to_init", e.l2_to_init, "Euclidean distance from the row at the start");
  }
};

/// How far a weight has come since the start of the run, after the step's update.
struct Drift {
  static constexpr std::string_view kKind = "drift";
  static constexpr bool kOncePerStep = true;
  std::string name;
  double cos_to_init = kUnknown, l2_to_init = kUnknown, l2 = kUnknown;
  std::optional<std::vector<RowDrift>> rows;
  static void fields(auto& e, auto&& f) {
    f("name", e.name, "of the tensor");
    f("cos_to_init", e.cos_to_init, "cosine of the angle to the tensor at the start; null if either is all zeros");
    f("l2_to_init", e.l2_to_init, "Euclidean distance from the tensor at the start");
    f("l2", e.l2, "Euclidean norm");
    f("rows", e.rows, "of tensors with a row for each token: the 8 rows that have come farthest, the farthest first");
  }
};

/// Time of one op in one step, all its calls together.
struct OpTiming {
  static constexpr std::string_view kKind = "op_timing";
  static constexpr bool kOncePerStep = true;
  std::string op, pass;
  int64_t calls = 0;
  double us = kUnknown;
  static void fields(auto& e, auto&& f) {
    f("op", e.op, "the op; a fused chain is joined by +");
    f("pass", e.pass, "forward, backward or update");
    f("calls", e.calls, "kernel calls");
    f("us", e.us, "microseconds, all calls together");
  }
};

/// A text that the model wrote.
struct Sample {
  static constexpr std::string_view kKind = "sample";
  static constexpr bool kOncePerStep = true;
  std::string text;
  std::optional<std::string> prompt, wanted;
  std::optional<double> reward = {};
  static void fields(auto& e, auto&& f) {
    f("text", e.text, "an answer to the prompt, or else a continuation of the validation text, its start included");
    f("prompt", e.prompt, "of examples: that of one of the validation, as the model reads it");
    f("wanted", e.wanted, "the answer that the example has");
    f("reward", e.reward, "of reinforcement learning: of this answer, if it was judged");
  }
};

/// An evaluation on the validation text.
struct Eval {
  static constexpr std::string_view kKind = "eval";
  static constexpr bool kOncePerStep = true;
  double loss = kUnknown, nats_per_byte = kUnknown;
  bool whole = false;
  std::optional<double> average_loss;
  Rewards rewards = {};
  std::optional<double> top1 = {}, top1_error = {}, top5 = {}, top5_error = {}, reward = {}, reward_error = {};
  std::optional<JsonObject> classes = {};
  static void fields(auto& e, auto&& f) {
    f("loss", e.loss,
      "nats a token; of preferences the mean over the answers, of pictures and pairs over them; null where there is a "
      "reward");
    f("nats_per_byte", e.nats_per_byte, "nats a byte; of preferences of the chosen answers");
    f("whole", e.whole, "all of the validation text was read");
    f("average_loss", e.average_loss, "of the averaged weights, nats a token");
    Rewards::fields(e.rewards, f);
    each_part(e, f);
    f("classes", e.classes,
      "of pictures and texts with at most 100 classes: `names`, `confusion` ([class][what the model says]), and "
      "`worst`, "
      "those with the largest losses");
  }
  /// Of pictures, and of anchors, whose positive is searched among all texts of the validation. Of questions.
  static void each_part(auto& e, auto&& f) {
    f("top1", e.top1, "the fraction of pictures whose class, or of anchors whose positive, is the likeliest");
    f("top1_error", e.top1_error, "its standard error");
    f("top5", e.top5, "the same among the 5 likeliest");
    f("top5_error", e.top5_error, "its standard error");
    f("reward", e.reward, "reinforcement learning: mean reward of the likeliest answers to the held-out questions");
    f("reward_error", e.reward_error, "its standard error");
  }
};

/// One metric of several runs, as `toy runs compare --json` prints it.
struct Compare {
  static constexpr std::string_view kKind = "compare";
  std::string metric;
  std::vector<std::string> runs;
  std::vector<double> values;
  std::optional<std::string> best;
  static void fields(auto& e, auto&& f) {
    f("metric", e.metric, "what is compared");
    f("runs", e.runs, "ids");
    f("values", e.values, "of each run, null where it has none");
    f("best", e.best, "id of the best, where more or less is better");
  }
};

/// A part of the run begins.
struct RegionEnter {
  static constexpr std::string_view kKind = "region_enter";
  std::string name;
  static void fields(auto& e, auto&& f) { f("name", e.name, "of the region"); }
};

/// It has ended.
struct RegionExit {
  static constexpr std::string_view kKind = "region_exit";
  std::string name;
  int64_t wall_us = 0;
  static void fields(auto& e, auto&& f) {
    f("name", e.name, "of the region");
    f("wall_us", e.wall_us, "microseconds since it was entered");
  }
};

/// Something that a reader of the log should know.
struct Note {
  static constexpr std::string_view kKind = "note";
  std::string text;
  std::optional<bool> warning;
  static void fields(auto& e, auto&& f) {
    f("text", e.text, "for people");
    f("warning", e.warning, "true: something may be wrong; else absent");
  }
};

/// A checkpoint is on disk.
struct Checkpoint {
  static constexpr std::string_view kKind = "checkpoint";
  std::string path;
  static void fields(auto& e, auto&& f) { f("path", e.path, "its folder"); }
};

/// Last event.
struct RunEnd {
  static constexpr std::string_view kKind = "run_end";
  std::string reason;
  double final_loss = kUnknown;
  int64_t exit_code = 0;
  double seconds = kUnknown;
  std::optional<double> nats_per_byte;
  std::optional<std::string> model, average_model, checkpoint, error;
  int64_t peak_rss_bytes = 0;
  static void fields(auto& e, auto&& f) {
    f("reason", e.reason,
      "done, patience (validation got no better), time (the limit has passed), stopped (to be resumed), or error");
    f("final_loss", e.final_loss, "of the last step");
    f("exit_code", e.exit_code, "0 done, 1 failure, 2 bad input");
    f("seconds", e.seconds, "that the run took");
    f("nats_per_byte", e.nats_per_byte, "of the last evaluation");
    f("model", e.model, "path of the model that was written");
    f("average_model", e.average_model, "path of the averaged weights");
    f("checkpoint", e.checkpoint, "path of the newest checkpoint");
    f("error", e.error, "what went wrong");
    f("peak_rss_bytes", e.peak_rss_bytes, "largest resident memory");
  }
};

/// Any of them. Every kind stands here once.
using Body = std::variant<RunStart, Resume, Step, Tap, Grad, Drift, OpTiming, Sample, Eval, Compare, RegionEnter,
                          RegionExit, Note, Checkpoint, RunEnd>;

/// One line of a log.
struct Event {
  double t = 0;                 ///< seconds since the start, of a clock that only goes forward
  std::optional<int64_t> step;  ///< the last step that was taken, counted from 1; absent before the first
  std::string phase;            ///< prepare, train, eval or end
  Body body;

  std::string_view kind() const;
  /// What tells apart events of one kind and step; nullopt for kinds of which every event counts.
  std::optional<std::string> name_in_step() const;
  /// The event as this kind, or nullptr.
  template <class T>
  const T* as() const {
    return std::get_if<T>(&body);
  }
};

/// One line without its end. Doubles have the fewest digits that give them back, text that is not UTF-8 is replaced.
std::string to_json_line(const Event& event);
/// nullopt for a kind that is not known. Throws Error{bad_input} for what is not JSON or has a field of another type;
/// fields that are not known are skipped, absent ones stay as they are in a new Event.
std::optional<Event> parse_event(std::string_view line);
/// JSON Schema (draft 2020-12) of one line, made from the lists above.
nlohmann::ordered_json events_schema();

/// Who wants to see events.
class EventSink {
 public:
  virtual ~EventSink() = default;
  /// Called once for each event, in order.
  virtual void write(const Event& event) = 0;
};

}  // namespace toy::runs
