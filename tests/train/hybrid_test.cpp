// Training models with recurrent layers: bits for any number of threads, with recomputation and after a resume; packed
// documents, whose states begin anew; every optimizer.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "testing/files.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/data/packing.h"
#include "toy/synth/stories.h"
#include "toy/train/from_scratch.h"
#include "train_testing.h"

namespace toy::hybrid_test {
namespace {

using testing::bare;
using testing::Gradient;
using testing::gradient;
using testing::Listener;
using testing::slurp;
using testing::walk;

// Of both kinds with the parts of Qwen 3.5, with windows and other widths of the convolution, and without attention.
std::vector<ModelSpec> hybrids() {
  std::vector<ModelSpec> list;
  const auto add = [&](const std::string& more) {
    nlohmann::json j = nlohmann::json::parse(
        R"json({"d_model": 24, "n_layers": 4, "n_heads": 3, "n_kv": 1, "d_head": 8, "d_ff": 40, "vocab": 97,
            "context": 64, "delta_key_heads": 2, "delta_value_heads": 4, "delta_width": 6})json");
    j.update(nlohmann::json::parse(more));
    list.push_back(spec_from_json(j, j.at("name").get<std::string>()));
  };
  add(R"json({"name": "qwen35", "architecture": "qwen35", "rope_dims": 4})json");
  add(R"json({"name": "windows", "architecture": "toy", "tied": false,
          "layers": "gdn(conv_width=3),attn(window=9),gdn(conv_width=1),gdn(conv_width=0)"})json");
  add(R"json({"name": "shared_kv", "architecture": "toy", "conv_width": 2,
          "layers": "attn,gdn,attn(shared_kv=true),gdn(shared_kv=true)"})json");
  add(R"json({"name": "recurrent", "architecture": "toy", "layers": "gdn(conv_width=4)"})json");
  return list;
}

// Losses and norms of some steps, then every weight and everything that the optimizer keeps.
struct Outcome {
  std::vector<double> losses, norms;
  std::map<std::string, std::vector<double>> tensors;
  bool operator==(const Outcome&) const = default;
};

Outcome train(const ModelSpec& spec, TrainerOptions options, int threads, int steps = 4, double lr = 3e-3) {
  const auto device = make_test_device(threads);
  Model model = random_model(spec, *device, 9);
  options.batch = 3, options.tokens = 23;
  Trainer trainer(*device, model, options);
  const std::vector<int32_t> ids = walk(4000);
  const WindowSampler sampler(ids, options.batch, options.tokens, 1);
  const int64_t count = options.batch * options.accumulate;
  Outcome out;
  for (int i = 0; i < steps; ++i) {
    const StepResult r = trainer.step(sampler.windows(i * count, count), lr);
    EXPECT_FALSE(r.skipped);
    out.losses.push_back(r.loss), out.norms.push_back(r.grad_norm.value_or(0));
  }
  for (const ParamStore* store : {model.params.get(), &trainer.moments()})
    for (const std::string& name : store->names()) {
      const HostTensor tensor = store->host(name);
      for (int64_t i = 0; i < tensor.view().count(); ++i) out.tensors[name].push_back(element(tensor.view(), i));
    }
  return out;
}

TEST(HybridTraining, SameBitsForAnyNumberOfThreadsAndWithRecomputation) {
  TrainerOptions accumulate{.accumulate = 2, .dropout = 0.1}, streaming{.optimizer = {.clip = 0}};
  streaming.updates = TrainerOptions::streaming;
  for (const ModelSpec& spec : hybrids())
    for (const TrainerOptions& options : {TrainerOptions{}, accumulate, streaming}) {
      SCOPED_TRACE(spec.name);
      const Outcome one = train(spec, options, 1);
      for (const int threads : {2, 3, 8}) EXPECT_TRUE(train(spec, options, threads) == one) << threads;
      TrainerOptions again = options;
      for (const Recompute& r : {Recompute{.light = 3}, Recompute{.whole = 1, .light = 2}, Recompute{.whole = 4}}) {
        again.recompute = r;
        EXPECT_TRUE(train(spec, again, 1 + int(r.whole % 3)) == one) << r.whole << " " << r.light;
      }
    }
}

TEST(HybridTraining, EveryOptimizerTrainsEveryTensor) {
  for (const ModelSpec& spec : hybrids())
    for (const auto& [name, kind] : NamesOf<OptimizerOptions::Kind>::list) {
      SCOPED_TRACE(spec.name + " " + name);
      const OptimizerOptions o = OptimizerOptions::of(kind);
      const Outcome one = train(spec, {.optimizer = o}, 1, 3, o.usual_lr()),
                    two = train(spec, {.optimizer = o}, 2, 3, o.usual_lr());
      EXPECT_TRUE(one == two);
      const auto device = make_test_device(1);
      const Model before = random_model(spec, *device, 9);
      for (const TensorSpec& t : tensors_of(spec)) {
        const std::vector<float> old = before.params->read(t.name);
        EXPECT_FALSE(std::equal(old.begin(), old.end(), one.tensors.at(t.name).begin())) << t.name;
        for (const double v : one.tensors.at(t.name)) EXPECT_TRUE(std::isfinite(v)) << t.name;
      }
    }
}

TEST(HybridTraining, Learns) {
  for (const ModelSpec& spec : hybrids()) {
    const Outcome o = train(spec, {}, 2, 300, 1e-2);
    EXPECT_NEAR(o.losses.front(), std::log(97.0), 0.3) << spec.name;
    EXPECT_LT(o.losses.back(), o.losses.front() - 0.5) << spec.name;
  }
}

// ---- packed documents: tests/train/data_test.cpp has the bound

