// Every family against transformers: a file as llama.cpp's converter writes it is read, and logits (a prompt at once,
// token by token, in calls with another sequence), loss and gradients are compared. The golden files hold metadata,
// names and shapes; weights follow from a formula (tests/golden/make_family_golden.py).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "testing/errors.h"
#include "testing/family_golden.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/decode/decoder.h"
#include "toy/train/trainer.h"

namespace toy::family_golden_test {
namespace {

using testing::GoldenFamily;
using testing::hash_of;
using testing::numbers;
using testing::uniform;

class FamilyGolden : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  std::string name() const { return std::get<0>(GetParam()); }
  bool reference() const { return std::string(std::get<1>(GetParam())) == "reference"; }
  std::unique_ptr<Device> device() const { return reference() ? make_reference_device() : make_test_device(2); }
  // As in golden_test.cpp: units of 2^-24 of the largest magnitude. The reference computes in f64, and both sides are
  // rounded to f32 once. The cpu rounds after each operation; the deepest of these models is twice as deep as the
  // deepest there. Where a file holds -exp(w), w is rounded as well: the reference is one rounding of these farther
  // off.
  double tolerance() const {
    const bool logarithms = std::find(g_.names.begin(), g_.names.end(), "blk.0.ssm_a") != g_.names.end();
    return (reference() ? 1.1 : 128) + (logarithms ? 1 : 0);
  }
  GoldenFamily g_{name()};
};

// Distance in units of 2^-24 of the largest magnitude.
double distance(std::span<const float> got, std::span<const float> want) {
  EXPECT_EQ(got.size(), want.size());
  double top = 0, most = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    top = std::max(top, double(std::abs(want[i])));
    most = std::max(most, double(std::abs(got[i] - want[i])));
  }
  return most / (top * 0x1p-24);
}

// How many layers use a tensor: of those that make keys and values, all that read them.
int64_t layers_with(const std::string& tensor, const ModelSpec& spec) {
  const auto layers = int64_t(spec.layers.size());
  if (tensor == "per_layer_proj_norm.weight") return layers;
  int layer = 0;
  char of = 0;
  if (std::sscanf(tensor.c_str(), "blk.%d.attn_%c", &layer, &of) != 2 || (of != 'k' && of != 'v')) return 1;
  int64_t count = 0;
  for (int64_t i = 0; i < layers; ++i) count += kv_source(spec, i) == layer;
  return std::max<int64_t>(1, count);
}

TEST_P(FamilyGolden, LogitsOfPromptsStepsAndMixedBatches) {
  const auto dev = device();
  const Model model = load_model(g_.write(), *dev);
  EXPECT_EQ(model.warnings, std::vector<std::string>());
  const size_t vocab = size_t(model.spec.vocab);
  const int64_t n = int64_t(g_.ids.size());
  const std::vector<float> want = numbers<float>(g_.golden, "logits");
  const auto compare = [&](const std::map<size_t, std::vector<float>>& got, const std::string& what, size_t most) {
    std::vector<float> a, b;
    for (size_t i = 0; i < g_.rows.size(); ++i) {
      if (g_.rows[i] >= most) continue;
      ASSERT_TRUE(got.contains(g_.rows[i])) << what << " has no row " << g_.rows[i];
      const std::vector<float>& row = got.at(g_.rows[i]);
      a.insert(a.end(), row.begin(), row.end());
      b.insert(b.end(), want.begin() + int64_t(i * vocab), want.begin() + int64_t((i + 1) * vocab));
    }
    const double d = distance(a, b);
    RecordProperty(what, fmt::format("{:.2f}", d));
    EXPECT_LE(d, tolerance()) << what;
  };
  const auto wanted = [&](size_t row) { return std::find(g_.rows.begin(), g_.rows.end(), row) != g_.rows.end(); };
  // Pieces of this many tokens of sequence 0; `beside`: each with one token of sequence 1, which gets the same ids.
  const auto run = [&](const std::vector<size_t>& pieces, bool beside) {
    Decoder decoder(*dev, model, {.sequences = 2, .context = n, .max_rows = 128});
    std::map<size_t, std::vector<float>> first, second;
    size_t at = 0, other = 0;
    for (const size_t size : pieces) {
      std::vector<DecodeRow> rows;
      std::vector<std::pair<bool, size_t>> of;
      for (size_t i = 0; i < size && at < size_t(n); ++i, ++at) {
        rows.push_back({0, g_.ids[at], wanted(at)});
        if (wanted(at)) of.emplace_back(false, at);
      }
      if (beside && other < size_t(n)) {
        rows.push_back({1, g_.ids[other], wanted(other)});
        if (wanted(other)) of.emplace_back(true, other);
        ++other;
      }
      decoder.decode(rows);
      for (size_t i = 0; i < of.size(); ++i) {
        const auto logits = decoder.logits(i);
        (of[i].first ? second : first)[of[i].second] = {logits.begin(), logits.end()};
      }
    }
    return std::pair(first, second);
  };
  compare(run({1, 6, 57, 236}, false).first, "prompts of 1, 7, 64, 300", size_t(n));
  compare(run(std::vector<size_t>(66, 1), false).first, "token by token", 66);
  const auto mixed = run({3, 30, 1, 1, 31, 1, 1, 1, 60, 1, 1}, true);
  compare(mixed.first, "a prompt beside steps", 129);
  compare(mixed.second, "steps beside a prompt", 8);
}

