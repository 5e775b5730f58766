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

// Metadata to ModelSpec. Name, d_model, context, vocab and the layers are there already.
void read(Metadata& metadata, ModelSpec& m) {
  const int64_t heads = metadata.u32("attention.head_count"), d_ff = metadata.u32("feed_forward_length");
  check(heads > 0 && m.d_model % heads == 0, "{}: attention.head_count is {}, which does not divide {}",
        metadata.file().path(), heads, m.d_model);
  for (LayerSpec& l : m.layers) l.heads = l.kv_heads = heads, l.d_head = m.d_model / heads, l.d_ff = d_ff;
  m.norm_eps = metadata.f32("attention.layer_norm_epsilon");
  m.rope.base = metadata.f32("rope.freq_base");
}

// And back.
void write(MetadataWriter& w, const ModelSpec& m) {
  w.u32("attention.head_count", m.layers.front().heads);
  w.u32("feed_forward_length", m.layers.front().d_ff);
  w.f32("attention.layer_norm_epsilon", m.norm_eps);
  w.f32("rope.freq_base", m.rope.base);
}

// What these keys cannot say of heads may not be in a model: it would be lost in the file.
void check_heads(const ModelSpec& m) {
  require_like_layers(m);
  const LayerSpec& l = m.layers.front();
  check(l.kv_heads == l.heads && l.heads * l.d_head == m.d_model,
        "model {}: the architecture plain has n_kv = n_heads and d_head = d_model / n_heads", m.name);
}

std::shared_ptr<const Family> plain_family() {
  Family family{.defaults = {}, .read = read, .write = write, .holds = {"rope_base"}, .check = check_heads};
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
