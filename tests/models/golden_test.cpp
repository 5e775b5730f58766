// Small Llamas and GPT-2s against PyTorch: logits, loss, every gradient, and ten AdamW steps; narrow weights; files.
// The golden files hold f64 results rounded to f32; tests/golden/README.md says how they were made.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "testing/files.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/decode/decoder.h"
#include "toy/train/trainer.h"

namespace toy::golden_test {
namespace {

std::string golden_path(const std::string& name) {
  return std::string(TOY_SOURCE_DIR) + "/tests/golden/" + name + ".gguf";
}

std::vector<float> floats(const gguf::File& f, const std::string& name) {
  const gguf::TensorInfo& t = f.require(name);
  const float* p = reinterpret_cast<const float*>(t.data);
  return {p, p + t.shape.count()};
}

std::vector<int32_t> ints(const gguf::File& f, const std::string& name) {
  const gguf::TensorInfo& t = f.require(name);
  const int32_t* p = reinterpret_cast<const int32_t*>(t.data);
  return {p, p + t.shape.count()};
}

// Distance of two tensors in units of 2^-24 of the largest magnitude: how many roundings to f32 of the largest element
// would explain it. `top`: of which these values are a part, where the largest magnitude is that of the whole. (Softmax
// does not see the bias of k where nothing turns: its gradient is zero, and a difference of large terms.)
double roundings(const std::vector<float>& got, const std::vector<float>& want, double top = 0) {
  EXPECT_EQ(got.size(), want.size());
  double distance = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    top = std::max(top, double(std::abs(want[i])));
    distance = std::max(distance, double(std::abs(got[i] - want[i])));
  }
  return top == 0 ? (distance == 0 ? 0 : INFINITY) : distance / (top * 0x1p-24);
}

// What the golden file says of a tensor: of rows of a file's tensor where the file holds several as one.
class Expected {
 public:
  Expected(const gguf::File& file, const ModelSpec& spec) : file_(file) {
    for (const FileTensor& t : file_tensors(spec)) {
      size_t at = 0;
      for (const TensorSpec& part : t.parts) {
        places_[part.name] = {t.name, at, size_t(part.shape.count())};
        at += size_t(part.shape.count());
      }
    }
  }
  std::vector<float> operator()(const std::string& kind, const TensorSpec& t) const {
    const TensorPlace& p = places_.at(t.name);
    const std::vector<float> whole = floats(file_, kind + p.name);
    return {whole.begin() + int64_t(p.begin), whole.begin() + int64_t(p.begin + p.count)};
  }
  // Largest magnitude of the whole tensor.
  float top(const std::string& kind, const TensorSpec& t) const {
    float top = 0;
    for (const float v : floats(file_, kind + places_.at(t.name).name)) top = std::max(top, std::abs(v));
    return top;
  }

 private:
  struct TensorPlace {
    std::string name;
    size_t begin, count;
  };
  const gguf::File& file_;
  std::map<std::string, TensorPlace> places_;
};

class Golden : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  std::string name() const { return std::get<0>(GetParam()); }
  bool reference() const { return std::string(std::get<1>(GetParam())) == "reference"; }
  std::unique_ptr<Device> device() const { return reference() ? make_reference_device() : make_test_device(2); }
  // The reference computes in f64, and both sides are rounded to f32 once: half an ulp each, and f64 noise.
  // The cpu rounds after each operation: the longest path through these models has some 40 operations whose errors add
  // like a random walk or worse; 64 roundings of the largest element bound it. PyTorch in f32 is about as far away.
  // The kernels of GPUs add in f32 what the cpu adds in f64 or in several sums.
  double tolerance() const { return reference() ? 1.1 : device()->name() == "emulated" ? 96 : 64; }
};
class GoldenSteps : public Golden {};
class GoldenNarrow : public Golden {};
class GoldenFiles : public ::testing::TestWithParam<const char*> {};

constexpr int64_t kB = 3, kT = 17;
const TrainerOptions kOptions{
    .batch = kB, .tokens = kT, .optimizer = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .clip = 0}};

