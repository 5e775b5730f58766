// The probability that a GGUF gives to each token of a text, and what it would rather have seen there.
//
//   example_logprobs MODEL.gguf
#include <fmt/core.h>

#include <cmath>

#include "toy/backend/devices.h"
#include "toy/base/error.h"
#include "toy/eval/score.h"
#include "toy/synth/stories.h"

namespace {

using namespace toy;

std::string shown(const Tokenizer& tokenizer, int32_t id) {
  const std::string bytes = tokenizer.token_bytes(id);
  return bytes == "\n" ? "'\\n'" : "'" + bytes + "'";
}

int run(const char* path) {
  const auto device = make_cpu_device();
  const Model model = load_model(path, *device);
  check(model.tokenizer != nullptr, "{}: the file has no tokenizer", path);

  // Stories whose exact probability is known: no model can be better than their grammar, on average.
  const std::vector<std::string> texts{write_stories({.seed = 2, .bytes = 3000})};
  const EvalText text = tokenize_for_eval(*model.tokenizer, texts, true);
  double nats = 0;
  int64_t tokens = 0;
  const auto on_token = [&](const TokenScore& t) {
    nats -= t.token.logprob;
    if (++tokens > 24) return;
    fmt::print("{:>6} {:6.1f}%  of these:", shown(*model.tokenizer, t.token.id), 100 * std::exp(t.token.logprob));
    for (const TokenLogprob& b : t.best)
      fmt::print(" {} {:.1f}%", shown(*model.tokenizer, b.id), 100 * std::exp(b.logprob));
    fmt::print("\n");
  };
  const TextScore score = score_text(*device, model, text, {.context = 128, .stride = 64, .top_logprobs = 3}, on_token);
  const double floor = score_stories(texts[0]).nats_per_byte();
  fmt::print("\n{} tokens: perplexity {:.3f} +- {:.3f}, {:.3f} nats per byte; the grammar itself: {:.3f}\n",
             score.tokens, score.perplexity(), score.perplexity_error(), score.nats / double(score.bytes), floor);

  // The same numbers, added up in the same order.
  const bool ok = tokens == score.tokens && std::abs(nats - score.nats) <= 1e-9 * nats && nats > 0;
  fmt::print("{}\n", ok ? "ok" : "FAILED");
  return ok ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return fmt::print(stderr, "usage: example_logprobs MODEL.gguf\n"), 2;
  try {
    return run(argv[1]);
  } catch (const std::exception& e) {
    fmt::print(stderr, "logprobs: {}\n", e.what());
    return 1;
  }
}
