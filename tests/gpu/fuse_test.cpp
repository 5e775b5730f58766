// Launches that are joined: which, and that nothing changes.
#include "backend/gpu/fuse.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <tuple>

#include "backend/gpu/emulated/emulated_driver.h"
#include "backend/gpu/gpu_device.h"
#include "backend/gpu/launches.h"
#include "backend/gpu/opencl/opencl_driver.h"
#include "backend/gpu/tables.h"
#include "testing/sanitizers.h"
#include "toy/base/error.h"
#include "toy/base/philox.h"
#include "toy/ops/attrs/structs.h"
#include "toy/ops/ops.h"
#include "toy/runtime/session.h"

namespace toy::gpu::fuse_test {
namespace {

// A program's calls, each of one launch, by the records of GPUs.
class Calls {
 public:
  explicit Calls(const Driver& driver) : driver_(driver), launches_(driver, nullptr) {}
  void add(std::string_view op, std::vector<View> in, std::vector<View> out, Attrs attrs = {}) {
    const KernelRecord* record = nullptr;  // the last of an op is the one for products in f32
    for (const KernelRecord& r : records())
      if (r.op == op) record = &r;
    kept_.push_back(std::make_unique<Kept>(Kept{std::move(in), std::move(out), std::move(attrs)}));
    calls_.push_back({record, &kept_.back()->attrs, kept_.back()->in, kept_.back()->out});
    record->code.as<Code>()(launches_, calls_.back());
    ends_.push_back(launches_.list().size());
  }
  // A step of an optimizer for one tensor: its operands in their order, where all but the gradient, the second, change
  // (of `momentum` the last one is the step; of `accumulate` and `ema` only the first changes).
  void add_step(std::string_view op, const std::vector<View>& of, const View& scalar, Attrs attrs) {
    if (op == "momentum") return add(op, {of[0], of[1], scalar}, {of[0], of[2]}, std::move(attrs));
    std::vector<View> in = of, out{of[0]};
    if (op != "ema" && op != "accumulate") out.insert(out.end(), of.begin() + 2, of.end());
    if (op != "accumulate") in.insert(in.end(), op.starts_with("adamw") ? 4 : 2, scalar);
    add(op, std::move(in), std::move(out), std::move(attrs));
  }
  const std::vector<Launch>& launches() const { return launches_.list(); }
  std::vector<Launch> fused() const { return gpu::fused(driver_, calls_, launches_.list(), ends_); }

 private:
  struct Kept {
    std::vector<View> in, out;
    Attrs attrs;
  };
  const Driver& driver_;
  Launches launches_;
  std::vector<std::unique_ptr<Kept>> kept_;
  std::vector<KernelCall> calls_;
  std::vector<size_t> ends_;
};

TEST(Fusing, JoinsWhatDoesNotDependOnEachOther) {
  const auto driver = make_emulated_driver();
  std::vector<float> floats(10000);
  const auto at = [&](size_t i, Shape shape) { return View(floats.data() + i, DType::f32, shape); };
  const View x = at(0, {2, 64}), w = at(1000, {32, 64}), gain = at(900, {64}), none;
  const View q = at(4000, {2, 32}), k = at(5000, {2, 32}), v = at(6000, {2, 32});
  {
    Calls c(*driver);  // something in between that is about q alone
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
    Calls c(*driver);  // x changes, or what the first makes is read
    c.add("linear", {x, w, none, none}, {q});
    c.add("scale", {x}, {x}, ScaleAttrs{2});
    c.add("linear", {x, w, none, none}, {k});
    EXPECT_EQ(c.fused().size(), 3u);
  }
  {
    Calls c(*driver);  // k's memory is in use until then
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
    Calls c(*driver);
    c.add("add", {sum, y}, {sum});
    c.add("rms_norm", {sum, gain}, {to}, RmsNormAttrs{});
    EXPECT_EQ(c.fused().size(), joins ? 1u : 2u);
  }
}

// Counts launches of each kernel.
class Counting final : public Driver {
 public:
  explicit Counting(std::map<Kernel, int>& launches) : launches_(launches) {}
  std::string_view name() const override { return to_->name(); }
  Device::Memory memory() const override { return to_->memory(); }
  size_t alignment() const override { return to_->alignment(); }
  void* allocate(size_t bytes) override { return to_->allocate(bytes); }
  void release(void* memory) noexcept override { to_->release(memory); }
  void upload(void* to, const void* from, size_t bytes) override { to_->upload(to, from, bytes); }
  void download(void* to, const void* from, size_t bytes) override { to_->download(to, from, bytes); }
  void copy(void* to, const void* from, size_t bytes) override { to_->copy(to, from, bytes); }
  void fill(void* to, std::byte value, size_t bytes) override { to_->fill(to, value, bytes); }
  void launch(const Launch& launch) override { ++launches_[launch.kernel], to_->launch(launch); }
  void synchronize() override { to_->synchronize(); }