TEST_P(FamilyGolden, LossAndGradients) {
  const auto dev = device();
  const Model model = load_model(g_.write(), *dev, LoadMode::trainable);
  const std::vector<int32_t> targets = numbers<int32_t>(g_.golden, "targets");
  const int64_t tokens = int64_t(targets.size());
  const auto f32 = [](const std::string&) { return DType::f32; };
  const TrainGraph t = build_train_graph(model.spec, f32, {.batch = 1, .tokens = tokens});
  const LossGraph l = build_loss_graph(model.spec, f32, 1, tokens);
  std::vector<Value> outputs{t.loss};
  outputs.insert(outputs.end(), t.gradients.begin(), t.gradients.end());
  Session session(*dev, std::make_shared<const Plan>(compile(*t.graph, outputs, {}, *dev)), {model.params.get()});
  Session forward(*dev, std::make_shared<const Plan>(compile(*l.graph, std::vector<Value>{l.logits}, {}, *dev)),
                  {model.params.get()});
  std::vector<int32_t> sequence(targets.size(), 0), position;
  for (int32_t i = 0; i < int32_t(tokens); ++i) position.push_back(i);
  for (Session* s : {&session, &forward}) {
    s->set("tokens", {g_.ids.begin(), g_.ids.begin() + tokens});
    s->set("targets", targets);
    s->set("weight", std::vector<float>(targets.size(), 1.0f / float(tokens)));  // 64: exact
    s->set("sequence", sequence);
    s->set("position", position);
    s->run();
  }
  const std::vector<float> all = forward.values(0), want = numbers<float>(g_.golden, "short_logits");
  std::vector<float> logits;
  for (const size_t row : g_.rows)
    if (row < targets.size())
      logits.insert(logits.end(), all.begin() + int64_t(row) * model.spec.vocab,
                    all.begin() + int64_t(row + 1) * model.spec.vocab);
  EXPECT_LE(distance(logits, want), tolerance()) << "logits";
  EXPECT_LE(distance(session.values(0), numbers<float>(g_.golden, "loss")), tolerance()) << "loss";

  // Gradients, each projected on a few directions: sum_i g_i u_i with the u of the formula, |u| <= 1/2.
  std::map<std::string, std::vector<float>> gradient;
  const auto tensors = tensors_of(model.spec);
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::vector<float>& g = gradient[tensors[i].name] = session.values(i + 1);
    if (tensors[i].in_file != TensorSpec::InFile::minus_exp) continue;
    const std::vector<float> w = model.params->read(tensors[i].name);  // of -exp(w) instead of w
    for (size_t j = 0; j < g.size(); ++j) g[j] /= -std::exp(w[j]);
  }
  const std::vector<float> projections = numbers<float>(g_.golden, "gradients");
  const size_t each = projections.size() / g_.names.size();
  double worst = 0, largest = 0;
  for (const auto& [name, values] : gradient)
    for (const float v : values) largest = std::max(largest, double(std::abs(v)));
  for (const FileTensor& file : file_tensors(model.spec)) {
    const size_t at = size_t(std::find(g_.names.begin(), g_.names.end(), file.name) - g_.names.begin());
    ASSERT_LT(at, g_.names.size()) << file.name;
    for (size_t k = 0; k < each; ++k) {
      const uint64_t hash = hash_of(fmt::format("{} {}", file.name, k));
      double sum = 0, top = 0, weights = 0;
      int64_t i = 0;
      for (const TensorSpec& part : file.parts)
        for (const float v : gradient.at(part.name)) {
          const double u = uniform(hash, i++);
          sum += double(v) * u, weights += std::abs(u), top = std::max(top, double(std::abs(v)));
        }
      // The gradient of one factor is a sum of all that it is multiplied with, whose terms may cancel; so is that of
      // the decay, step and skip of a head, which all rows and channels share.
      const TensorSpec& first = file.parts.front();
      if ((i == 1 && !reference()) ||
          (first.part == ModelPart::recurrent && (first.shape.rank() == 1 || first.shape.back() == 1)))
        top = largest;
      // What several layers use has the sum of their gradients, each with its own error.
      if (!reference()) top *= double(layers_with(file.name, model.spec));
      // Each element is off by so many roundings of the largest one, and the sum by so many of all; the golden number
      // was rounded once more.
      const double want_sum = double(projections[at * each + k]);
      const double unit = 0x1p-24 * (top * weights + std::abs(want_sum));
      worst = std::max(worst, std::abs(sum - want_sum) / unit);
      EXPECT_LE(std::abs(sum - want_sum), (tolerance() + 1) * unit) << "gradient of " << file.name;
    }
  }
  RecordProperty("gradients", fmt::format("{:.2f}", worst));
}

