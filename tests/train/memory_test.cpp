// Recomputation changes no bit, and a training fits into what it is given.
#include "toy/train/memory.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "backend/gpu/emulated/emulated_driver.h"
#include "backend/gpu/gpu_device.h"
#include "testing/errors.h"
#include "testing/files.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/base/memory.h"
#include "toy/synth/stories.h"
#include "toy/train/from_scratch.h"
#include "train_testing.h"

namespace toy::memory_test {
namespace {

using testing::all_f32;

ModelSpec spec_of(const char* size) {
  return testing::small_model(
      size,
      {.vocab = 97, .d_model = 42, .context = 64, .layers = 3, .heads = 3, .kv_heads = 3, .d_head = 14, .d_ff = 50});
}

struct Outcome {
  std::vector<double> losses, norms;
  std::vector<std::vector<float>> weights;
  friend bool operator==(const Outcome& a, const Outcome& b) = default;
};

Outcome train(const ModelSpec& spec, TrainerOptions options, const Recompute& recompute, int threads) {
  const auto device = make_test_device(threads);
  Model model = random_model(spec, *device, 9);
  options.batch = 2, options.tokens = 23, options.seed = 5, options.recompute = recompute;
  Trainer trainer(*device, model, options);
  const auto ids = testing::random_ids(2000, 97, Philox(3, "text"));
  const int64_t count = options.batch * options.accumulate;
  const WindowSampler sampler(ids, options.batch, options.tokens, 1);
  Outcome o;
  for (int64_t i = 0; i < 3; ++i) {
    const StepResult r = trainer.step(sampler.windows(i * count, count), 3e-3);
    o.losses.push_back(r.loss);
    o.norms.push_back(r.grad_norm.value_or(0));
  }
  for (const TensorSpec& t : tensors_of(spec)) o.weights.push_back(model.params->read(t.name));
  return o;
}

const std::vector<Recompute> kChoices{{.light = 2}, {.whole = 1, .light = 1}, {.whole = 3}};

TEST(TrainMemory, RecomputationChangesNoBit) {
  TrainerOptions streaming{.optimizer = {.clip = 0}, .updates = TrainerOptions::streaming}, dropout{.dropout = 0.2},
      accumulate{.accumulate = 2, .dropout = 0.1}, bf16{.compute = DType::bf16};
  const std::vector<std::pair<const char*, TrainerOptions>> cases{
      {"plain", {}}, {"streaming", streaming}, {"dropout", dropout}, {"accumulate", accumulate}, {"bf16", bf16}};
  for (const char* size : {"tiny", "gpt2-tiny"})
    for (const auto& [name, options] : cases) {
      if (!make_test_device(1)->has_products(options.compute)) continue;
      const Outcome kept = train(spec_of(size), options, {}, 1);
      for (size_t i = 0; i < kChoices.size(); ++i) {
        const Outcome again = train(spec_of(size), options, kChoices[i], 1 + int(i % 2));
        EXPECT_TRUE(again == kept) << size << " " << name << " whole=" << kChoices[i].whole
                                   << " light=" << kChoices[i].light;
      }
    }
}

// The oracle agrees too: the same graph in f64, whose plan fuses nothing.
TEST(TrainMemory, RecomputationChangesNoGradientOfTheReference) {
  const auto device = make_reference_device();
  std::vector<std::vector<std::vector<float>>> all;
  for (const Recompute& r : {Recompute{}, Recompute{.whole = 1, .light = 1}}) {
    Model model = random_model(spec_of("tiny"), *device, 9);
    const TrainerOptions options{.batch = 1, .tokens = 5, .recompute = r};
    const TrainGraph t = build_train_graph(model.spec, all_f32, options);
    const auto plan = std::make_shared<const Plan>(compile(*t.graph, t.gradients, {}, *device));
    Session session(*device, plan, {model.params.get()});
    session.set("tokens", std::vector<int32_t>{1, 2, 3, 4, 5});
    session.set("targets", std::vector<int32_t>{2, 3, 4, 5, 6});
    session.set("weight", std::vector<float>(5, 0.2f));
    session.set("sequence", std::vector<int32_t>(5, 0));
    session.set("position", std::vector<int32_t>{0, 1, 2, 3, 4});
    session.run();
    all.emplace_back();
    for (size_t i = 0; i < t.gradients.size(); ++i) all.back().push_back(session.values(i));
  }
  EXPECT_EQ(all[0], all[1]);
}

TEST(TrainMemory, TheLossIsNeverComputedTwice) {
  const TrainerOptions options{.batch = 2, .tokens = 8, .recompute = {.whole = 3}};
  const TrainGraph t = build_train_graph(spec_of("tiny"), all_f32, options);
  int losses = 0, attentions = 0;
  for (const Node& n : t.graph->nodes()) {
    losses += n.op && n.op->name() == "linear_xent";
    attentions += n.op && n.op->name() == "attention";
  }
  EXPECT_EQ(losses, 1);
  EXPECT_EQ(attentions, 6);
}

TEST(TrainMemory, PartsAreWhatThePlansHold) {
  const auto device = make_test_device(1);
  for (const int64_t accumulate : {1, 2}) {
    Model model = random_model(spec_of("tiny"), *device, 9);
    const Trainer t(*device, model, {.batch = 2, .tokens = 16, .accumulate = accumulate});
    const TrainMemory m = memory_of(t.plans(), model.spec, *device);
    EXPECT_EQ(m.total(), t.planned_bytes());
    EXPECT_EQ(m.weights, model.params->bytes());
    EXPECT_EQ(m.moments, t.moments().bytes());
    EXPECT_GT(m.gradients, accumulate > 1 ? m.weights : 0u);
    EXPECT_GT(m.activations, 0u);
    EXPECT_EQ(to_json(m).at("peak_bytes"), t.planned_bytes());
  }
}

// With ever less memory ever more is computed again, never more than needed, down to a limit that is named.
TEST(TrainMemory, FitsWithTheLeastWork) {
  const auto device = make_test_device(1);
  const ModelSpec spec = model_spec("tiny");
  const TrainerOptions options{.batch = 8, .tokens = 64};
  constexpr size_t kOther = 12345;
  const auto bytes = [&](const Recompute& r) {
    TrainerOptions o = options;
    o.recompute = r;
    return compile_training(*device, spec, all_f32, o).bytes(*device) + kOther;
  };
  const MemoryFit free = fit_memory(*device, spec, all_f32, options, 0, kOther);
  EXPECT_TRUE(free.recompute.none());
  EXPECT_EQ(free.text(), "");
  EXPECT_EQ(free.memory.total(), bytes({}));
  EXPECT_TRUE(fit_memory(*device, spec, all_f32, options, free.kept, kOther).recompute.none());
  const auto blocks = int64_t(spec.layers.size());
  const size_t least = bytes({.whole = blocks});
  double work = 0;
  for (size_t limit = free.kept - 1; limit > least; limit -= (free.kept - least) / 7) {
    const MemoryFit f = fit_memory(*device, spec, all_f32, options, limit, kOther);
    EXPECT_LE(f.memory.total(), limit);
    EXPECT_EQ(f.memory.total(), bytes(f.recompute));
    EXPECT_EQ(f.kept, free.kept);
    EXPECT_GE(f.more_work, work);
    EXPECT_NE(f.text().find("recomputing "), std::string::npos);
    work = f.more_work;
    const Recompute& r = f.recompute;  // one step less does not fit
    const Recompute less = r.whole > 0 ? Recompute{r.whole - 1, blocks - r.whole + 1} : Recompute{.light = r.light - 1};
    EXPECT_GT(bytes(less), limit);
  }
  EXPECT_GT(work, 0.1);
  EXPECT_LT(work, 0.34);  // forward is a third of a step
  try {
    fit_memory(*device, spec, all_f32, options, least - 1, kOther);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::bad_input);
    for (const std::string& words :
         {std::string("is not enough"), format_bytes(least), std::string("moments"), std::string("--update streaming")})
      EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
  }
}

TEST(TrainMemory, ATrainerThatHasNoRoomNamesTheWayOut) {
  const auto device = make_test_device(1);
  Model model = random_model(model_spec("tiny"), *device, 9);
  struct Case {
    int64_t whole;
    size_t row;  // a row takes 16 KiB, and 5 where everything is recomputed
    bool helps;  // does --memory?
  };
  for (const auto& [whole, row, helps] : {Case{0, 10, true}, Case{0, 2, false}, Case{4, 2, false}}) try {
      const int64_t all_of_it = int64_t(available_memory() / (row << 10)) / 64;
      Trainer(*device, model, {.batch = all_of_it, .tokens = 64, .recompute = {.whole = whole}});
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::bad_input);
      EXPECT_NE(std::string(e.what()).find(" are free"), std::string::npos) << e.what();
      EXPECT_EQ(std::string(e.what()).find("--memory ") != std::string::npos, helps) << e.what();
    }
}

