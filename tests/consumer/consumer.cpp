// What a program outside this repository does first: build a graph, differentiate it, train it; load a model, decode.
// consumer MODEL.gguf; prints what it found and exits with 1 if a number is wrong.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <vector>

#include "toy/toy.h"

namespace {

// f = sum(w^2 x): df/dw = 2 w x, all exact in f32.
bool differentiates(toy::Device& device) {
  toy::Graph graph;
  const toy::Value w = graph.param("w", toy::f32({3})), x = graph.input("x", toy::f32({3}));
  const toy::Value f = toy::sum_all(w * w * x);
  const std::vector<toy::Value> wanted{f, toy::gradients(f, std::vector{w})[0]};
  const auto plan = std::make_shared<toy::Plan>(toy::compile(graph, wanted, {}, device));

  toy::ParamStore store(device);
  store.add("w", toy::f32({3}));
  store.write("w", std::vector<float>{1, 2, 3});
  toy::Session session(device, plan, {&store});
  session.set("x", std::vector<float>{4, 5, 6});
  session.run();
  std::printf("f = %g\n", double(session.scalar(0)));
  return session.scalar(0) == 78 && session.values(1) == std::vector<float>{8, 20, 36};
}

// The least of sum((1 - w/2)^2) is at w = 2.
bool learns(toy::Device& device) {
  toy::Graph graph;
  const toy::Value w = graph.param("w", toy::f32({4})), miss = 1.0 - w / 2;
  const toy::OptimizerOptions options{.kind = toy::OptimizerOptions::sgd, .weight_decay = 0, .clip = 0};
  const toy::Value loss = toy::sum_all(miss * miss);
  const toy::OptimizerStep step = toy::minimize(loss, std::vector{w}, options);
  const auto plan = std::make_shared<toy::Plan>(toy::compile(graph, std::vector{loss}, step.updates, device));
  toy::ParamStore store(device);
  for (const toy::PlanLeaf& p : plan->params) store.add(p.name, p.type);
  toy::Session session(device, plan, {&store});
  for (int i = 0; i < 200; ++i) {
    toy::feed_optimizer(session, options, i, 0.1);
    session.run();
  }
  const std::vector<float> found = store.read("w");
  std::printf("w = %g, loss %g\n", double(found[0]), double(session.scalar(0)));
  return std::all_of(found.begin(), found.end(), [](float v) { return std::abs(v - 2) < 1e-3f; });
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
  if (!learns(*device)) return std::fputs("it does not learn\n", stderr), 1;
  if (!decodes(*device, argv[1])) return std::fputs("the logits are wrong\n", stderr), 1;
  std::puts("ok");
  return 0;
} catch (const std::exception& e) {
  return std::fprintf(stderr, "%s\n", e.what()), 1;
}