void feed(Session& session, const gguf::File& golden) {
  std::vector<int32_t> sequence, position;
  for (int32_t i = 0; i < kB * kT; ++i) sequence.push_back(i / kT), position.push_back(i % kT);
  session.set("tokens", ints(golden, "tokens"));
  session.set("targets", ints(golden, "targets"));
  session.set("weight", std::vector<float>(kB * kT, 1.0f / (kB * kT)));
  session.set("sequence", sequence);
  session.set("position", position);
}

TEST_P(Golden, LogitsLossAndEveryGradient) {
  const auto dev = device();
  const Model model = load_model(golden_path(name() + ".model"), *dev, LoadMode::trainable);
  const gguf::File golden = gguf::File::open(golden_path(name() + ".golden"));
  TrainGraph t = build_train_graph(
      model.spec, [](const std::string&) { return DType::f32; }, kOptions);
  std::vector<Value> outputs{t.loss};
  outputs.insert(outputs.end(), t.gradients.begin(), t.gradients.end());
  auto plan = std::make_shared<const Plan>(compile(*t.graph, outputs, {}, *dev));
  Session session(*dev, plan, {model.params.get()});
  LossGraph l = build_loss_graph(
      model.spec, [](const std::string&) { return DType::f32; }, kB, kT);
  auto loss_plan = std::make_shared<const Plan>(compile(*l.graph, std::vector<Value>{l.logits}, {}, *dev));
  Session forward(*dev, loss_plan, {model.params.get()});
  for (Session* s : {&session, &forward}) {
    feed(*s, golden);
    s->run();
  }
  EXPECT_LE(roundings(forward.values(0), floats(golden, "logits")), tolerance()) << "logits";
  // The weight 1/51 is rounded to f32 for both devices: one more rounding of the loss and of each gradient.
  EXPECT_LE(roundings(session.values(0), floats(golden, "loss")), tolerance() + 1) << "loss";
  const auto tensors = tensors_of(model.spec);
  const Expected expected(golden, model.spec);
  for (size_t i = 0; i < tensors.size(); ++i)
    EXPECT_LE(roundings(session.values(i + 1), expected("grad.", tensors[i]), expected.top("grad.", tensors[i])),
              tolerance() + 1)
        << tensors[i].name;
}

TEST_P(GoldenSteps, TenAdamWSteps) {
  const auto dev = device();
  Model model = load_model(golden_path(name() + ".model"), *dev, LoadMode::trainable);
  const gguf::File golden = gguf::File::open(golden_path(name() + ".golden"));
  TrainerOptions options = kOptions;
  options.optimizer.eps = double(golden.get_f32("golden.adamw.eps"));
  Trainer trainer(*dev, model, options);
  const Windows batch{ints(golden, "tokens"), ints(golden, "targets")};
  const std::vector<float> losses = floats(golden, "adamw.losses");
  // lr and the bias corrections are f32 inputs: a few roundings more, also on the reference; each step adds its own.
  const double steps_tolerance = reference() ? 8 : 160;
  for (size_t step = 0; step < losses.size(); ++step) {
    const StepResult r = trainer.step(batch, 1e-2);
    EXPECT_LE(roundings({float(r.loss)}, {losses[step]}), steps_tolerance) << "loss of step " << step;
  }
  const Expected expected(golden, model.spec);
  for (const TensorSpec& t : tensors_of(model.spec))
    EXPECT_LE(roundings(model.params->read(t.name), expected("adamw.", t)), steps_tolerance) << t.name;
}