// A GPU's memory is what counts, and not the host's: what it has is enough, a byte less is refused before anything of
// the training is there.
TEST(TrainMemory, OfAGpuIsPlannedAgainstItsOwn) {
  const ModelSpec spec = spec_of("tiny");
  const TrainerOptions options{.batch = 4, .tokens = 32};
  const auto device_of = [](size_t memory) {
    return gpu::make_gpu_device(gpu::make_emulated_driver(gpu::ItemOrder::ascending, memory));
  };
  size_t whole = 0;  // with what lies between tensors and inputs
  {
    const auto device = device_of(size_t(64) << 20);
    Model model = random_model(spec, *device, 9);
    const Trainer t(*device, model, options);
    whole = device->held().bytes;
    EXPECT_GE(whole, t.planned_bytes());
    EXPECT_LT(whole, t.planned_bytes() + t.planned_bytes() / 4);
  }
  {
    const auto device = device_of(whole + 4096);
    Model model = random_model(spec, *device, 9);
    Trainer t(*device, model, options);
    const auto ids = testing::random_ids(500, 97, Philox(3, "text"));
    EXPECT_GT(t.step(WindowSampler(ids, options.batch, options.tokens, 1).windows(0, options.batch), 1e-3).loss, 0);
  }
  const auto device = device_of(whole / 2);
  Model model = random_model(spec, *device, 9);
  const size_t weights = device->held().bytes;
  const std::string why = testing::error_of([&] { Trainer(*device, model, options); });
  for (const char* words : {"memory: ", " are free on device 'emulated'", "--batch"})
    testing::expect_contains(why, words);
  EXPECT_EQ(device->held().bytes, weights);
  // What --memory makes of it.
  EXPECT_EQ(bytes_beside(*device, model.params->bytes()), 0u);
  const size_t kept = fit_memory(*device, spec, all_f32, options, 0, 0).kept;
  const MemoryFit fit = fit_memory(*device, spec, all_f32, options, kept - (size_t(64) << 10), 0);
  EXPECT_GT(fit.recompute.whole + fit.recompute.light, 0);
}

