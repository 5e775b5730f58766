// A lens in front of a small Llama beside PyTorch (tests/golden/make_lens_golden.py): loss, every gradient, ten steps,
// the folded embedding, principal directions.
#include <gtest/gtest.h>

#include <cmath>

#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/models/grow.h"
#include "toy/tensor/projection.h"
#include "train_testing.h"

namespace toy::lens_golden_test {
namespace {

constexpr const char* kGolden = TOY_SOURCE_DIR "/tests/golden/";
constexpr int64_t kB = 3, kT = 17;

class LensGolden : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  bool reference() const { return std::string(std::get<1>(GetParam())) == "reference"; }
  std::unique_ptr<Device> device() const { return reference() ? make_reference_device() : make_test_device(2); }
  std::string name() const { return std::get<0>(GetParam()); }
  std::vector<float> floats(const std::string& tensor) const {
    const gguf::TensorInfo& t = golden_.require(tensor);
    const auto* v = reinterpret_cast<const float*>(t.data);
    return {v, v + t.shape.count()};
  }
  std::vector<int32_t> ids(const std::string& tensor) const {
    const gguf::TensorInfo& t = golden_.require(tensor);
    const auto* v = reinterpret_cast<const int32_t*>(t.data);
    return {v, v + t.shape.count()};
  }
  Model model(Device& dev) const {
    const Model plain = load_model(kGolden + name() + ".model.gguf", dev, LoadMode::trainable);
    Model m{plain.spec, std::make_unique<ParamStore>(dev), nullptr};
    m.spec.lens = golden_.require("lens").shape.back();
    m.spec.roles.freeze = {kDonorEmbedding};
    for (const TensorSpec& t : tensors_of(m.spec)) {
      m.params->add(t.name, {DType::f32, t.shape, 0});
      m.params->write(t.name, t.name == kDonorEmbedding ? floats("donor")
                              : t.name == kLens         ? floats("lens")
                                                        : plain.params->read(t.name));
    }
    return m;
  }
  // To first order, how much a step's roundings change the next loss, in units of 2^-24. An element g whose tensor's
  // gradients are off by `exact` of their largest magnitude moves its weight by g / (|g| + eps) times the rate, twice
  // that error over |g| + eps wrongly (m and v both hold g), and the loss by |g| times this. Errors of elements have
  // any sign.
  double loss_change(const ModelSpec& spec, double exact, double eps) const {
    double squares = 0;
    for (const TensorSpec& t : trained_tensors(spec)) {
      const std::vector<float> grads = floats("grad." + key(t.name));
      double largest = 0;
      for (const double g : grads) largest = std::max(largest, std::abs(g));
      for (const double g : grads)
        squares += std::pow(2 * kRate * exact * largest * std::abs(g) / (std::abs(g) + eps), 2);
    }
    return std::sqrt(squares);
  }
  static constexpr double kRate = 1e-2;
  static std::string key(const std::string& tensor) { return tensor == kLens ? "lens" : tensor; }
  const gguf::File golden_ = gguf::File::open(kGolden + ("lens_" + name()) + ".golden.gguf");
};

// As in golden_test.cpp: units of 2^-24 of the largest magnitude.
double roundings(const std::vector<float>& got, const std::vector<float>& want) {
  EXPECT_EQ(got.size(), want.size());
  double distance = 0, top = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    top = std::max(top, double(std::abs(want[i])));
    distance = std::max(distance, double(std::abs(got[i] - want[i])));
  }
  return distance / (top * 0x1p-24);
}

TEST_P(LensGolden, LossEveryGradientAndTenSteps) {
  const auto dev = device();
  Model m = model(*dev);
  const Windows batch{ids("tokens"), ids("targets")};
  const double exact = reference() ? 2.1 : 65;
  {
    Model first = model(*dev);
    Trainer trainer(*dev, first, testing::bare(kB, kT));
    EXPECT_LE(roundings({float(trainer.step(batch, 1e-3).loss)}, floats("loss")), exact);
    const std::vector<TensorSpec> trained = trained_tensors(first.spec);
    EXPECT_EQ(trained.front().name, kLens);
    for (const TensorSpec& t : trained)
      EXPECT_LE(roundings(trainer.moments().read(t.name + ".v"), floats("grad." + key(t.name))), exact) << t.name;
    EXPECT_EQ(first.params->read(kDonorEmbedding), floats("donor"));
  }
  TrainerOptions o{.batch = kB, .tokens = kT};
  o.optimizer.eps = 1e-4, o.optimizer.weight_decay = 0.1, o.optimizer.clip = 0;
  Trainer trainer(*dev, m, o);
  // Four standard deviations; those of steps add up, as a weight that is off stays off.
  double bound = exact;
  for (const float loss : floats("adamw.losses")) {
    EXPECT_LE(roundings({float(trainer.step(batch, kRate).loss)}, {loss}), bound);
    bound += 4 * loss_change(m.spec, exact, o.optimizer.eps) / loss;
  }
  EXPECT_LE(roundings(m.params->read(kLens), floats("adamw.lens")), reference() ? 8 : 1600);
}

TEST_P(LensGolden, FoldedAndPrincipalDirections) {
  const auto dev = device();
  const Model m = model(*dev);
  ThreadPool threads(2);
  std::vector<float> folded(floats("folded").size());
  folded_rows(m, floats("lens"), 0, folded, threads);
  EXPECT_LE(roundings(folded, floats("folded")), 0.51);  // both sums are f64, rounded once
  std::vector<float> donor = floats("donor");
  const View table(donor.data(), DType::f32, golden_.require("donor").shape);
  // The gap between two eigenvalues decides how far f64 eigenvectors may be off; here far below a rounding to f32.
  EXPECT_LE(roundings(principal_components(table, m.spec.d_model, threads), floats("directions")), 1.1);
}

INSTANTIATE_TEST_SUITE_P(PyTorch, LensGolden,
                         ::testing::Combine(::testing::Values("llama_tied", "llama_untied"),
                                            ::testing::Values("reference", "cpu")),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param)) + "_" + std::get<1>(test.param);
                         });

}  // namespace
}  // namespace toy::lens_golden_test
