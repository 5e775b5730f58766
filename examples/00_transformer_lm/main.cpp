// Trains the plain model on bytes of a text and lets it write: the whole of a language model in one loop.
//
//   example_transformer_lm [TEXT-FILE [STEPS]]
#include <fmt/core.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "toy/base/error.h"
#include "toy/base/philox.h"
#include "toy/plain/transformer_lm.h"

namespace {

using namespace toy::plain;

constexpr const char* kText = R"(In the morning the baker lights the oven, and the cat sleeps on the warm stones.
In the morning the miller opens the gate, and the water turns the wheel.
At noon the baker sells the bread, and the cat sits at the door.
At noon the miller fills the sacks, and the water turns the wheel.
In the evening the baker sweeps the floor, and the cat comes home for milk.
In the evening the miller shuts the gate, and the water sleeps in the pond.
)";

std::string read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  toy::check(bool(file) && !text.empty(), "{}: there is no text that can be read", path);
  return text;
}

int run(const std::string& text, int steps) {
  constexpr int64_t kBatch = 4;
  const Config config{.vocab = 256, .d_model = 32, .n_heads = 4, .n_layers = 2, .d_ff = 64, .context_length = 32};
  const size_t window = size_t(config.context_length) + 1;  // each byte but the first is predicted
  toy::check(text.size() >= window, "the text has {} bytes, expected {} or more", text.size(), window);
  toy::check(steps >= 1, "the number of steps is {}, expected 1 or more", steps);
  std::vector<int32_t> bytes;
  for (const char c : text) bytes.push_back(uint8_t(c));

  TransformerLM lm(config, 1);
  Adam adam(config, 3e-3);
  const toy::Philox random(1, "windows");
  double first = 0, recent = 0;  // recent: a running mean over some ten steps
  for (int step = 1; step <= steps; ++step) {
    Weights gradients(config);
    double loss = 0;
    for (int64_t b = 0; b < kBatch; ++b) {
      const size_t begin = random.below(uint64_t(step * kBatch + b), bytes.size() - window + 1);
      loss += lm.loss_and_gradients(std::span(bytes).subspan(begin, window), gradients) / double(kBatch);
    }
    adam.step(lm.weights, gradients);  // of a sum over the batch: Adam's step does not depend on a common factor
    if (step == 1) first = recent = loss;
    recent += 0.1 * (loss - recent);
    if (step == 1 || step % 50 == 0) fmt::print("step {}: loss={:.4f}\n", step, loss);
  }

  const std::vector<int32_t> prompt(bytes.begin(), bytes.begin() + 7);
  const std::vector<int32_t> sample = lm.generate(prompt, 120, 0.5, 1);
  fmt::print("\n{}{}\n\n", std::string(prompt.begin(), prompt.end()), std::string(sample.begin(), sample.end()));
  fmt::print("loss: {:.2f} nats per byte at first (equal probabilities: {:.2f}), {:.2f} at the end\n", first,
             std::log(256.0), recent);
  return recent < first ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? read(argv[1]) : kText, argc > 2 ? std::atoi(argv[2]) : 300);
  } catch (const std::exception& e) {
    fmt::print(stderr, "transformer_lm: {}\n", e.what());
    return 2;
  }
}
