#include "toy/runtime/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <set>

#include "testing/errors.h"
#include "testing/test_device.h"
#include "toy/backend/devices.h"
#include "toy/base/philox.h"
#include "toy/ops/ops.h"
#include "toy/tensor/convert.h"
#include "toy/tensor/quantize.h"

namespace {
std::atomic<long> allocations{0};
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"  // it sees free() through the inlined operators below
#endif

// Every allocation of this program is counted. (malloc by itself is not: the library has no reason to call
// it.)
void* operator new(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(bytes ? bytes : 1)) return p;
  throw std::bad_alloc();
}
void* operator new(size_t bytes, std::align_val_t align) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  const size_t a = size_t(align);
  if (void* p = std::aligned_alloc(a, (bytes + a - 1) / a * a)) return p;
  throw std::bad_alloc();
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(bytes ? bytes : 1);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }

namespace toy {
namespace {

using testing::error_of;

// y = linear(embedding(table, ids), w) over at most 6 rows, and a training step for w.
struct Model {
  explicit Model(Device& d, bool train = false) : device(d), store(d) {
    const int n = graph.declare_rows("N", 6);
    const Value ids = graph.input("ids", graph.rows_type(n, DType::i32), 5);
    const Value table = graph.param("table", {DType::f32, {5, 4}, 0});
    const Value w = graph.param("w", {DType::f32, {5, 4}, 0});
    const Value x = embedding(table, ids);
    std::vector<Value> outputs{linear(x, w)}, updates;
    if (train) {
      const Value weight = graph.input("weight", graph.rows_type(n, DType::f32));
      const Value loss =
          linear_xent(rms_norm(x, graph.param("norm", {DType::f32, {4}, 0}), 1e-5f), w, ids, weight).loss;
      const std::vector<Value> wrt{w};
      const Value g = gradients(loss, wrt)[0];
      const AdamWState s = adamw({w, graph.param("m", w.type()), graph.param("v", w.type())}, g, graph.scalar(0.1),
                                 graph.scalar(0.1), graph.scalar(0.05), {}, {});
      outputs = {loss};
      updates = {s.w, s.m, s.v};
    }
    plan = std::make_shared<const Plan>(compile(graph, outputs, updates, device));
    for (const PlanLeaf& p : plan->params) {
      store.add(p.name, p.type);
      std::vector<float> values(size_t(p.type.count()));
      for (size_t i = 0; i < values.size(); ++i) values[i] = float(Philox(1, p.name).uniform(i));
      store.write(p.name, values);
    }
  }
  Device& device;
  Graph graph;
  std::shared_ptr<const Plan> plan;
  ParamStore store;
};

const std::vector<int32_t> kIds{3, 0, 4, 1, 1, 2};

struct SessionTest : ::testing::Test {
  std::unique_ptr<Device> cpu = make_test_device(2);
};

TEST_F(SessionTest, RowsAreChosenAtRunTime) {
  Model m(*cpu);
  Session s(*cpu, m.plan, {&m.store});
  s.set("ids", kIds);
  s.run();
  const std::vector<float> all = s.values(0);
  EXPECT_EQ(s.output(0).view().shape, (Shape{6, 5}));
  for (const int64_t n : {2, 0, 5, 6}) {
    s.set_rows("N", n);
    s.run();
    EXPECT_EQ(s.output(0).view().shape, (Shape{n, 5}));
    EXPECT_EQ(s.values(0), std::vector<float>(all.begin(), all.begin() + n * 5));
  }
}

// A session keeps a program for each of the last few row counts, and has to tell them apart.
TEST_F(SessionTest, ManyRowCountsAlternate) {
  Graph g;
  const Value x = g.input("x", g.rows_type(g.declare_rows("N", 40), DType::f32));
  const auto plan = std::make_shared<const Plan>(compile(g, std::vector<Value>{x * g.scalar(2)}, {}, *cpu));
  Session s(*cpu, plan, {});
  for (int round = 0; round < 2; ++round)
    for (int64_t n = 0; n <= 40; ++n) {
      const int64_t rows = n % 2 ? 41 - n : n;
      s.set_rows("N", rows);
      s.set("x", std::vector<float>(size_t(rows), float(n)));
      s.run();
      EXPECT_EQ(s.values(0), std::vector<float>(size_t(rows), float(2 * n)));
    }
}

// Inputs lie in one piece of memory; where the host cannot write to it, a run uploads once what was set.
TEST_F(SessionTest, InputsAreUploadedTogether) {
  struct Counting final : ForwardingDevice {
    using ForwardingDevice::ForwardingDevice;
    void upload(toy::Place to, const void* from, size_t bytes) const override {
      sizes.push_back(bytes);
      ForwardingDevice::upload(to, from, bytes);
    }
    mutable std::vector<size_t> sizes;
  };
  for (const bool visible : {true, false}) {
    const auto own = visible ? make_cpu_device(1) : std::make_unique<ProtectedDevice>(make_cpu_device(1));
    Counting device(*own);
    Graph g;
    const int n = g.declare_rows("N", 6);
    const Value ids = g.input("ids", g.rows_type(n, DType::i32), 5), x = g.input("x", g.rows_type(n, DType::f32)),
                f = g.input("f", {DType::f32, {}, 0});
    const auto plan = std::make_shared<const Plan>(compile(g, std::vector<Value>{x * f, one_hot(ids, 5)}, {}, device));
    std::set<size_t> offsets;
    for (const PlanLeaf& p : plan->inputs) {
      EXPECT_EQ(p.offset % device.alignment(), 0u);
      EXPECT_LE(p.offset + bytes_of(p.type.dtype, p.type.shape), plan->fed_bytes);
      offsets.insert(p.offset);
    }
    EXPECT_EQ(offsets.size(), 3u);
    Session s(device, plan, {});
    device.sizes.clear();
    s.set("f", 2);
    s.set("x", std::vector<float>{1, 2, 3, 4, 5, 6});
    s.set("ids", std::vector<int32_t>{0, 1, 2, 3, 4, 0});
    s.run();
    EXPECT_EQ(s.values(0), (std::vector<float>{2, 4, 6, 8, 10, 12}));
    s.set_rows("N", 2);
    s.set("x", std::vector<float>{7, 8});
    s.run();
    s.run();  // what was set stays
    EXPECT_EQ(s.values(0), (std::vector<float>{14, 16}));
    EXPECT_EQ(s.values(1), (std::vector<float>{1, 0, 0, 0, 0, 0, 1, 0, 0, 0}));
    if (visible)
      EXPECT_TRUE(device.sizes.empty());
    else
      EXPECT_TRUE(device.sizes.size() == 2 && device.sizes[1] == 8) << device.sizes.size();
  }
}

TEST_F(SessionTest, ErrorsOfTheCallerAreExplained) {
  Model m(*cpu);
  Session s(*cpu, m.plan, {&m.store});
  EXPECT_EQ(error_of([&] { s.set_rows("N", 7); }), "session: 7 N, the plan was made for at most 6");
  EXPECT_EQ(error_of([&] { s.set_rows("N", -1); }), "session: -1 N, the plan was made for at most 6");
  EXPECT_EQ(error_of([&] { s.set_rows("M", 1); }), "session: the plan has no row count 'M'");
  EXPECT_EQ(error_of([&] { s.set("ids", std::vector<int32_t>(7)); }),
            "session: 7 values for input 'ids' of type i32[<=6]");
  EXPECT_EQ(error_of([&] { s.set("ids", std::vector<float>(2)); }), "session: input 'ids' is i32, got f32 values");
  EXPECT_EQ(error_of([&] { s.set("ids", std::vector<int32_t>{0, 5}); }), "ids: value 5 at index 1 is outside 0 to 4");
  EXPECT_EQ(error_of([&] { s.set("ids", std::vector<int32_t>{-1}); }), "ids: value -1 at index 0 is outside 0 to 4");
  EXPECT_EQ(error_of([&] { s.values(0); }), "session: output 0 has no value before run()");
  EXPECT_EQ(error_of([&] { s.set("nobody", std::vector<int32_t>{-1}); }), "session: the graph has no input 'nobody'");
}

TEST_F(SessionTest, MissingAndMistypedTensorsAreNamed) {
  Model m(*cpu);
  ParamStore empty(*cpu), partial(*cpu);
  EXPECT_EQ(error_of([&] { Session(*cpu, m.plan, {&empty}); }),
            "session: the model has no tensor 'table', which its graph needs");
  partial.add("table", {DType::f32, {5, 3}, 0});
  EXPECT_EQ(error_of([&] { Session(*cpu, m.plan, {&partial}); }),
            "session: tensor 'table' is f32[5,3], the graph needs f32[5,4]");
  EXPECT_EQ(error_of([&] { Session(*cpu, m.plan, {&empty, &m.store}); }),
            "no error");  // the first store that has it
}

// The graph's types agree; what lies in memory does not.
TEST_F(SessionTest, StoresOfADeviceThatStoresOtherwiseAreRefused) {
  const auto reference = make_reference_device();
  Model narrow(*cpu), wide(*reference);
  const std::string name(cpu->name());
  EXPECT_EQ(error_of([&] { Session(*reference, wide.plan, {&narrow.store}); }),
            "session: tensor 'table' was made for the device '" + name +
                "', which holds f32 as f32; 'reference' needs f64. "
                "Load or make the model on the device that runs it");
  EXPECT_EQ(error_of([&] { Session(*cpu, narrow.plan, {&wide.store}); }),
            "session: tensor 'table' was made for the device 'reference', which holds f32 as f64; '" + name +
                "' needs f32. "
                "Load or make the model on the device that runs it");
  const auto other = make_test_device(1);  // stores as the first does
  EXPECT_EQ(error_of([&] { Session(*other, narrow.plan, {&narrow.store}); }), "no error");
}

TEST_F(SessionTest, ErrorsOfKernelsNameOpAndRow) {
  Graph g;
  const Value ids = g.input("ids", {DType::i32, {3}, 0});  // no bound: the kernel finds out
  const std::vector<Value> outputs{embedding(g.param("table", {DType::f32, {5, 4}, 0}), ids)};
  ParamStore store(*cpu);
  store.add("table", {DType::f32, {5, 4}, 0});
  Session s(*cpu, std::make_shared<const Plan>(compile(g, outputs, {}, *cpu)), {&store});
  s.set("ids", std::vector<int32_t>{0, 1, 9});
  EXPECT_EQ(error_of([&] { s.run(); }), "embedding: row 2 has id 9");
  s.set("ids", std::vector<int32_t>{0, 1, 4});
  EXPECT_EQ(error_of([&] { s.run(); }), "no error");  // and it goes on
}

TEST_F(SessionTest, RunsDoNotAllocate) {
  const auto reference = make_reference_device();
  for (Device* device : {cpu.get(), reference.get()}) {
    Model m(*device, true);
    Session s(*device, m.plan, {&m.store});
    s.set("ids", kIds);
    s.set("weight", std::vector<float>(6, 0.25f));
    s.run();  // views are bound on the first run, and when the rows change
    const long before = allocations;
    for (int i = 0; i < 3; ++i) s.run();
    EXPECT_EQ(allocations - before, 0) << device->name();
  }
}

TEST_F(SessionTest, StepsAreBitEqualOnRepeatAndForAnyTeam) {
  std::vector<std::vector<float>> ends;
  for (const int threads : {1, 2, 3, 2}) {
    const auto device = make_test_device(threads);
    Model m(*device, true);
    Session s(*device, m.plan, {&m.store});
    s.set("ids", kIds);
    s.set("weight", std::vector<float>(6, 0.25f));
    float first = 0;
    for (int step = 0; step < 5; ++step) {
      s.run();
      if (step == 0) first = s.scalar(0);
    }
    EXPECT_LT(s.scalar(0), first);
    ends.push_back(m.store.read("w"));
  }
  for (const auto& w : ends) EXPECT_EQ(w, ends[0]);
}

// A run in pieces tells how far it is, and changes no bit.
TEST_F(SessionTest, PiecesAreOneRun) {
  for (const bool checked : {false, true}) {
    Model one(*cpu, true), other(*cpu, true);
    const size_t steps = other.plan->steps.size();
    ASSERT_GE(steps, 3u);
    const std::vector<size_t> ends{1, 1, steps - 1, steps};
    std::vector<size_t> told;
    std::vector<std::vector<float>> w, seen;
    for (Model* m : {&one, &other}) {
      Session s(*cpu, m->plan, {&m->store});
      s.check_finite(checked);
      s.enable_profile(true);
      s.set("ids", kIds);
      s.set("weight", std::vector<float>(6, 0.25f));
      for (int i = 0; i < 3; ++i) {
        if (m == &one) {
          s.run();
          continue;
        }
        told.clear(), seen.clear();
        s.run(ends, [&](size_t piece) {
          told.push_back(piece);
          seen.push_back(m->store.read("w"));
        });
      }
      w.push_back(m->store.read("w"));
      for (const StepTime& t : s.profile()) EXPECT_EQ(t.runs, 3);
    }
    EXPECT_EQ(w[0], w[1]);
    EXPECT_EQ(told, (std::vector<size_t>{0, 1, 2, 3}));
    EXPECT_EQ(seen[0], seen[1]);
    EXPECT_NE(seen[0], seen[3]);
    EXPECT_EQ(seen[3], w[1]);
  }
}

TEST_F(SessionTest, TheProfileCountsRuns) {
  for (const bool checked : {false, true}) {
    Model m(*cpu);
    Session s(*cpu, m.plan, {&m.store});
    s.check_finite(checked);
    s.set("ids", kIds);
    s.run();
    s.enable_profile(true);
    s.run();
    s.run();
    ASSERT_EQ(s.profile().size(), m.plan->steps.size());
    double all = 0;
    for (const StepTime& t : s.profile()) {
      EXPECT_EQ(t.runs, 2);
      all += t.seconds;
    }
    EXPECT_GT(all, 0);
    EXPECT_EQ(s.arena_bytes(), m.plan->arena_bytes);
  }
}

TEST(ParamStore, HoldsNamedTensors) {
  const auto reference = make_reference_device();
  ParamStore store(*reference);
  store.add("w", {DType::f16, {2, 2}, 0});
  EXPECT_EQ(store.stored("w"), DType::f64);
  EXPECT_EQ(store.type("w").dtype, DType::f16);
  EXPECT_EQ(store.read("w"), (std::vector<float>(4, 0)));
  store.write("w", std::vector<float>{1, 2, 3, 4});
  EXPECT_EQ(store.read("w"), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_GE(store.bytes(), 32u);
  EXPECT_EQ(error_of([&] { store.add("w", {DType::f32, {1}, 0}); }), "parameters: the name 'w' is taken");
  EXPECT_EQ(error_of([&] { store.host("u"); }), "parameters: there is no tensor 'u'");
  EXPECT_EQ(error_of([&] { store.write("w", std::vector<float>(3)); }),
            "parameters: 3 values for 'w' of type f16[2,2]");
  EXPECT_EQ(store.names(), std::vector<std::string>{"w"});
}

// Tensors share buffers; none lies on another.
TEST(ParamStore, TensorsOfManySizesDoNotOverlap) {
  const auto cpu = make_test_device(1);
  ParamStore store(*cpu);
  const std::vector<int64_t> sizes = {1, 3, 17, 20000, 5, 0, 400000, 1, 70000, 3000000, 8, 30000, 30000, 30000, 9};
  size_t bytes = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const std::string name = std::to_string(i);
    const size_t n = size_t(sizes[i]);
    store.add(name, {DType::f32, {sizes[i]}, 0});
    bytes += n * 4;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(cpu->address(store.place(name))) % 64, 0u);
    EXPECT_EQ(store.bytes(), bytes);
    EXPECT_EQ(store.read(name), std::vector<float>(n, 0)) << i;
    store.write(name, std::vector<float>(n, float(i + 1)));
  }
  for (size_t i = 0; i < sizes.size(); ++i)
    EXPECT_EQ(store.read(std::to_string(i)), std::vector<float>(size_t(sizes[i]), float(i + 1))) << i;

