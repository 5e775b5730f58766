// Packed documents against the same documents alone, and runs on mixtures and packed rows: resumed, by threads, from a
// cache.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "testing/files.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/base/philox.h"
#include "toy/data/packing.h"
#include "toy/synth/stories.h"
#include "toy/train/from_scratch.h"
#include "train_testing.h"

namespace toy::data_test {
namespace {

namespace fs = std::filesystem;
using testing::bare;
using testing::Gradient;
using testing::gradient;
using testing::Listener;
using testing::slurp;

ModelSpec spec(PositionKind positions = PositionKind::rope) {
  const bool rope = positions == PositionKind::rope;
  return testing::small_model(
      rope ? "tiny" : "gpt2-tiny",
      {.vocab = 61, .d_model = 24, .context = 64, .heads = 3, .kv_heads = rope ? 1 : 3, .d_head = 8, .d_ff = 40});
}

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
    for (int64_t i = 0; i < n; ++i) d.ids.push_back(int32_t(random.below(d.ids.size(), 61)));
  }
  return d;
}

Windows alone(const Documents& d, size_t i) {
  const auto first = d.ids.begin() + int64_t(d.begins[i]);
  return {{first, first + d.lengths[i] - 1}, {first + 1, first + d.lengths[i]}};
}

// Loss and gradients of a packed batch are those of each document alone, weighted by its targets. On a device that
// computes in f64, by the yardstick of whole models (docs/numerics.md): 64 roundings of the largest element.
TEST(Packed, IsEachDocumentAloneWeightedByTokens) {
  const Documents d = documents_of({8, 3, 6, 2, 5, 4, 7, 3, 2});
  int64_t targets = 0;
  for (const int64_t n : d.lengths) targets += n - 1;
  for (const PositionKind positions : {PositionKind::rope, PositionKind::learned}) {
    const ModelSpec s = spec(positions);
    const auto device = make_reference_device();
    const PackedRows rows(d.ids, d.begins, d.ids.size(), 9, 1);
    ASSERT_EQ(rows.rows(), 4);  // 31 targets in 36 places: some padding
    Gradient expected;
    for (size_t i = 0; i < d.lengths.size(); ++i) {
      const double share = double(d.lengths[i] - 1) / double(targets);
      const Gradient g = gradient(*device, s, bare(1, d.lengths[i] - 1), alone(d, i));
      expected.loss += share * g.loss;
      for (const auto& [name, values] : g.of) {
        std::vector<double>& sum = expected.of[name];
        sum.resize(values.size());
        for (size_t k = 0; k < values.size(); ++k) sum[k] += share * values[k];
      }
    }
    for (const auto& [batch, accumulate] : {std::pair<int64_t, int64_t>{4, 1}, {2, 2}, {1, 4}}) {
      const Gradient packed = gradient(*device, s, bare(batch, 9, accumulate), rows.windows(0, 4));
      // A weight is rounded to f32, the same for every target: relative 2^-24 in the loss and in every gradient.
      EXPECT_NEAR(packed.loss, expected.loss, (0x1p-23 + 64 * 0x1p-53) * expected.loss);
      for (const auto& [name, g] : packed.of) {
        // Without rope a bias of all keys moves all scores of a query alike, so its gradient is 0 and what there is are
        // roundings of terms that cancel: they are as large as those of the key's matrix.
        const bool cancels = name.ends_with("attn_k.bias");
        double largest = 0;
        for (const double x : expected.of.at(cancels ? name.substr(0, name.size() - 4) + "weight" : name))
          largest = std::max(largest, std::abs(x));
        for (size_t k = 0; k < g.size(); ++k)
          ASSERT_LE(std::abs(g[k] - expected.of.at(name)[k]), (0x1p-23 + 64 * 0x1p-53) * largest) << name << " " << k;
      }
    }
  }
}

