// Runs of a model that begins with a donor of another size: files, resuming, threads, memory, drift.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "testing/errors.h"
#include "testing/files.h"
#include "testing/test_device.h"
#include "toy/formats/requantize.h"
#include "toy/models/grow.h"
#include "toy/synth/stories.h"
#include "toy/tensor/projection.h"
#include "toy/train/from_scratch.h"
#include "toy/train/warm_start.h"
#include "train_testing.h"

namespace toy::from_donor_test {
namespace {

using testing::expect_contains;
using testing::message_of;
using testing::slurp;

class Keeper : public testing::Listener {
 public:
  using Listener::Listener;
  void event(const runs::Event& e) override {
    Listener::event(e);
    if (const auto* d = e.as<runs::Drift>()) drifts.push_back(*d);
  }
  std::vector<runs::Drift> drifts;
};

class FromDonor : public ::testing::Test, protected testing::Folder {
 protected:
  FromDonor() {
    write("text.txt", write_stories({.bytes = 2500}));
    write("size.json", R"({"d_model": 64, "n_layers": 2, "n_heads": 2, "n_kv": 1, "d_head": 32, "d_ff": 64})");
    write("other.json", R"({"d_model": 36, "n_layers": 3, "n_heads": 3, "n_kv": 3, "d_head": 12, "d_ff": 50})");
    FromScratchOptions o;
    o.data.corpus = {path("text.txt")};
    o.size = path("size.json"), o.out = path("base");
    o.trainer.batch = 2, o.trainer.tokens = 32, o.steps = 3;
    testing::Listener listener;
    const auto device = make_test_device(2);
    train_from_scratch(o, *device, listener);
    gguf::requantize(gguf::File::open(path("base/model.gguf")), path("base.gguf"), {.mix = "Q8_0"});
  }
  GrowOptions options(const std::string& out) const {
    GrowOptions o;
    o.init = path("base.gguf"), o.size = path("other.json");
    o.data.corpus = {path("text.txt")};
    o.out = path(out);
    o.trainer.batch = 2, o.trainer.tokens = 32;
    o.steps = 9, o.warmup = 3, o.lr = 1e-2, o.seed = 7;
    o.data.validation_fraction = 0.2;
    o.eval_every = 3, o.eval_tokens = 40, o.sample_tokens = 6;
    o.resume = true;
    return o;
  }
};

TEST_F(FromDonor, ResumesToTheSameBytesWithAnyNumberOfThreads) {
  for (const GrowOptions::Lens lens : {GrowOptions::pca, GrowOptions::random}) {
    std::string bytes;
    for (const int threads : {1, 3}) {
      const auto device = make_test_device(threads);
      const auto with = [&](const std::string& out) {
        GrowOptions o = options(out + name_in_list(lens) + std::to_string(threads));
        o.lens = lens;
        return o;
      };
      testing::Listener whole, parts;
      const TrainResult end = train_from_donor(with("whole"), *device, whole);
      TrainResult r;
      for (const int64_t stop : {1, 4, 9, -1}) {
        testing::Listener part(stop);
        r = train_from_donor(with("parts"), *device, part);
        parts.append(part);
      }
      EXPECT_EQ(parts.losses, whole.losses);
      EXPECT_EQ(parts.evals, whole.evals);
      EXPECT_EQ(parts.samples, whole.samples);
      EXPECT_TRUE(slurp(r.model_path) == slurp(end.model_path));
      EXPECT_LT(whole.losses.back(), whole.losses.front());
      if (bytes.empty()) bytes = slurp(end.model_path);
      EXPECT_TRUE(slurp(end.model_path) == bytes);
      testing::Listener again;
      EXPECT_TRUE(train_from_donor(with("parts"), *device, again).was_complete);
    }
  }
}

// The loss of the file is the last one of the run, whose embeddings were two factors.
TEST_F(FromDonor, TheFoldedModelHasTheLossOfTheRun) {
  const auto device = make_test_device(2);
  testing::Listener listener;
  GrowOptions o = options("run");
  o.eval_tokens = 0;
  const TrainResult r = train_from_donor(o, *device, listener);
  expect_contains(listener.notes, "block i of 3 begins as block i mod 2 of");
  expect_contains(listener.notes, "token_embd.lens.weight [36,64]: fresh");
  expect_contains(listener.notes, "blk.*.attn_q.weight [36,36]: cut or repeated from [64,64] (3 tensors)");
  WarmStartOptions again;
  static_cast<RecipeOptions&>(again) = o;
  again.init = r.model_path, again.out = path("again"), again.steps = 1, again.warmup = 0, again.lr = 1e-30,
  again.resume = false;
  testing::Listener more;
  const TrainResult same = train_warm_start(again, *device, more);
  ASSERT_TRUE(r.eval && same.eval);
  // Some dozen operations whose sums have another order.
  EXPECT_NEAR(same.eval->loss, r.eval->loss, 128 * 0x1p-24 * r.eval->loss);
}

TEST_F(FromDonor, ACheckpointHasTheLensAndNotTheDonor) {
  const auto device = make_test_device(2);
  testing::Listener listener(4);
  const TrainResult r = train_from_donor(options("stopped"), *device, listener);
  EXPECT_FALSE(std::filesystem::exists(r.checkpoint + "/weights.gguf"));
  std::string bytes = slurp(path("base.gguf"));
  bytes.back() = char(bytes.back() + 1);
  write("base.gguf", bytes);
  testing::Listener again;
  GrowOptions o = options("stopped");
  o.allow_changes = true;
  expect_contains(message_of([&] { train_from_donor(o, *device, again); }), "belongs to another base");
}

TEST_F(FromDonor, OfTheSameWidthEmbeddingsAreCopiedAndTrained) {
  write("other.json", R"({"d_model": 64, "n_layers": 4, "n_heads": 2, "n_kv": 1, "d_head": 32, "d_ff": 64})");
  const auto device = make_test_device(2);
  GrowOptions o = options("deep");
  o.steps = 1, o.warmup = 0, o.lr = 1e-30, o.init = path("base/model.gguf");
  Keeper listener;
  const TrainResult r = train_from_donor(o, *device, listener);
  const Model model = load_model(r.model_path, *device), donor = load_model(o.init, *device);
  EXPECT_EQ(model.params->read("token_embd.weight"), donor.params->read("token_embd.weight"));
  EXPECT_EQ(model.params->read("blk.3.ffn_up.weight"), donor.params->read("blk.1.ffn_up.weight"));
}

TEST_F(FromDonor, DriftOfTheFoldedEmbeddingByToken) {
  const auto device = make_test_device(2);
  GrowOptions o = options("drift");
  o.lens = GrowOptions::pca;
  o.watch.drifts = {{"token_embd.*", 9}};
  Keeper listener;
  const TrainResult r = train_from_donor(o, *device, listener);
  ASSERT_EQ(listener.drifts.size(), 4u);  // after the first step and the last one, of the product and of the lens
  const runs::Drift &product = listener.drifts[2], &lens = listener.drifts[3];
  EXPECT_EQ(product.name, "token_embd.weight");
  EXPECT_EQ(lens.name, kLens);
  EXPECT_FALSE(lens.rows && !lens.rows->empty());
  ASSERT_TRUE(product.rows);
  // From the files: what the run saved, and donor times the first lens.
  const Model donor = load_model(o.init, *device), model = load_model(r.model_path, *device);
  const std::vector<float> now = model.params->read("token_embd.weight");
  ThreadPool threads(1);
  std::vector<float> table = donor.params->read("token_embd.weight"), init(now.size());
  const View view(table.data(), DType::f32, donor.params->type("token_embd.weight").shape);
  project_rows(view, 0, principal_components(view, 36, threads), init, threads);
  std::vector<double> far(size_t(view.shape[0]));
  double all = 0;
  for (size_t i = 0; i < now.size(); ++i) {
    const double d = double(now[i]) - double(init[i]);
    far[i / 36] += d * d, all += d * d;
  }
  EXPECT_NEAR(product.l2_to_init, std::sqrt(all), 1e-6 * std::sqrt(all));
  const auto farthest = size_t(std::max_element(far.begin(), far.end()) - far.begin());
  EXPECT_EQ(product.rows->front().row, int64_t(farthest));
  EXPECT_NEAR(product.rows->front().l2_to_init, std::sqrt(far[farthest]), 1e-6 * std::sqrt(all));
}

TEST_F(FromDonor, RefusesLensesThatCannotBe) {
  const auto device = make_test_device(2);
  const auto message = [&](const GrowOptions& o) {
    testing::Listener listener;
    return message_of([&] { train_from_donor(o, *device, listener); });
  };
  GrowOptions o = options("none");
  o.lens = GrowOptions::none;
  expect_contains(message(o), "the model is 36 wide");
  write("other.json", R"({"d_model": 72, "n_layers": 3, "n_heads": 3, "n_kv": 3, "d_head": 24, "d_ff": 50})");
  o.lens = GrowOptions::pca;
  expect_contains(message(o), "have 64 components, the model needs 72");
}

}  // namespace
}  // namespace toy::from_donor_test
