// The model and template of serve's tests, to talk to.
#pragma once

#include <limits>

#include "talk/local.h"
#include "testing/models.h"
#include "toy/backend/devices.h"
#include "toy/models/model.h"

namespace toy::talk {

inline constexpr const char* kTemplate =
    "{% for m in messages %}{% if m.content == 'no' %}{{ raise_exception('not this one') }}{% endif %}"
    "<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";

struct ChatModel {
  std::unique_ptr<Device> device = make_cpu_device(2);
  Model model;
  std::unique_ptr<Decoder> decoder;
  std::unique_ptr<LocalModel> local;

  explicit ChatModel(const std::string& chat = kTemplate, size_t cache = 0,
                     std::shared_ptr<const Tokenizer> tokenizer = make_byte_tokenizer())
      : model(random_model(toy::testing::small_model("tiny", {.vocab = tokenizer->vocab_size(),
                                                              .d_model = 40,
                                                              .context = 512,
                                                              .tied = false,
                                                              .heads = 4,
                                                              .kv_heads = 2,
                                                              .d_head = 10,
                                                              .d_ff = 52}),
                           *device, 3, 2.0)) {
    model.tokenizer = std::move(tokenizer);
    decoder = std::make_unique<Decoder>(*device, model, DecoderOptions{.cache = cache});
    local = std::make_unique<LocalModel>(*decoder, model, ChatTemplate(chat));
  }
};

/// Answers of `n` bytes, all of them ASCII, so that they are the same tokens when they are read again.
inline ReplySettings ascii(int64_t n, double temperature = 0) {
  ReplySettings s{.generate = {.max_tokens = n, .sampler = {.temperature = temperature}}};
  for (int32_t id = 128; id < 256; ++id)
    s.generate.sampler.logit_bias.emplace_back(id, -std::numeric_limits<double>::infinity());
  return s;
}

}  // namespace toy::talk