  ParamStore moved = std::move(store);
  store.add("x", {DType::f32, {100}, 0});  // an empty store like any other
  store.write("x", std::vector<float>(100, 1));
  moved.add("y", {DType::f32, {100}, 0});
  EXPECT_EQ(moved.read("y"), std::vector<float>(100, 0));
  moved.write("y", std::vector<float>(100, 2));
  moved.clear("y");
  EXPECT_EQ(moved.read("y"), std::vector<float>(100, 0));
  EXPECT_EQ(store.read("x"), std::vector<float>(100, 1));
}

// What is added together can be cleared, sent or summed as one piece.
TEST(ParamStore, TensorsAddedTogetherAreOnePiece) {
  const auto cpu = make_test_device(1);
  ParamStore store(*cpu);
  store.add("before", {DType::f32, {100}, 0});
  const TensorType large{DType::f32, {50000}, 0}, small{DType::f32, {3}, 0};
  store.add({{"z", large}, {"y", small}, {"x", large}});
  EXPECT_EQ(store.place("y").memory, store.place("z").memory);
  const auto rounded = [&](size_t n) { return (n + cpu->alignment() - 1) / cpu->alignment() * cpu->alignment(); };
  EXPECT_EQ(store.place("y").offset, store.place("z").offset + rounded(200000));
  EXPECT_EQ(store.place("x").memory, store.place("z").memory);
  EXPECT_EQ(store.place("x").offset, store.place("y").offset + rounded(12));
  EXPECT_EQ(store.bytes(), size_t(400 + 2 * 200000 + 12));
  for (const std::string& name : store.names()) {
    const std::vector<float> zeros(size_t(store.type(name).count()), 0);
    EXPECT_EQ(store.read(name), zeros);
    store.write(name, std::vector<float>(zeros.size(), 1));
  }
  store.clear();
  for (const std::string& name : store.names())
    EXPECT_EQ(store.read(name), std::vector<float>(size_t(store.type(name).count()), 0)) << name;
  ParamStore(*cpu).clear();  // nothing is there
  EXPECT_EQ(error_of([&] { store.add({{"v", small}, {"v", small}}); }), "parameters: the name 'v' is given twice");
}

TEST(ParamStore, BoundTensorsAreFrozenAndNotCopied) {
  const auto cpu = make_cpu_device(1), reference = make_reference_device();
  const auto file = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3});
  const View view(file->data(), DType::f32, {3});
  ParamStore store(*cpu), wide(*reference);
  store.bind("w", view, file);
  EXPECT_EQ(store.host("w").view().data, file->data());
  EXPECT_TRUE(store.frozen("w"));
  EXPECT_EQ(store.bytes(), 0u);
  EXPECT_EQ(file.use_count(), 2);
  EXPECT_EQ(error_of([&] { store.write("w", std::vector<float>(3)); }),
            "parameters: 'w' is mapped from a file and cannot be written");
  View gaps(file->data(), DType::f32, {2});
  gaps.stride[0] = 2;
  for (ParamStore* s : {&store, &wide})
    EXPECT_EQ(error_of([&] { s->bind("gaps", gaps, file); }),
              "store: tensor 'gaps' is a strided view of [2]; give a contiguous one");
  EXPECT_EQ(error_of([&] {
              store.add("q", {DType::q4_0, {2, 40}, 0});
            }),
            "parameters: tensor 'q': row length 40 is not a multiple of 32, the block size of q4_0");
  wide.bind("w", view, file);  // held as f64: a copy
  EXPECT_EQ(wide.read("w"), *file);
  EXPECT_FALSE(wide.frozen("w"));
}