TEST_P(FamilyGolden, TenAdamWSteps) {
  if (!g_.golden.find("golden.adamw_losses")) return;  // biases, experts and recurrent layers have them
  const auto dev = device();
  Model model = load_model(g_.write(), *dev, LoadMode::trainable);
  const std::vector<float> losses = numbers<float>(g_.golden, "adamw_losses");
  const std::vector<int32_t> targets = numbers<int32_t>(g_.golden, "targets");
  Trainer trainer(*dev, model,
                  {.batch = 1,
                   .tokens = int64_t(targets.size()),
                   .optimizer = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-2, .weight_decay = 0, .clip = 0}});
  const Windows batch{{g_.ids.begin(), g_.ids.begin() + int64_t(targets.size())}, targets};
  // As in golden_test.cpp: a few roundings more, and each step adds its own.
  const double most = reference() ? 8 : 160;
  ASSERT_EQ(losses.size(), 10u);
  for (size_t step = 0; step < losses.size(); ++step) {
    const float loss = float(trainer.step(batch, 2e-4).loss);
    EXPECT_LE(distance(std::vector<float>{loss}, std::vector<float>{losses[step]}), most) << "step " << step;
  }
  // How far each tensor has moved, projected as gradients are.
  const std::vector<float> projections = numbers<float>(g_.golden, "adamw_moved");
  const size_t each = projections.size() / g_.names.size();
  const Model first = load_model(g_.write(), *dev, LoadMode::trainable);
  double worst = 0, farthest = 0;
  for (const TensorSpec& t : tensors_of(model.spec)) {
    const std::vector<float> before = first.params->read(t.name), now = model.params->read(t.name);
    for (size_t j = 0; j < now.size(); ++j) farthest = std::max(farthest, std::abs(double(now[j]) - double(before[j])));
  }
  for (const FileTensor& file : file_tensors(model.spec)) {
    const size_t at = size_t(std::find(g_.names.begin(), g_.names.end(), file.name) - g_.names.begin());
    // As for gradients: what all rows and channels of a head share has gradients whose terms cancel.
    const TensorSpec& part = file.parts.front();
    const bool shared = part.part == ModelPart::recurrent && (part.shape.rank() == 1 || part.shape.back() == 1);
    for (size_t k = 0; k < each; ++k) {
      const uint64_t hash = hash_of(fmt::format("{} {}", file.name, k));
      double sum = 0, top = shared ? farthest : 0, weights = 0, size = 0;
      int64_t i = 0;
      for (const TensorSpec& t : file.parts) {
        const std::vector<float> before = first.params->read(t.name), now = model.params->read(t.name);
        for (size_t j = 0; j < now.size(); ++j) {
          const double u = uniform(hash, i++), moved = double(now[j]) - double(before[j]);
          sum += moved * u, weights += std::abs(u);
          top = std::max(top, std::abs(moved)), size = std::max(size, std::abs(double(now[j])));
        }
      }
      // Each element is off by as many roundings of the farthest move as a loss, and by a rounding of the weight: in
      // each step, or on the reference only here, where weights are read as f32.
      const double roundings = reference() ? 1 : double(losses.size());
      const double unit = 0x1p-24 * weights * (most * top + roundings * size);
      const double want = double(projections[at * each + k]);
      worst = std::max(worst, std::abs(sum - want) / (unit + 0x1p-24 * std::abs(want)));
      EXPECT_LE(std::abs(sum - want), unit + 0x1p-24 * std::abs(want)) << file.name;
    }
  }
  RecordProperty("moved", fmt::format("{:.3f}", worst));
}