 private:
  std::unique_ptr<Driver> to_ = make_emulated_driver();
  std::map<Kernel, int>& launches_;
};

// What a graph gives on a device whose launches are counted: as many as there are joined, and single ones, which are
// those of a session that takes times.
struct Counted {
  std::vector<std::vector<float>> values;
  std::map<Kernel, int> launches;
  int all() const {
    return std::accumulate(launches.begin(), launches.end(), 0, [](int n, const auto& of) { return n + of.second; });
  }
};
std::pair<Counted, Counted> joined_and_single(const Graph& g, const std::vector<Value>& outputs,
                                              const std::vector<Value>& updates = {}) {
  std::map<Kernel, int> launches;
  const auto device = make_gpu_device(std::make_unique<Counting>(launches));
  const auto plan = std::make_shared<const Plan>(compile(g, outputs, updates, *device));
  Counted counted[2];
  for (const bool timed : {false, true}) {
    ParamStore store(*device);
    for (const PlanLeaf& p : plan->params) {
      store.add(p.name, p.type);
      std::vector<float> values(size_t(p.type.shape.count()));
      const Philox random(5, p.name);
      for (size_t i = 0; i < values.size(); ++i) values[i] = float(random.below(i, 2001)) / 1000 - (p.name[0] != 'v');
      store.write(p.name, values);
    }
    Session session(*device, plan, {&store});
    session.enable_profile(timed);
    launches = {};
    session.run();
    counted[timed].launches = launches;
    for (size_t i = 0; i < outputs.size(); ++i) counted[timed].values.push_back(session.values(i));
    for (const PlanLeaf& p : plan->params) counted[timed].values.push_back(store.read(p.name));
  }
  return {counted[0], counted[1]};
}

TEST(Fusing, GivesTheBitsOfSingleLaunches) {
  Graph g;
  const Value x = g.param("x", f32({3, 96})), gain = g.param("gain", f32({96}));
  const auto weight = [&](const char* name, int64_t rows) { return g.param(name, f32({rows, 96})); };
  const Value y = rms_norm(x, gain, 1e-5);
  const Value q = linear(y, weight("q", 96), g.param("bias", f32({96}))), k = linear(y, weight("k", 40)),
              v = linear(y, weight("v", 40));
  const Value sum = x + q, z = rms_norm(sum, gain, 1e-5);
  const Value gate = linear(z, weight("gate", 70)), up = linear(z, weight("up", 70));
  const auto [joined, single] = joined_and_single(g, {k, v, z, gate, up});
  EXPECT_EQ(joined.values, single.values);
  EXPECT_EQ(single.all(), 8);
  EXPECT_LE(joined.all(), 5);  // two of q, k, v; gate and up; the sum and its norm
}

// A step of an optimizer has as many launches for twenty tensors as for one.
TEST(Fusing, OneLaunchForAllTensors) {
  Graph g;
  std::vector<Value> weights, gradients, updates;
  for (int i = 0; i < 20; ++i) {
    const auto param = [&](const char* name) {
      return g.param(name + std::to_string(i), f32({i % 3 == 0 ? 1 : 300 * i + 1}));
    };
    weights.push_back(param("w")), gradients.push_back(param("g"));
  }
  const Value norm = global_norm(gradients), scale = clip_scale(norm, g.scalar(0.5)), one = g.scalar(0.25);
  for (int i = 0; i < 20; ++i) {
    const TensorType type = weights[size_t(i)].type();
    const AdamWState next =
        adamw({weights[size_t(i)], g.param("m" + std::to_string(i), type), g.param("v" + std::to_string(i), type)},
              gradients[size_t(i)], one, one, one, scale, {.weight_decay = i % 2 == 0 ? 0.1 : 0});
    for (const Value& v : {next.w, next.m, next.v}) updates.push_back(v);
  }
  const auto [joined, single] = joined_and_single(g, {norm}, updates);
  EXPECT_EQ(joined.values, single.values);
  EXPECT_GT(joined.values[0][0], 0);
  const auto count = [](const Counted& c, Kernel k) { return c.launches.contains(k) ? c.launches.at(k) : 0; };
  EXPECT_EQ(count(joined, Kernel::adamw), 1);
  EXPECT_EQ(count(joined, Kernel::sum_squares), 1);
  EXPECT_EQ(count(single, Kernel::adamw), 20);
  EXPECT_EQ(count(single, Kernel::sum_squares), 1);
}

// Joined launches of each kernel that goes over tensors, in whatever order the items run. The tensors lie in two pieces
// of memory; kernels of OpenCL reach one of them.
TEST(Fusing, TensorsDoNotMix) {
  std::vector<std::unique_ptr<Driver>> drivers;
  for (const ItemOrder order : {ItemOrder::ascending, ItemOrder::descending, ItemOrder::shuffled})
    drivers.push_back(make_emulated_driver(order));
  if (!testing::kAddressSanitizer && !testing::kThreadSanitizer) try {
      drivers.push_back(make_opencl_driver());
    } catch (const Error&) {  // there is none
    }
  constexpr int64_t kCounts[] = {1, 3000, 0, 1024, 1025, 2, 2048, 31, 0, 4097, 1023, 5};
  constexpr size_t kAll = 6 * 4097, kTensors = std::size(kCounts);
  const SgdAttrs sgd{.momentum = 0.9, .nesterov = true};
  const std::tuple<const char*, size_t, Attrs> ops[] = {{"adamw", 4, AdamWAttrs{}},
                                                        {"adamw8", 6, AdamWAttrs{}},
                                                        {"sgd", 2, SgdAttrs{}},
                                                        {"sgd_momentum", 3, sgd},
                                                        {"lion", 3, LionAttrs{}},
                                                        {"momentum", 3, MomentumAttrs{0.9, false}},
                                                        {"ema", 2, {}},
                                                        {"accumulate", 2, {}}};
  for (const auto& driver : drivers)
    for (const auto& [op, operands, attrs] : ops) {
      SCOPED_TRACE(std::string(driver->name()) + " " + op);
      std::vector<float> values(kTensors / 2 * kAll);
      for (size_t i = 0; i < values.size(); ++i) values[i] = float(i % 37) / 16;
      const size_t bytes = values.size() * sizeof(float);
      std::vector<char*> memory;
      for (int i = 0; i < 3; ++i) memory.push_back(static_cast<char*>(driver->allocate(bytes)));
      const float one = 1;
      driver->upload(memory[2], &one, sizeof one);
      Calls calls(*driver);
      for (size_t t = 0; t < kTensors; ++t) {
        std::vector<View> of;
        for (size_t i = 0; i < operands; ++i)
          of.emplace_back(memory[2 * t / kTensors] + (t % (kTensors / 2) * kAll + i * 4097) * sizeof(float), DType::f32,
                          Shape{kCounts[t]});
        const View scalar(memory[2], DType::f32, Shape{});
        calls.add_step(op, of, scalar, attrs);
      }
      std::vector<uint32_t> results[2];  // bits
      for (const bool together : {false, true}) {
        for (int i = 0; i < 2; ++i) driver->upload(memory[size_t(i)], values.data(), bytes);
        std::vector<Launch> list = together ? calls.fused() : calls.launches();
        EXPECT_EQ(list.size(), !together ? 10u : driver->reaches(memory[0], memory[1]) ? 1u : 2u);
        std::vector<Launch>* const lists[] = {&list};
        const Tables tables(*driver, lists);
        for (const Launch& l : list) driver->launch(l);
        results[together].resize(2 * values.size());
        for (size_t i = 0; i < 2; ++i) driver->download(results[together].data() + i * values.size(), memory[i], bytes);
      }
      EXPECT_EQ(results[0], results[1]);
      EXPECT_NE(std::memcmp(values.data(), results[0].data(), bytes), 0);
      for (char* m : memory) driver->release(m);
    }
}

}  // namespace
}  // namespace toy::gpu::fuse_test