// A run that goes on with another limit writes the bytes of one that had none.
TEST(TrainMemory, ResumesUnderAnotherLimit) {
  const testing::Folder folder;
  const std::string text = folder.write("text.txt", write_stories({.bytes = 4000}));
  const auto device = make_test_device(1);
  const auto run = [&](const std::string& out, size_t memory, int64_t stop) {
    FromScratchOptions o;
    o.data.corpus = {text};
    o.size = "tiny";
    o.out = folder.path(out);
    o.trainer = {.batch = 16, .tokens = 64};
    o.trainer.dropout = 0.1;
    o.steps = 4;
    o.resume = true;
    o.memory = memory;
    testing::Listener observer(stop);
    train_from_scratch(o, *device, observer);
    return observer.notes;
  };
  if (!device->host_visible())
    GTEST_SKIP() << "the same limit holds for the host, whose program is larger than the run";
  // 3 MiB less than what the run takes, where it could do with 10 less.
  const size_t plans =
      compile_training(*device, model_spec("tiny"), all_f32, {.batch = 16, .tokens = 64}).bytes(*device);
  const size_t limit = bytes_beside(*device) + plans - (size_t(3) << 20);
  EXPECT_EQ(run("whole", 0, -1).find("recomputing "), std::string::npos);
  EXPECT_NE(run("parts", limit, 2).find("recomputing "), std::string::npos);
  EXPECT_EQ(run("parts", 0, -1).find("recomputing "), std::string::npos);
  EXPECT_EQ(testing::slurp(folder.path("whole/model.gguf")), testing::slurp(folder.path("parts/model.gguf")));
}

// Ranks of a host share its memory, and those of a cgroup what that may take.
TEST(RankMemory, TheRanksOfAHostFitTogether) {
  constexpr size_t kMiB = size_t(1) << 20;
  const auto rank = [](int r, const char* host, size_t needed, size_t free, size_t group = SIZE_MAX, uint64_t id = 1) {
    return RankMemory{
        .rank = r,
        .host = host,
        .planned = needed,
        .needed = needed * kMiB,
        .free = {.machine = free * kMiB, .group = group == SIZE_MAX ? group : group * kMiB, .group_id = id}};
  };
  const auto said = [](const std::vector<RankMemory>& ranks) {
    return testing::error_of([&] { require_shared_room(ranks); });
  };
  EXPECT_EQ(said({rank(0, "a", 302, 332), rank(1, "b", 302, 332)}), "no error");
  EXPECT_EQ(said({rank(0, "a", 302, 604), rank(1, "a", 302, 604)}), "no error");
  EXPECT_EQ(said({rank(0, "c", 300, 400), rank(1, "a", 290, 332), rank(2, "a", 302, 340)}),
            "memory: the 2 ranks on host a need 592.0 MiB together, the largest of them 302.0 MiB (rank 2), and 332.0 "
            "MiB are free there; use fewer ranks on a host, --memory, which recomputes activations, a smaller --batch, "
            "or a smaller model");
  EXPECT_EQ(said({rank(0, "a", 302, 0), rank(1, "a", 302, 0)}), "no error");  // unknown
  // Containers that are limited each, and one that both are in.
  EXPECT_EQ(said({rank(0, "a", 302, 900, 400, 1), rank(1, "a", 302, 900, 400, 2)}), "no error");
  testing::expect_contains(said({rank(0, "a", 302, 900, 400, 1), rank(1, "a", 302, 900, 400, 1)}),
                           "400.0 MiB are free");
}

}  // namespace
}  // namespace toy::memory_test
