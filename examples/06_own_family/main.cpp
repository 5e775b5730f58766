// A model family of one's own, from outside of the library: how files of the architecture "plain" state a model. Its
// layers are toy's, in a combination that no built-in family has: layer norms, rotary positions, a gelu ffn. The
// program trains such a model, writes it as a GGUF, and generates with what it reads from there.
//
//   example_own_family OUT.gguf
#include <fmt/core.h>

#include "toy/backend/devices.h"
#include "toy/base/error.h"
#include "toy/decode/generate.h"
#include "toy/models/family.h"
#include "toy/models/model.h"
#include "toy/train/trainer.h"

namespace {

using namespace toy;

// Metadata to ModelSpec. Name, d_model, context, vocab and the number of layers are filled in already.
void read(const gguf::File& f, ModelSpec& m) {
  LayerSpec l = m.layers.front();
  l.heads = l.kv_heads = int64_t(f.get_u32(family_key(m, "attention.head_count")));
  check(l.heads > 0 && m.d_model % l.heads == 0, "{}: attention.head_count is {}, which does not divide {}", f.path(),
        l.heads, m.d_model);
  l.d_head = m.d_model / l.heads;
  l.d_ff = int64_t(f.get_u32(family_key(m, "feed_forward_length")));
  m.layers.assign(m.layers.size(), l);
  m.norm_eps = f.get_f32(family_key(m, "attention.layer_norm_epsilon"));
  m.rope.base = f.get_f32(family_key(m, "rope.freq_base"));
}

// And back.
void write(gguf::Writer& w, const ModelSpec& m) {
  const LayerSpec& l = m.layers.front();
  w.set(family_key(m, "attention.head_count"), uint32_t(l.heads));
  w.set(family_key(m, "feed_forward_length"), uint32_t(l.d_ff));
  w.set(family_key(m, "attention.layer_norm_epsilon"), m.norm_eps);
  w.set(family_key(m, "rope.freq_base"), m.rope.base);
}

// What these four keys cannot say may not be in a model: it would be lost in the file.
void check_layers(const ModelSpec& m) {
  require_like_layers(m);
  LayerSpec only{.bias = {}, .ffn = FfnKind::gelu};
  const LayerSpec& l = m.layers.front();
  only.heads = only.kv_heads = l.heads, only.d_head = m.d_model / l.heads, only.d_ff = l.d_ff;
  for (const LayerSpec& layer : m.layers)
    check(layer == only, "model {}: the architecture plain has full attention, gelu and no biases", m.name);
  check(m.norm == NormKind::layer && m.rope == RopeSpec{.base = m.rope.base},
        "model {}: the architecture plain has layer norms and rotary positions that are not scaled", m.name);
}

std::shared_ptr<const Family> plain_family() {
  Family family{.defaults = {}, .read = read, .write = write, .check = check_layers};
  family.defaults.architecture = "plain";
  family.defaults.norm = NormKind::layer;
  family.defaults.layers = {LayerSpec{.ffn = FfnKind::gelu}};
  return std::make_shared<const Family>(std::move(family));
}

int run(const char* out) {
  const auto family = plain_family();
  const auto device = make_cpu_device();

  ModelSpec spec = spec_of(family);
  spec.name = "mill";
  spec.d_model = 32, spec.vocab = 256, spec.context = 128;
  LayerSpec layer = spec.layers.front();
  layer.heads = layer.kv_heads = 4, layer.d_head = 8, layer.d_ff = 128;
  spec.layers.assign(2, layer);
  Model model = random_model(spec, *device, 1);
  model.tokenizer = make_byte_tokenizer();

  std::string text;
  for (int i = 0; i < 50; ++i) text += "The mill turns by day and rests by night. ";
  const std::vector<int32_t> ids = model.tokenizer->encode(text);
  Trainer trainer(*device, model, {.batch = 4, .tokens = 64});
  const WindowSampler windows(ids, 4, 64, 1);
  double loss = 0;
  for (int64_t step = 0; step < 150; ++step) loss = trainer.step(windows.batch(step), 5e-3).loss;
  save_model(model, out);

  const Model loaded = load_model(out, *device, LoadMode::mapped, {family});
  const std::string written = generate(*device, loaded, "The mill", {.max_tokens = 34});
  fmt::print("{}: {}, {} parameters, loss {:.3f}\nThe mill{}\n", out, loaded.spec.architecture,
             parameter_count(loaded.spec), loss, written);

  const bool ok = loaded.spec == model.spec && written == " turns by day and rests by night. ";
  fmt::print("{}\n", ok ? "ok" : "FAILED");
  return ok ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return fmt::print(stderr, "usage: example_own_family OUT.gguf\n"), 2;
  try {
    return run(argv[1]);
  } catch (const std::exception& e) {
    fmt::print(stderr, "own_family: {}\n", e.what());
    return 1;
  }
}