// Narrow weights: as they lie in the file and promoted to f32. All exact: the bound holds.
TEST_P(GoldenNarrow, Logits) {
  const auto dev = device();
  const gguf::File golden = gguf::File::open(golden_path(name() + ".golden"));
  for (const LoadMode mode : {LoadMode::mapped, LoadMode::trainable}) {
    const Model model = load_model(golden_path(name() + ".model"), *dev, mode);
    const bool f32 = mode == LoadMode::trainable, blocks = name() == "llama_q8_0";
    EXPECT_EQ(model.params->type("blk.0.ffn_up.weight").dtype == DType::f32, f32);
    EXPECT_EQ(model.warnings.size(), blocks && f32 ? 1u : 0u);
    if (blocks && !f32) {
      Decoder decoder(*dev, model, {.sequences = int(kB), .context = kT, .kv = DType::f32, .exact = true});
      const std::vector<int32_t> tokens = ints(golden, "tokens");
      std::vector<DecodeRow> rows;
      for (size_t i = 0; i < tokens.size(); ++i) rows.push_back({int(i / kT), tokens[i], true});
      decoder.decode(rows);
      std::vector<float> logits;
      for (size_t i = 0; i < rows.size(); ++i)
        logits.insert(logits.end(), decoder.logits(i).begin(), decoder.logits(i).end());
      EXPECT_LE(roundings(logits, floats(golden, "logits")), tolerance()) << "exact products on blocks";
      continue;
    }
    LossGraph l = build_loss_graph(
        model.spec, [&](const std::string& n) { return model.params->type(n).dtype; }, kB, kT);
    auto plan = std::make_shared<const Plan>(compile(*l.graph, std::vector<Value>{l.logits}, {}, *dev));
    Session session(*dev, plan, {model.params.get()});
    feed(session, golden);
    session.run();
    EXPECT_LE(roundings(session.values(0), floats(golden, "logits")), tolerance()) << int(mode);
  }
}

// Loading and saving changes nothing: dimensions, scaling, factors, every weight.
TEST_P(GoldenFiles, RoundTrip) {
  const auto dev = make_test_device(1);
  const Model model = load_model(golden_path(std::string(GetParam()) + ".model"), *dev, LoadMode::trainable);
  const testing::Folder folder;
  const std::string path = folder.path("again.gguf");
  save_model(model, path);
  const Model again = load_model(path, *dev);
  EXPECT_TRUE(again.spec == model.spec);
  for (const TensorSpec& t : tensors_of(model.spec)) EXPECT_EQ(again.params->read(t.name), model.params->read(t.name));
  const gguf::File a = gguf::File::open(golden_path(std::string(GetParam()) + ".model")), b = gguf::File::open(path);
  for (const auto& [key, value] : a.metadata()) {
    const bool same = b.metadata().contains(key) && b.metadata().at(key) == value;
    EXPECT_TRUE(same || !key.starts_with(model.spec.architecture + ".")) << key;
  }
  EXPECT_EQ(a.tensors().size(), b.tensors().size());
}

const auto kDevices = ::testing::Values("reference", "cpu");
const auto name_test = [](const auto& test) {
  return std::string(std::get<0>(test.param)) + "_" + std::get<1>(test.param);
};
INSTANTIATE_TEST_SUITE_P(PyTorch, Golden,
                         ::testing::Combine(::testing::Values("llama_tied", "llama_untied", "llama_mqa", "llama_bias",
                                                              "llama_qk_norm", "llama_linear", "llama_yarn10",
                                                              "llama_yarn24", "llama_window", "gpt2_tied",
                                                              "gpt2_untied"),
                                            kDevices),
                         name_test);
INSTANTIATE_TEST_SUITE_P(PyTorch, GoldenSteps,
                         ::testing::Combine(::testing::Values("llama_tied", "llama_untied", "llama_mqa", "llama_bias",
                                                              "llama_qk_norm", "gpt2_tied", "gpt2_untied"),
                                            kDevices),
                         name_test);
INSTANTIATE_TEST_SUITE_P(PyTorch, GoldenNarrow,
                         ::testing::Combine(::testing::Values("llama_f16", "llama_bf16", "llama_q8_0"), kDevices),
                         name_test);
INSTANTIATE_TEST_SUITE_P(PyTorch, GoldenFiles,
                         ::testing::Values("llama_tied", "llama_untied", "llama_mqa", "llama_bias", "llama_qk_norm",
                                           "llama_linear", "llama_yarn10", "llama_yarn24", "llama_window", "llama_f16",
                                           "llama_bf16", "llama_q8_0", "gpt2_tied", "gpt2_untied"));

}  // namespace
}  // namespace toy::golden_test
