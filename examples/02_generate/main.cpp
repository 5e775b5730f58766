// Generates text with a GGUF: in one call, token by token, so that nothing is hidden, and several texts at once.
//
//   example_generate MODEL.gguf
#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "toy/backend/devices.h"
#include "toy/base/error.h"
#include "toy/decode/generate.h"
#include "toy/decode/text_stream.h"

namespace {

using namespace toy;

constexpr int64_t kTokens = 60;

// The likeliest token, again and again.
std::vector<int32_t> greedy(Decoder& decoder, const std::vector<int32_t>& prompt) {
  std::vector<DecodeRow> rows;
  for (const int32_t id : prompt) rows.push_back({.sequence = 0, .token = id});
  rows.back().logits = true;
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < kTokens; ++i) {
    decoder.decode(rows);
    const std::span<const float> logits = decoder.logits(0);
    ids.push_back(int32_t(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    rows = {{.sequence = 0, .token = ids.back(), .logits = true}};
  }
  return ids;
}

int run(const char* path) {
  const auto device = make_cpu_device();
  const Model model = load_model(path, *device);
  check(model.tokenizer != nullptr, "{}: the file has no tokenizer", path);
  const std::string beginning = "Once upon a time";
  const std::string text = generate(*device, model, beginning, {.max_tokens = kTokens, .ignore_eos = true});
  fmt::print("greedy: {}{}\n\n", beginning, text);

  // The same by hand: a TextStream turns tokens into text and never cuts a character in two.
  Decoder decoder(*device, model, {.sequences = 2, .context = 128});
  const std::vector<int32_t> prompt = encode_prompt(*model.tokenizer, beginning);
  TextStream stream(*model.tokenizer, prompt);
  std::string by_hand;
  for (const int32_t id : greedy(decoder, prompt)) by_hand += stream.push(id);
  by_hand += stream.finish();

  // The scheduler shares the decoder's sequences among any number of prompts. Texts are shown when they are complete.
  decoder.state().reset(0);
  Scheduler scheduler(decoder);
  int finished = 0;
  for (const uint64_t seed : {1, 2, 3}) {
    auto shown = std::make_shared<TextStream>(*model.tokenizer, prompt);
    scheduler.add({.prompt = prompt,
                   .eos = model.tokenizer->end_of_generation(),
                   .options = {.max_tokens = kTokens, .sampler = {.temperature = 0.8, .top_p = 0.95, .seed = seed}},
                   .on_token = {},
                   .on_done = [&finished, shown, seed, &beginning](const Generated& g) {
                     std::string all;
                     for (const GeneratedToken& t : g.tokens) all += shown->push(t.chosen.id);
                     fmt::print("seed {}: {}{}\n\n", seed, beginning, all + shown->finish());
                     ++finished;
                   }});
  }
  scheduler.run();

  const bool ok = text == by_hand && finished == 3;
  fmt::print("{}\n", ok ? "ok" : "FAILED");
  return ok ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return fmt::print(stderr, "usage: example_generate MODEL.gguf\n"), 2;
  try {
    return run(argv[1]);
  } catch (const std::exception& e) {
    fmt::print(stderr, "generate: {}\n", e.what());
    return 1;
  }
}
