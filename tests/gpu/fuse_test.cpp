// Launches that are joined: which, and that nothing changes.
#include "backend/gpu/fuse.h"

#include <gtest/gtest.h>

#include <memory>

#include "backend/gpu/emulated/emulated_driver.h"
#include "backend/gpu/gpu_device.h"
#include "backend/gpu/launches.h"
#include "toy/base/philox.h"
#include "toy/ops/attrs/structs.h"
#include "toy/ops/ops.h"
#include "toy/runtime/session.h"

namespace toy::gpu {
namespace {

// A program's calls, each of one launch, by the records of GPUs.
class Calls {
 public:
  Calls() : launches_(nullptr) {}
  void add(std::string_view op, std::vector<View> in, std::vector<View> out, Attrs attrs = {}) {
    const KernelRecord* record = nullptr;  // the last of an op is the one for products in f32
    for (const KernelRecord& r : records())
      if (r.op == op) record = &r;
    kept_.push_back(std::make_unique<Kept>(Kept{std::move(in), std::move(out), std::move(attrs)}));
    calls_.push_back({record, &kept_.back()->attrs, kept_.back()->in, kept_.back()->out});
    record->code.as<Code>()(launches_, calls_.back());
    ends_.push_back(launches_.list().size());
  }
  std::vector<Launch> fused() const { return gpu::fused(calls_, launches_.list(), ends_); }

 private:
  struct Kept {
    std::vector<View> in, out;
    Attrs attrs;
  };
  Launches launches_;
  std::vector<std::unique_ptr<Kept>> kept_;
  std::vector<KernelCall> calls_;
  std::vector<size_t> ends_;
};

TEST(Fusing, JoinsWhatDoesNotDependOnEachOther) {
  std::vector<float> floats(10000);
  const auto at = [&](size_t i, Shape shape) { return View(floats.data() + i, DType::f32, shape); };
  const View x = at(0, {2, 64}), w = at(1000, {32, 64}), gain = at(900, {64}), none;
  const View q = at(4000, {2, 32}), k = at(5000, {2, 32}), v = at(6000, {2, 32});
  {
    Calls c;  // something in between that is about q alone
    c.add("linear", {x, w, none, none}, {q});
    c.add("scale", {q}, {q}, ScaleAttrs{2});
    c.add("linear", {x, w, none, none}, {k});
    c.add("linear", {x, w, none, none}, {v});
    const std::vector<Launch> l = c.fused();
    ASSERT_EQ(l.size(), 2u);
    EXPECT_EQ(l[0].kernel, Kernel::product_few);
    EXPECT_EQ(l[0].groups.x, 12);
  }
  {
    Calls c;  // x changes, or what the first makes is read
    c.add("linear", {x, w, none, none}, {q});
    c.add("scale", {x}, {x}, ScaleAttrs{2});
    c.add("linear", {x, w, none, none}, {k});
    EXPECT_EQ(c.fused().size(), 3u);
  }
  {
    Calls c;  // k's memory is in use until then
    c.add("linear", {x, w, none, none}, {q});
    c.add("add", {k, k}, {v});
    c.add("linear", {x, w, none, none}, {k});
    EXPECT_EQ(c.fused().size(), 3u);
  }
  const View sum = at(7000, {2, 64}), y = at(8000, {2, 64});
  for (const auto& [to, joins] :
       {std::pair{at(9000, {2, 64}), true},
        {y, true},
        {sum, false},
        {at(8032, {2, 64}), false},
        {View(floats.data() + 9000, DType::bf16, {2, 64}), true},
        {View(floats.data() + 8000, DType::bf16, {2, 64}), false}}) {  // its rows are other rows of y
    Calls c;
    c.add("add", {sum, y}, {sum});
    c.add("rms_norm", {sum, gain}, {to}, RmsNormAttrs{});
    EXPECT_EQ(c.fused().size(), joins ? 1u : 2u);
  }
}

// Counts launches.
class Counting final : public Driver {
 public:
  explicit Counting(size_t& launches) : launches_(launches) {}
  std::string_view name() const override { return to_->name(); }
  Device::Memory memory() const override { return to_->memory(); }
  size_t alignment() const override { return to_->alignment(); }
  void* allocate(size_t bytes) override { return to_->allocate(bytes); }
  void release(void* memory) noexcept override { to_->release(memory); }
  void upload(void* to, const void* from, size_t bytes) override { to_->upload(to, from, bytes); }
  void download(void* to, const void* from, size_t bytes) override { to_->download(to, from, bytes); }
  void copy(void* to, const void* from, size_t bytes) override { to_->copy(to, from, bytes); }
  void fill(void* to, std::byte value, size_t bytes) override { to_->fill(to, value, bytes); }
  void launch(const Launch& launch) override { ++launches_, to_->launch(launch); }
  void synchronize() override { to_->synchronize(); }