// Blocks on the cpu; their values on the reference, which holds every number as f64.
TEST(ParamStore, HoldsQuantizedTensors) {
  const auto cpu = make_test_device(1), reference = make_reference_device();
  const auto file = std::make_shared<std::vector<uint8_t>>(3 * 2 * 144);
  for (size_t i = 0; i < file->size(); ++i) (*file)[i] = uint8_t(i * 7);
  const View view(file->data(), DType::q4_k, {3, 512});
  std::vector<float> values(3 * 512);
  dequantize(DType::q4_k, file->data(), values);
  ParamStore store(*cpu), wide(*reference);
  for (ParamStore* s : {&store, &wide}) {
    s->bind("w", view, file);
    s->add("copy", {DType::q4_k, {3, 512}, 0});
    s->write("copy", view);
  }
  EXPECT_EQ(store.bytes(), (cpu->host_visible() ? 1 : 2) * view.bytes());
  for (const char* name : {"w", "copy"}) {
    EXPECT_EQ(store.stored(name), DType::q4_k);
    EXPECT_EQ(std::memcmp(store.host(name).view().data, file->data(), view.bytes()), 0) << name;
    EXPECT_EQ(wide.stored(name), DType::f64);
    EXPECT_EQ(wide.read(name), values) << name;
  }
}

}  // namespace
}  // namespace toy