// With a loss mask, as examples have it, a packed batch is each example alone, weighted by the targets that count. The
// bound is the one above.
TEST(Packed, IsEachExampleAloneWeightedByWhatCounts) {
  const Documents d = documents_of({8, 3, 6, 2, 5, 4, 7, 3, 2});
  std::vector<uint8_t> trained(d.ids.size());
  for (size_t i = 0; i < trained.size(); ++i) trained[i] = Philox(9, "mask").below(i, 3) > 0;
  for (const uint64_t begin : d.begins) trained[begin] = 0, trained[begin + 1] = 1;
  const auto device = make_reference_device();
  const PackedRows rows(d.ids, d.begins, d.ids.size(), 9, 1, trained);
  ASSERT_EQ(rows.rows(), 4);
  ASSERT_LT(rows.counted(), rows.targets());
  Gradient expected;
  for (size_t i = 0; i < d.lengths.size(); ++i) {
    Windows w = alone(d, i);
    const auto mask = trained.begin() + int64_t(d.begins[i]) + 1;
    w.trained.assign(mask, mask + d.lengths[i] - 1);
    const double share = double(std::count(w.trained.begin(), w.trained.end(), 1)) / double(rows.counted());
    const Gradient g = gradient(*device, spec(), bare(1, d.lengths[i] - 1), w);
    expected.loss += share * g.loss;
    for (const auto& [name, values] : g.of) {
      std::vector<double>& sum = expected.of[name];
      sum.resize(values.size());
      for (size_t k = 0; k < values.size(); ++k) sum[k] += share * values[k];
    }
  }
  for (const auto& [batch, accumulate] : {std::pair<int64_t, int64_t>{4, 1}, {2, 2}}) {
    const Gradient packed = gradient(*device, spec(), bare(batch, 9, accumulate), rows.windows(0, 4));
    EXPECT_NEAR(packed.loss, expected.loss, (0x1p-23 + 64 * 0x1p-53) * expected.loss);
    for (const auto& [name, g] : packed.of) {
      double largest = 0;
      for (const double x : expected.of.at(name)) largest = std::max(largest, std::abs(x));
      for (size_t k = 0; k < g.size(); ++k)
        ASSERT_LE(std::abs(g[k] - expected.of.at(name)[k]), (0x1p-23 + 64 * 0x1p-53) * largest) << name << " " << k;
    }
  }
}

// On the cpu in f32, documents of two tokens: each is one row, whose gradient alone is exactly 4 times its share in a
// packed row of 4 (a power of two scales exactly). Any order of 4 terms is within 4 u sum |g_i| of the exact sum, so
// two are within 8 u sum |g_i| of each other; see tests/train/accumulate_test.cpp.
TEST(Packed, DocumentsOfTwoTokensOnTheCpu) {
  const Documents d = documents_of({2, 2, 2, 2});
  const auto device = make_test_device(2);
  const PackedRows rows(d.ids, d.begins, d.ids.size(), 4, 1);
  ASSERT_EQ(rows.rows(), 1);
  const Gradient packed = gradient(*device, spec(), bare(1, 4), rows.windows(0, 1));
  std::vector<Gradient> each;
  for (size_t i = 0; i < 4; ++i) each.push_back(gradient(*device, spec(), bare(1, 1), alone(d, i)));
  for (const auto& [name, g] : packed.of)
    for (size_t k = 0; k < g.size(); ++k) {
      double sum = 0, magnitude = 0;
      for (const Gradient& one : each) sum += one.of.at(name)[k] / 4, magnitude += std::abs(one.of.at(name)[k]) / 4;
      ASSERT_LE(std::abs(g[k] - sum), 8 * 0x1p-24 * magnitude + 0x1p-126) << name << " " << k;
    }
}

