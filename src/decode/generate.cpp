#include "toy/decode/generate.h"

#include <algorithm>

#include "toy/base/error.h"
#include "toy/decode/text_stream.h"

namespace toy {

std::string generate(Device& device, const Model& model, std::string_view prompt, const GenerateOptions& options,
                     const std::vector<std::string>& stops) {
  check(model.tokenizer != nullptr, "generate: the model {} has no tokenizer; give a Decoder token ids",
        model.spec.name);
  const std::vector<int32_t> ids = encode_prompt(*model.tokenizer, prompt);
  const int64_t tokens = int64_t(ids.size()), room = model.spec.context;
  check(tokens >= 1 && tokens <= room, "generate: the prompt has {} tokens; the model {} takes 1 to {}", tokens,
        model.spec.name, room);
  check(options.max_tokens >= 0, "generate: max_tokens is {}; use 0 or more", options.max_tokens);
  TextStream stream(*model.tokenizer, ids, stops);
  Decoder decoder(
      device, model,
      {.context = tokens + std::min(options.max_tokens, room - tokens), .max_rows = std::min<int64_t>(tokens, 256)});
  std::string text;
  generate(decoder, 0, ids, model.tokenizer->end_of_generation(), options, [&](const GeneratedToken& t) {
    text += stream.push(t.chosen.id);
    return !stream.stopped();
  });
  return text + stream.finish();
}

std::vector<GeneratedToken> generate(Decoder& decoder, int sequence, std::span<const int32_t> prompt,
                                     std::span<const int32_t> eos, const GenerateOptions& options,
                                     const std::function<bool(const GeneratedToken&)>& on_token) {
  std::vector<GeneratedToken> result;
  Scheduler scheduler(decoder, {sequence});
  scheduler.add({.prompt = {prompt.begin(), prompt.end()},
                 .eos = {eos.begin(), eos.end()},
                 .options = options,
                 .on_token = on_token,
                 .on_done = [&](const Generated& g) { result = g.tokens; }});
  scheduler.run();
  return result;
}

}  // namespace toy
