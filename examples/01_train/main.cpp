// Trains a small Llama on a text and writes it as a GGUF, with the loop in sight: what `toy train` does, less options.
//
//   example_train OUT.gguf
#include <fmt/core.h>

#include "toy/backend/devices.h"
#include "toy/data/corpus.h"
#include "toy/models/model.h"
#include "toy/synth/stories.h"
#include "toy/train/schedule.h"
#include "toy/train/trainer.h"

namespace {

int run(const char* out) {
  using namespace toy;
  // A text as token ids; its end is kept for validation. Any text would do: read_text_file("book.txt").
  const std::string text = write_stories({.seed = 1, .bytes = 200'000});
  const std::shared_ptr<const Tokenizer> tokenizer = make_tokenizer("spm:512", text);
  const std::vector<int32_t> ids = tokenizer->encode(text);
  const size_t split = ids.size() * 9 / 10;
  const std::span<const int32_t> train = std::span(ids).first(split), validation = std::span(ids).subspan(split);

  // A model is dimensions and weights in a device's memory.
  const auto device = make_cpu_device();
  ModelSpec spec = model_spec("tiny", tokenizer->vocab_size());
  spec.layers.resize(2);
  Model model = random_model(spec, *device, 1);
  model.tokenizer = tokenizer;
  fmt::print("{}: {} parameters\n", spec.name, parameter_count(spec));

  // The trainer compiles forward, backward and the optimizer into one step.
  constexpr int64_t kSteps = 300;
  const TrainerOptions options{.batch = 8, .tokens = 64, .optimizer = {.weight_decay = 0.01}};
  Trainer trainer(*device, model, options);
  const WindowSampler windows(train, options.batch, options.tokens, 1);
  const Schedule rate{.kind = Schedule::cosine, .peak = 1e-2, .warmup = 15, .steps = kSteps};
  const double before = trainer.evaluate(validation, 1000).mean();
  for (int64_t step = 0; step < kSteps; ++step) {
    const StepResult r = trainer.step(windows.batch(step), rate.at(step));
    if ((step + 1) % 50 == 0) fmt::print("step {}: loss={:.4f}\n", step + 1, r.loss);
  }
  const double after = trainer.evaluate(validation, 1000).mean();
  save_model(model, out);
  fmt::print("validation: {:.3f} nats per token before, {:.3f} after\n{}\n", before, after, out);

  const bool ok = after < 0.6 * before && load_model(out, *device).spec == model.spec;
  fmt::print("{}\n", ok ? "ok" : "FAILED");
  return ok ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return fmt::print(stderr, "usage: example_train OUT.gguf\n"), 2;
  try {
    return run(argv[1]);
  } catch (const std::exception& e) {
    fmt::print(stderr, "train: {}\n", e.what());
    return 1;
  }
}
