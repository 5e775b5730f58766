// What a program outside this repository does first: build a graph, differentiate it, run it; load a model, decode.
// consumer MODEL.gguf; prints what it found and exits with 1 if a number is wrong.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <vector>

#include "toy/backend/devices.h"
#include "toy/decode/decoder.h"
#include "toy/models/model.h"
#include "toy/ops/ops.h"
#include "toy/runtime/session.h"

namespace {

// f = sum(w^2 x): df/dw = 2 w x, all exact in f32.
bool differentiates(toy::Device& device) {
  toy::Graph graph;
  const toy::TensorType type{toy::DType::f32, {3}, 0};
  const toy::Value w = graph.param("w", type), x = graph.input("x", type);
  const toy::Value f = toy::sum_all(w * w * x);
  const std::vector<toy::Value> wanted{f, toy::gradients(f, std::vector{w})[0]};
  const auto plan = std::make_shared<toy::Plan>(toy::compile(graph, wanted, {}, device));

  toy::ParamStore store(device);
  store.add("w", type);
  store.write("w", std::vector<float>{1, 2, 3});
  toy::Session session(device, plan, {&store});
  session.set("x", std::vector<float>{4, 5, 6});
  session.run();
  std::printf("f = %g\n", double(session.scalar(0)));
  return session.scalar(0) == 78 && session.values(1) == std::vector<float>{8, 20, 36};
}

bool decodes(toy::Device& device, const char* path) {
  const toy::Model model = toy::load_model(path, device);
  toy::Decoder decoder(device, model, {.sequences = 1, .context = 8});
  decoder.decode(std::vector<toy::DecodeRow>{{0, 1, false}, {0, 2, true}});
  const auto logits = decoder.logits(0);
  const bool finite = std::all_of(logits.begin(), logits.end(), [](float v) { return std::isfinite(v); });
  std::printf("%zu logits\n", logits.size());
  return finite && int64_t(logits.size()) == model.spec.vocab;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) return std::fputs("usage: consumer MODEL.gguf\n", stderr), 2;
  const auto device = toy::make_cpu_device(2);
  if (!differentiates(*device)) return std::fputs("the gradient is wrong\n", stderr), 1;
  if (!decodes(*device, argv[1])) return std::fputs("the logits are wrong\n", stderr), 1;
  std::puts("ok");
  return 0;
} catch (const std::exception& e) {
  return std::fprintf(stderr, "%s\n", e.what()), 1;
}