struct Documents {
  std::vector<int32_t> ids;
  std::vector<uint64_t> begins;
  std::vector<int64_t> lengths;
};

Documents documents_of(const std::vector<int64_t>& lengths) {
  Documents d{{}, {}, lengths};
  const Philox random(8, "documents");
  for (const int64_t n : lengths) {
    d.begins.push_back(d.ids.size());
    for (int64_t i = 0; i < n; ++i) d.ids.push_back(int32_t(random.below(d.ids.size(), 97)));
  }
  return d;
}

Windows alone(const Documents& d, size_t i) {
  const auto first = d.ids.begin() + int64_t(d.begins[i]);
  return {{first, first + d.lengths[i] - 1}, {first + 1, first + d.lengths[i]}};
}

// A state does not reach from one document into the next of its row, and neither does a convolution.
TEST(HybridTraining, PackedDocumentsAreEachAloneWeightedByTokens) {
  const Documents d = documents_of({8, 3, 6, 2, 5, 4, 7, 3, 2});
  int64_t targets = 0;
  for (const int64_t n : d.lengths) targets += n - 1;
  const auto device = make_reference_device();
  const PackedRows rows(d.ids, d.begins, d.ids.size(), 9, 1);
  ASSERT_EQ(rows.rows(), 4);
  for (const ModelSpec& spec : hybrids()) {
    SCOPED_TRACE(spec.name);
    Gradient expected;
    for (size_t i = 0; i < d.lengths.size(); ++i) {
      const double share = double(d.lengths[i] - 1) / double(targets);
      const Gradient g = gradient(*device, spec, bare(1, d.lengths[i] - 1), alone(d, i));
      expected.loss += share * g.loss;
      for (const auto& [name, values] : g.of) {
        std::vector<double>& sum = expected.of[name];
        sum.resize(values.size());
        for (size_t k = 0; k < values.size(); ++k) sum[k] += share * values[k];
      }
    }
    for (const auto& [batch, accumulate] : {std::pair<int64_t, int64_t>{4, 1}, {2, 2}, {1, 4}}) {
      const Gradient packed = gradient(*device, spec, bare(batch, 9, accumulate), rows.windows(0, 4));
      EXPECT_NEAR(packed.loss, expected.loss, (0x1p-23 + 64 * 0x1p-53) * expected.loss);
      for (const auto& [name, g] : packed.of) {
        double largest = 0;
        for (const double x : expected.of.at(name)) largest = std::max(largest, std::abs(x));
        for (size_t k = 0; k < g.size(); ++k)
          ASSERT_LE(std::abs(g[k] - expected.of.at(name)[k]), (0x1p-23 + 64 * 0x1p-53) * largest) << name << " " << k;
      }
    }
  }
}

// Each token of a document has the bits that it has alone.
TEST(HybridTraining, ValidationOfPackedRowsIsEachDocumentAlone) {
  const Documents d = documents_of({8, 3, 6, 2, 5, 4, 7, 3, 2});
  const PackedRows rows(d.ids, d.begins, d.ids.size(), 9, 1);
  const auto device = make_test_device(2);
  for (const ModelSpec& spec : hybrids()) {
    Model model = random_model(spec, *device, 9, 2.0);
    const EvalResult packed = Trainer(*device, model, bare(3, 9)).evaluate(rows);
    double nats = 0;
    int64_t tokens = 0;
    for (size_t i = 0; i < d.lengths.size(); ++i) {
      const auto first = d.ids.begin() + int64_t(d.begins[i]);
      const EvalResult r = Trainer(*device, model, bare(1, d.lengths[i] - 1))
                               .evaluate(std::vector<int32_t>(first, first + d.lengths[i]));
      nats += r.nats, tokens += r.tokens;
    }
    EXPECT_EQ(packed.tokens, tokens) << spec.name;
    EXPECT_NEAR(packed.nats, nats, double(tokens) * 0x1p-53 * nats) << spec.name;  // two orders of a sum in f64
  }
}

// ---- runs

TEST(HybridTraining, AResumedRunWritesTheSameBytes) {
  const testing::Folder folder;
  folder.write("text.txt", write_stories({.bytes = 2500}));
  for (ModelSpec spec : hybrids()) {
    SCOPED_TRACE(spec.name);
    nlohmann::json j(to_json(spec));
    j.erase("vocab");
    folder.write("size.json", j.dump());
    const auto run = [&](const std::string& out, int threads, int64_t stop) {
      FromScratchOptions o;
      o.data.corpus = {folder.path("text.txt")};
      o.size = folder.path("size.json");
      o.out = folder.path(spec.name + out);
      o.trainer.batch = 2, o.trainer.tokens = 32;
      o.steps = 8, o.warmup = 3, o.lr = 1e-2, o.seed = 7;
      o.data.validation_fraction = 0.2, o.eval_every = 3, o.eval_tokens = 40, o.sample_tokens = 6;
      o.resume = true;
      const auto device = make_test_device(threads);
      Listener heard(stop);
      return std::pair(train_from_scratch(o, *device, heard), heard);
    };
    const auto [whole, said] = run("whole", 1, -1);
    Listener parts;
    for (const int64_t stop : {1, 3, 6}) parts.append(run("parts", 1 + int(stop) % 3, stop).second);
    const auto [end, last] = run("parts", 2, -1);
    parts.append(last);
    EXPECT_EQ(parts.losses, said.losses);
    EXPECT_EQ(parts.evals, said.evals);
    EXPECT_EQ(parts.samples, said.samples);
    EXPECT_TRUE(slurp(end.model_path) == slurp(whole.model_path));
  }
}

}  // namespace
}  // namespace toy::hybrid_test
