// Two runs side by side, from their logs of events.
//
//   example_compare_runs RUN RUN     folders that hold an events.jsonl
//   example_compare_runs FOLDER      first trains two small models there, with two learning rates
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>

#include "toy/backend/devices.h"
#include "toy/base/error.h"
#include "toy/data/corpus.h"
#include "toy/models/model.h"
#include "toy/runs/run.h"
#include "toy/synth/stories.h"
#include "toy/train/trainer.h"

namespace {

using namespace toy;
namespace fs = std::filesystem;

constexpr int64_t kSteps = 40;

// Trains and logs. Whatever writes these events can be compared, also where it is no Trainer.
void train(const fs::path& folder, double lr) {
  const auto device = make_cpu_device();
  const auto tokenizer = make_byte_tokenizer();
  const std::vector<int32_t> ids = tokenizer->encode(write_stories({.seed = 1, .bytes = 30'000}));
  Model model = random_model(model_spec("tiny", tokenizer->vocab_size()), *device, 1);
  const TrainerOptions options{.batch = 4, .tokens = 32};
  Trainer trainer(*device, model, options);
  const WindowSampler windows(ids, options.batch, options.tokens, 1);

  fs::create_directories(folder);
  runs::EventWriter log((folder / runs::kEventsFile).string(), runs::EventWriter::Mode::fresh);
  runs::RunStart start;
  start.run_id = folder.filename().string();
  start.time = runs::utc_now();
  start.recipe = "example";
  start.steps = kSteps;
  start.parameters = parameter_count(model.spec);
  log.write({.t = 0, .step = {}, .phase = "prepare", .body = start});
  const auto begin = std::chrono::steady_clock::now();
  const auto now = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  double loss = 0;
  for (int64_t step = 1; step <= kSteps; ++step) {
    loss = trainer.step(windows.batch(step - 1), lr).loss;
    runs::Step event;
    event.loss = loss;
    event.lr = lr;
    event.tokens = options.batch * options.tokens;
    log.write({.t = now(), .step = step, .phase = "train", .body = event});
  }
  runs::RunEnd end;
  end.reason = "done";
  end.final_loss = loss;
  log.write({.t = now(), .step = kSteps, .phase = "end", .body = end});
}

// Losses by step, and the run in one line.
struct Run {
  std::map<int64_t, double> loss;
  runs::Summary summary;
};

Run read(const std::string& folder) {
  const std::string path = (fs::path(folder) / runs::kEventsFile).string();
  const runs::Log log = runs::read_events(path);
  for (const std::string& warning : log.warnings) fmt::print(stderr, "{}: {}\n", path, warning);
  Run run{{}, runs::summarize(log, folder, runs::is_being_written(path))};
  for (const runs::Event& event : log.events)
    if (const auto* step = event.as<runs::Step>(); step && event.step) run.loss[*event.step] = step->loss;
  return run;
}

int run(const std::string& first, const std::string& second) {
  const Run a = read(first), b = read(second);
  fmt::print("{:>8}  {:>12} {:>12}\n", "step", a.summary.id, b.summary.id);
  int64_t common = 0;
  for (const auto& [step, loss] : a.loss) {
    const auto other = b.loss.find(step);
    if (other == b.loss.end()) continue;
    ++common;
    if (step == 1 || step % std::max<int64_t>(1, int64_t(a.loss.size()) / 8) == 0)
      fmt::print("{:>8}  {:>12.4f} {:>12.4f}\n", step, loss, other->second);
  }
  check(common > 0, "'{}' and '{}' have no step in common", first, second);

  // The columns in which less or more is better.
  const std::vector<runs::Summary> both{a.summary, b.summary};
  for (const runs::Compare& c : runs::compare(both))
    if (std::isfinite(c.values[0]) && std::isfinite(c.values[1]))
      fmt::print("{:>20}: {:.4g} and {:.4g}{}\n", c.metric, c.values[0], c.values[1],
                 c.best ? ", better: " + *c.best : "");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) return fmt::print(stderr, "usage: example_compare_runs RUN RUN | FOLDER\n"), 2;
  try {
    if (argc == 3) return run(argv[1], argv[2]);
    const fs::path folder = argv[1];
    train(folder / "careful", 3e-4);
    train(folder / "bold", 5e-3);
    return run((folder / "careful").string(), (folder / "bold").string());
  } catch (const std::exception& e) {
    fmt::print(stderr, "compare_runs: {}\n", e.what());
    return 1;
  }
}