 private:
  std::unique_ptr<Driver> to_ = make_emulated_driver();
  size_t& launches_;
};

// Launches that are timed are not joined, so a session that takes times has the bits of what the calls say.
TEST(Fusing, GivesTheBitsOfSingleLaunches) {
  size_t launches = 0;
  const auto device = make_gpu_device(std::make_unique<Counting>(launches));
  Graph g;
  const Value x = g.param("x", f32({3, 96})), gain = g.param("gain", f32({96}));
  const auto weight = [&](const char* name, int64_t rows) { return g.param(name, f32({rows, 96})); };
  const Value y = rms_norm(x, gain, 1e-5);
  const Value q = linear(y, weight("q", 96), g.param("bias", f32({96}))), k = linear(y, weight("k", 40)),
              v = linear(y, weight("v", 40));
  const Value sum = x + q, z = rms_norm(sum, gain, 1e-5);
  const Value gate = linear(z, weight("gate", 70)), up = linear(z, weight("up", 70));
  const std::vector<Value> outputs{k, v, z, gate, up};
  const auto plan = std::make_shared<const Plan>(compile(g, outputs, {}, *device));
  ParamStore store(*device);
  for (const PlanLeaf& p : plan->params) {
    store.add(p.name, p.type);
    std::vector<float> values(size_t(p.type.shape.count()));
    const Philox random(5, p.name);
    for (size_t i = 0; i < values.size(); ++i) values[i] = float(random.below(i, 2001)) / 1000 - 1;
    store.write(p.name, values);
  }
  std::vector<std::vector<float>> results[2];
  size_t counts[2];
  for (const bool timed : {false, true}) {
    Session session(*device, plan, {&store});
    session.enable_profile(timed);
    launches = 0;
    session.run();
    counts[timed] = launches;
    for (size_t i = 0; i < outputs.size(); ++i) results[timed].push_back(session.values(i));
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(counts[true], plan->steps.size());
  EXPECT_LE(counts[false], plan->steps.size() - 3);  // two of q, k, v; gate and up; the sum and its norm
}

// AdamW of four tensors at once.
TEST(Fusing, TensorsDoNotMix) {
  const auto driver = make_emulated_driver(ItemOrder::shuffled);
  constexpr int64_t kCounts[] = {1, 3000, 0, 1024}, kAll = 4096;
  std::vector<void*> held;
  const auto floats = [&](std::span<const float> values) {
    held.push_back(driver->allocate(values.size_bytes()));
    driver->upload(held.back(), values.data(), values.size_bytes());
    return static_cast<float*>(held.back());
  };
  std::vector<float> values(kAll);
  for (size_t i = 0; i < values.size(); ++i) values[i] = float(i % 37) / 16 - 1;
  const float one = 1, rate = 0.1f;
  std::vector<float> results[2];
  for (const bool together : {false, true}) {
    const std::vector<Arg> same{floats(std::vector<float>(4)),
                                int32_t(0),
                                floats({&rate, 1}),
                                floats({&one, 1}),
                                floats({&one, 1}),
                                nullptr,
                                0.9f,
                                0.1f,
                                0.95f,
                                0.05f,
                                1e-8f};
    std::vector<Arg> all = same;
    std::vector<float*> weights;
    int groups = 0;
    for (size_t t = 0; t < 4; ++t) {
      weights.push_back(floats(values));
      const std::vector<Arg> slot{weights.back(), floats(values), floats(values), floats(std::vector<float>(kAll, 2)),
                                  kCounts[t],     float(t) / 8};
      all.insert(all.end(), slot.begin(), slot.end());
      groups += blocks(kCounts[t], ELEMENTS_OF_A_GROUP);
      std::vector<Arg> single = same;
      add_slots(single, slot, kTensorsOfAdamw);
      if (!together && kCounts[t] > 0)
        driver->launch({Kernel::adamw, {blocks(kCounts[t], ELEMENTS_OF_A_GROUP)}, single});
    }
    if (together) driver->launch({Kernel::adamw, {groups}, all});
    for (const float* w : weights) {
      std::vector<float> of(kAll);
      driver->download(of.data(), w, kAll * sizeof(float));
      results[together].insert(results[together].end(), of.begin(), of.end());
    }
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_NE(results[0], values);
  for (void* m : held) driver->release(m);
}

}  // namespace
}  // namespace toy::gpu