// A validation of packed rows is the sum over the documents; each token has the bits that it has alone.
TEST(Packed, ValidationIsEachDocumentAlone) {
  const Documents d = documents_of({8, 3, 6, 2, 5, 4, 7, 3, 2});
  const auto device = make_test_device(2);
  Model model = random_model(spec(), *device, 9, 2.0);
  const PackedRows rows(d.ids, d.begins, d.ids.size(), 9, 1);
  Trainer trainer(*device, model, bare(3, 9));
  const EvalResult packed = trainer.evaluate(rows);
  double nats = 0, largest = 0;
  int64_t tokens = 0;
  for (size_t i = 0; i < d.lengths.size(); ++i) {
    Trainer one(*device, model, bare(1, d.lengths[i] - 1));
    const auto first = d.ids.begin() + int64_t(d.begins[i]);
    const EvalResult r = one.evaluate(std::vector<int32_t>(first, first + d.lengths[i]));
    nats += r.nats, tokens += r.tokens, largest = std::max(largest, r.nats);
  }
  EXPECT_EQ(packed.tokens, tokens);
  EXPECT_NEAR(packed.nats, nats, double(tokens) * 0x1p-53 * nats);                // two orders of a sum in f64
  EXPECT_EQ(trainer.evaluate(rows, 5).tokens, trainer.evaluate(rows, 6).tokens);  // whole batches of rows
  EXPECT_LT(trainer.evaluate(rows, 5).tokens, tokens);
}

// Rows of long documents come first in the plan. A validation of a part of them is not of those alone.
TEST(Packed, APartIsTakenFromEverywhere) {
  std::vector<int64_t> lengths(17, 3);
  lengths[0] = 33;
  const Documents d = documents_of(lengths);
  const auto device = make_test_device(1);
  Model model = random_model(spec(), *device, 9, 2.0);
  const PackedRows all(d.ids, d.begins, d.ids.size(), 8, 0), longest(d.ids, std::vector<uint64_t>{0}, 33, 8, 0);
  ASSERT_EQ(all.rows(), 2 * longest.rows());
  Trainer trainer(*device, model, bare(4, 8));  // a batch is half of the rows, and as many as the long document takes
  const EvalResult part = trainer.evaluate(all, 1), first = trainer.evaluate(longest);
  EXPECT_EQ(part.tokens, first.tokens);
  EXPECT_NE(part.nats, first.nats);
  EXPECT_EQ(trainer.evaluate(all, 1).nats, part.nats);  // the same part each time
}

TEST(Packed, RefusesHalfAPlan) {
  const auto device = make_test_device(1);
  Model model = random_model(spec(), *device, 9);
  Trainer trainer(*device, model, bare(1, 4));
  Windows w{{1, 2, 3, 4}, {2, 3, 4, 5}, {0, 0, 1}, {0, 1, 0}};
  EXPECT_THROW(trainer.step(w, 1e-3), Error);
  w.sequence = {-1, -1, -1, -1}, w.position = {0, 1, 2, 3};
  EXPECT_THROW(trainer.step(w, 1e-3), Error);
}

class DataRun : public ::testing::Test, protected testing::Folder {
 protected:
  DataRun() {
    for (const char* name : {"books/a", "books/b", "letters"})
      write(name, write_stories({.seed = hash_name(name), .bytes = 1500}));
    write("size.json", R"({"d_model": 16, "n_layers": 2, "n_heads": 2, "n_kv": 1, "d_head": 8, "d_ff": 24})");
  }

  // 8 steps of 3 rows, some 30 rows an epoch of the smaller source.
  FromScratchOptions options(const std::string& out, bool mix, bool pack) const {
    FromScratchOptions o;
    o.data.corpus = {path("books"), path("letters")};
    if (mix) o.data.weights = {2, 1};
    o.data.documents = "blank-lines";
    o.data.pack = pack;
    o.data.validation_fraction = 0.2;
    o.tokenizer = "spm:300";
    o.size = path("size.json");
    o.out = path(out);
    o.trainer.batch = 3;
    o.trainer.tokens = 24;
    o.steps = 8;
    o.lr = 1e-2;
    o.seed = 7;
    o.eval_every = 4;
    o.resume = true;
    return o;
  }
};