// What was read is written and read again: dimensions and weights, and the keys of the converter.
TEST_P(FamilyGolden, RoundTripOfFileAndJson) {
  if (!reference()) return;
  const auto dev = make_test_device(1);
  const Model model = load_model(g_.write(), *dev, LoadMode::trainable);
  const std::string path = g_.folder.path("again.gguf");
  save_model(model, path);
  const Model again = load_model(path, *dev, LoadMode::trainable);
  EXPECT_TRUE(again.spec == model.spec);
  EXPECT_EQ(again.warnings, std::vector<std::string>());
  for (const TensorSpec& t : tensors_of(model.spec)) EXPECT_EQ(again.params->read(t.name), model.params->read(t.name));
  const gguf::File a = gguf::File::open(g_.path), b = gguf::File::open(path);
  EXPECT_EQ(a.tensors().size(), b.tensors().size());
  for (const gguf::TensorInfo& t : a.tensors()) EXPECT_EQ(b.require(t.name).shape, t.shape) << t.name;
  ModelSpec from_json = spec_from_json(nlohmann::json(to_json(model.spec)), "x.json");
  EXPECT_TRUE(from_json == model.spec) << to_json(model.spec).dump();
}

// A file holds how rope is stretched, or the family refuses it.
TEST_P(FamilyGolden, StretchedRopeIsSavedOrRefused) {
  if (!reference()) return;
  const auto dev = make_test_device(1);
  Model model = load_model(g_.write(), *dev, LoadMode::trainable);
  const RopeSpec& in_file = model.spec.rope;
  const RopeSpec own{.pairing = in_file.pairing, .base = in_file.base, .whole_pairs = in_file.whole_pairs};
  const auto turning =
      std::ranges::find_if(model.spec.layers, [](const LayerSpec& l) { return l.rope == LayerRope::global; });
  if (turning == model.spec.layers.end()) return;
  const int64_t turned = turning->rope_dims > 0 ? turning->rope_dims : turning->d_head;
  RopeSpec factors = own, longer = own, linear = own, yarn = own, louder = own;
  factors.factors.assign(size_t(turned / 2), 2.5f);
  longer.factors = factors.factors, longer.long_factors.assign(size_t(turned / 2), 4.0f), longer.original_context = 64;
  linear.scaling = RopeSpec::Scaling::linear, linear.factor = 3;
  yarn.scaling = RopeSpec::Scaling::yarn, yarn.factor = 4, yarn.original_context = 64;
  louder.attn_factor = 1.25f;
  for (const RopeSpec& rope : {factors, longer, linear, yarn, louder}) {
    model.spec.rope = rope;
    try {
      model.spec.validate();
    } catch (const Error&) {
      continue;
    }
    const std::string path = g_.folder.path("stretched.gguf");
    save_model(model, path);
    EXPECT_EQ(load_model(path, *dev).spec.rope, rope);
  }
}

TEST_P(FamilyGolden, MissingTensorsAndUnknownKeysAreNamed) {
  if (!reference()) return;
  const std::string architecture = g_.golden.get_string("general.architecture");
  std::vector<std::string> names = g_.names;
  std::erase(names, "output.weight");  // without it, the output is the embedding
  for (const std::string& name : {names[1], names.back()}) {
    const std::string text = testing::error_of([&] { spec_from_gguf(gguf::File::open(g_.write(name))); });
    EXPECT_NE(text.find("'" + name + "'"), std::string::npos) << text;
    EXPECT_NE(text.find(architecture), std::string::npos) << text;
  }
  const std::string key = architecture + ".attention.mystery";
  const gguf::File f = gguf::File::open(g_.write("", {{key, 1.0f}}));
  EXPECT_EQ(warnings_of(f, spec_from_gguf(f)),
            std::vector<std::string>{"metadata key " + key + " is not known and has no effect"});
}

const auto name_test = [](const auto& test) {
  return std::string(std::get<0>(test.param)) + "_" + std::get<1>(test.param);
};
INSTANTIATE_TEST_SUITE_P(
    Transformers, FamilyGolden,
    ::testing::Combine(::testing::Values("qwen2", "qwen3", "smollm3", "olmo2", "olmo3", "gemma", "gemma2", "gemma3",
                                         "gemma4", "gemma4_e", "phi3", "granite", "mixtral", "qwen3moe", "olmoe",
                                         "granitemoe", "gpt_oss", "qwen35", "qwen35_r1", "qwen35moe", "qwen35moe_r1",
                                         "qwen3next", "qwen3next_r1", "lfm2", "lfm2moe", "mamba2", "granitehybrid",
                                         "granitehybrid_rope", "nemotron_h", "nemotron_h_moe", "kimi_linear"),
                       ::testing::Values("reference", "cpu")),
    name_test);

}  // namespace
}  // namespace toy::family_golden_test
