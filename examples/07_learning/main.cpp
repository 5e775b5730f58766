// What can a small model learn? Trains one on a task whose answers are known, and counts how many it gives, also for
// more pairs or longer sequences than it was trained on. Then draws the curves.
//
//   example_learning train TASK NAME LAYERS STEPS RATE SEED OUT.csv
//   example_learning draw FOLDER      every *.csv and every folder of a run in it
//
// TASK: mqar, parity or s3 (tasks.h). LAYERS: as --layers of toy train, such as gdn,attn. All models of a task have
// about the same number of parameters: ffns are as wide as that allows.
#include <fmt/core.h>
#include <fmt/os.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "draw.h"
#include "tasks.h"
#include "toy/backend/devices.h"
#include "toy/base/error.h"
#include "toy/models/model.h"
#include "toy/train/schedule.h"
#include "toy/train/trainer.h"

namespace {

using namespace toy;

constexpr int64_t kWidth = 64, kHeads = 4, kLayers = 2, kBatch = 64, kTests = 256;

ModelSpec spec_with(const Task& task, const std::string& layers, int64_t d_ff) {
  return spec_from_json({{"architecture", "toy"},
                         {"name", task.name},
                         {"d_model", kWidth},
                         {"n_layers", kLayers},
                         {"n_heads", kHeads},
                         {"d_ff", d_ff},
                         {"vocab", task.vocab},
                         {"context", 512},
                         {"tied", false},
                         {"biases", {"attn_q", "attn_k"}},
                         {"layers", layers}},
                        task.name);
}

// As many parameters as attention with ffns of twice the width, or some fewer.
ModelSpec equal_spec(const Task& task, const std::string& layers) {
  const int64_t budget = parameter_count(spec_with(task, "attn", 2 * kWidth + kWidth / 2));
  int64_t d_ff = 8;
  while (parameter_count(spec_with(task, layers, d_ff + 8)) <= budget) d_ff += 8;
  return spec_with(task, layers, d_ff);
}

struct Score {
  double loss = 0, accuracy = 0;
};

// Which part of the answers has the highest logit, and their mean loss.
class Test {
 public:
  Test(Device& device, const Model& model, const Task& task, int64_t size)
      : windows_(test_batch(task, kTests, size)), vocab_(size_t(task.vocab)) {
    const int64_t tokens = test_tokens(task, size);
    const LossGraph g = build_loss_graph(
        model.spec, [](const std::string&) { return DType::f32; }, kTests, tokens);
    auto plan = std::make_shared<const Plan>(compile(*g.graph, std::vector{g.logits, g.nll}, {}, device));
    session_ = std::make_unique<Session>(device, plan, std::initializer_list<const ParamStore*>{model.params.get()});
    std::vector<int32_t> targets, sequence, position;
    for (int64_t i = 0; i < kTests * tokens; ++i) {
      targets.push_back(std::max(windows_.targets[size_t(i)], 0));
      sequence.push_back(int32_t(i / tokens)), position.push_back(int32_t(i % tokens));
    }
    session_->set("tokens", windows_.inputs), session_->set("targets", targets);
    session_->set("sequence", sequence), session_->set("position", position);
    session_->set("weight", std::vector<float>(targets.size(), 1.0f));
  }

  Score run() {
    session_->run();
    const std::vector<float> logits = session_->values(0), nll = session_->values(1);
    int64_t right = 0, answers = 0;
    double nats = 0;
    for (size_t i = 0; i < nll.size(); ++i) {
      if (windows_.targets[i] < 0) continue;
      const auto row = logits.begin() + std::ptrdiff_t(i * vocab_);
      right += std::max_element(row, row + std::ptrdiff_t(vocab_)) - row == windows_.targets[i];
      nats += double(nll[i]), ++answers;
    }
    return {nats / double(answers), double(right) / double(answers)};
  }

 private:
  Windows windows_;
  size_t vocab_;
  std::unique_ptr<Session> session_;
};

int train(const Task& task, const std::string& name, const std::string& layers, int64_t steps, double peak,
          uint64_t seed, const char* out) {
  const auto device = make_cpu_device(1);
  Model model = random_model(equal_spec(task, layers), *device, seed);
  const TrainerOptions options{.batch = kBatch, .tokens = task.tokens};
  Trainer trainer(*device, model, options);
  const Schedule rate{
      .kind = Schedule::cosine, .peak = peak, .warmup = std::max<int64_t>(1, steps / 10), .steps = steps};
  Test test(*device, model, task, task.trained_size);

  auto csv = fmt::output_file(out);
  csv.print("task,model,layers,parameters,step,size,loss,accuracy,seconds\n");
  const auto begin = std::chrono::steady_clock::now();
  const auto write = [&](int64_t step, int64_t size, Score s) {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    csv.print("{},{},\"{}\",{},{},{},{:.4f},{:.4f},{:.1f}\n", task.name, name, layers, parameter_count(model.spec),
              step, size, s.loss, s.accuracy, seconds.count());
    fmt::print("{} {}: step {}, {} {}: loss {:.4f}, accuracy {:.4f}\n", task.name, name, step, size, task.size_name,
               s.loss, s.accuracy);
  };
  write(0, task.trained_size, test.run());
  const int64_t every = std::max<int64_t>(1, steps / 25);
  for (int64_t step = 0; step < steps; ++step) {
    trainer.step(training_batch(task, kBatch, seed, step), rate.at(step));
    if ((step + 1) % every == 0 && step + 1 < steps) write(step + 1, task.trained_size, test.run());
  }
  for (const int64_t size : task.sizes) write(steps, size, Test(*device, model, task, size).run());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string what = argc > 1 ? argv[1] : "";
    if (what == "draw" && argc == 3) return draw(argv[2]);
    if (what == "train" && argc == 9)
      return train(task_of(argv[2]), argv[3], argv[4], std::atoll(argv[5]), std::atof(argv[6]),
                   uint64_t(std::atoll(argv[7])), argv[8]);
    fmt::print(stderr, "usage: example_learning train TASK NAME LAYERS STEPS RATE SEED OUT.csv | draw FOLDER\n");
    return 2;
  } catch (const std::exception& e) {
    fmt::print(stderr, "learning: {}\n", e.what());
    return 1;
  }
}