// Stopped three times, in the middle of epochs, with other threads each time and a cache now and then: the bytes of a
// run that never was.
TEST_F(DataRun, ResumedIsUninterrupted) {
  for (const bool mix : {false, true})
    for (const bool pack : {false, true}) {
      const std::string what = std::string(mix ? "mixed" : "joined") + (pack ? "_packed" : "_cut");
      Listener whole;
      const auto device = make_test_device(1);
      const TrainResult end = train_from_scratch(options("whole_" + what, mix, pack), *device, whole);
      Listener parts;
      TrainResult r;
      int threads = 1;
      for (const int64_t stop : {1, 3, 6, -1}) {
        FromScratchOptions o = options(what, mix, pack);
        if (stop != 3) o.data.cache = path("cache");
        Listener part(stop);
        const auto other = make_test_device(threads++ % 3 + 1);
        r = train_from_scratch(o, *other, part);
        parts.append(part);
      }
      EXPECT_EQ(parts.losses, whole.losses) << what;
      EXPECT_EQ(parts.evals, whole.evals) << what;
      EXPECT_TRUE(slurp(r.model_path) == slurp(end.model_path)) << what;
      EXPECT_EQ(whole.notes.find("of the rows") != std::string::npos, mix) << whole.notes;
      EXPECT_EQ(whole.notes.find("packed rows") != std::string::npos, pack) << whole.notes;
    }
}

// One source given in two files, or with a weight, is the same text; a weight changes which rows come when.
TEST_F(DataRun, WhatDoesNotMatterDoesNotMatter) {
  const auto losses = [&](FromScratchOptions o) {
    o.resume = false;
    const auto device = make_test_device(1);
    Listener l;
    train_from_scratch(o, *device, l);
    return l.losses;
  };
  FromScratchOptions one = options("one", false, false), two = options("two", false, false);
  one.data.documents = two.data.documents = "none";
  one.tokenizer = two.tokenizer = "bytes";
  const std::string text = slurp(path("books/a")) + slurp(path("books/b")) + slurp(path("letters"));
  one.data.corpus = {write("all", text)};
  const std::vector<double> expected = losses(one);
  EXPECT_EQ(losses(two), expected);
  two.out += "_mixed";
  two.data.weights = {1, 0};
  FromScratchOptions books = options("books", false, false);
  books.data.documents = "none";
  books.tokenizer = "bytes";
  books.data.corpus = {path("books")};
  EXPECT_NE(losses(two), expected);
  EXPECT_NE(losses(two =
                       [&] {
                         two.out += "_again";
                         two.data.weights = {1, 3};
                         return two;
                       }()),
            expected);
}

// The text changes under the run: a checkpoint, exit code 2, and with the old text back the same end.
TEST_F(DataRun, ATextThatChanges) {
  class Changer final : public Listener {
   public:
    explicit Changer(std::string path) : path_(std::move(path)) {}
    void event(const runs::Event& e) override {
      Listener::event(e);
      if (e.as<runs::Step>() && e.step == 3) std::ofstream(path_) << "another text";
    }

   private:
    std::string path_;
  };
  const auto device = make_test_device(1);
  Listener whole, rest;
  Changer stopped(path("books/b"));
  const TrainResult expected = train_from_scratch(options("whole", true, true), *device, whole);
  const std::string text = slurp(path("books/b"));
  const FromScratchOptions o = options("run", true, true);
  std::string message;
  try {
    train_from_scratch(o, *device, stopped);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::bad_input);
    message = e.what();
  }
  const std::string checkpoint = o.out + "/checkpoints/step_000003";
  for (const std::string& part :
       {"corpus: a text changed during the run: " + path("books/b"), std::string("stopped after step 3"), checkpoint})
    EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_TRUE(fs::exists(checkpoint));
  try {
    train_from_scratch(o, *device, rest);
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("texts.corpus.0.xxh64 is "), std::string::npos) << e.what();
  }
  write("books/b", text);
  const TrainResult r = train_from_scratch(o, *device, rest);
  stopped.append(rest);
  EXPECT_EQ(stopped.losses, whole.losses);
  EXPECT_TRUE(slurp(r.model_path) == slurp(expected.model_path));
}

}  // namespace
}  // namespace toy::data_test
