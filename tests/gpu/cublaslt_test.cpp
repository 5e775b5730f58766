// Training's products in bf16 by cuBLASLt, with a library and a driver that have no GPU (fake/fake_cublaslt.h): their
// operands, shapes, alignments and places, and what happens where the library is missing or fails.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>

#include "backend/gpu/cuda/cublaslt.h"
#include "backend/gpu/cuda/cuda_driver.h"
#include "backend/gpu/cuda/images.h"
#include "backend/gpu/emulated/emulated_driver.h"
#include "backend/gpu/gpu_device.h"
#include "backend/gpu/launches.h"
#include "gpu/fake/fake_cublaslt.h"
#include "gpu/fake/fake_cuda.h"
#include "testing/errors.h"
#include "toy/backend/devices.h"
#include "toy/ops/attrs/structs.h"
#include "toy/ops/ops.h"
#include "toy/runtime/session.h"

namespace toy::gpu::cublaslt_test {
namespace {

using testing::error_of, testing::expect_contains;

// Loaded before the program looks for them, so that these are found.
template <class Fake>
Fake& loaded(const char* path, const char* name) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  return *static_cast<Fake*>(dlsym(library, name));
}
testing::FakeCuda& fake_cuda() {
  static auto& fake = loaded<testing::FakeCuda>(TOY_FAKE_CUDA, "toy_fake_cuda");
  return fake;
}
testing::FakeCublasLt& fake() {
  static auto& fake = loaded<testing::FakeCublasLt>(TOY_FAKE_CUBLASLT, "toy_fake_cublaslt");
  return fake;
}

class CublasLt : public ::testing::Test {
 protected:
  void SetUp() override {
    unsetenv("TOY_CUBLASLT");
    fake_cuda() = {};
    fake() = {};
    if (cuda::images().empty()) GTEST_SKIP() << "the build has no kernels for CUDA (nvcc)";
  }
  void TearDown() override {
    unsetenv("TOY_CUBLASLT");
    EXPECT_EQ(fake().made, 0);
    EXPECT_EQ(fake_cuda().allocations + fake_cuda().graphs + fake_cuda().contexts, 0);
  }
};

// All products of a linear layer, and a loss with its gradients.
struct Layer {
  Graph g;
  std::vector<Value> outputs;
  int64_t classes;
  Layer(int64_t N, int64_t I, int64_t O, bool more) : classes(O) {
    const auto leaf = [&](const char* name, Shape shape, DType type = DType::f32) {
      return g.param(name, {type, shape, 0});
    };
    const Value x = leaf("x", {N, I}), w = leaf("w", {O, I}), dy = leaf("dy", {N, O});
    const auto maybe = [&](const char* name, Shape shape) { return more ? leaf(name, shape) : Value{}; };
    outputs = {linear(x, w, maybe("bias", {O}), maybe("acc", {N, O})), linear_grad_x(dy, w, maybe("accx", {N, I})),
               linear_grad_w(dy, x, maybe("accw", {O, I}))};
    if (more) return;
    const Value loss = linear_xent(x, w, leaf("targets", {N}, DType::i32), leaf("weights", {N})).loss;
    outputs.push_back(loss);
    for (const Value& v : gradients(loss, std::vector<Value>{x, w})) outputs.push_back(v);
  }
};

std::vector<std::vector<float>> results(const Layer& layer, Device& device, DType products, int runs = 1) {
  const auto plan = std::make_shared<const Plan>(compile(layer.g, layer.outputs, {}, device, {.products = products}));
  ParamStore store(device);
  uint32_t seed = 1;
  for (const PlanLeaf& p : plan->params) {
    store.add(p.name, p.type);
    const auto n = size_t(p.type.shape.count());
    const auto next = [&] { return (seed = seed * 1664525u + 1013904223u) >> 8; };
    if (p.type.dtype == DType::i32) {
      std::vector<int32_t> ids(n);
      for (int32_t& id : ids) id = int32_t(next() % uint32_t(layer.classes));
      store.write(p.name, View(ids.data(), DType::i32, p.type.shape));
    } else {
      std::vector<float> values(n);
      for (float& v : values) v = float(next() % 2001) / 1000 - 1;
      store.write(p.name, View(values.data(), DType::f32, p.type.shape));
    }
  }
  Session session(device, plan, std::initializer_list<const ParamStore*>{&store});
  for (int i = 0; i < runs; ++i) session.run();
  std::vector<std::vector<float>> all;
  for (size_t o = 0; o < layer.outputs.size(); ++o) {
    const HostTensor out = session.output(o);
    const auto* const first = out.view().as<const float>();
    all.emplace_back(first, first + out.view().count());
  }
  return all;
}

// The library of the test adds in the order of toy's own kernels.
TEST_F(CublasLt, ComputesTrainingsProductsInBf16) {
  const auto emulated = make_emulated_device();
  for (const auto& [N, I, O] : {std::array<int64_t, 3>{1, 1, 1}, {1, 8, 16}, {3, 17, 5}, {17, 72, 3}, {70, 65, 131}})
    for (const bool more : {false, true}) {
      SCOPED_TRACE(std::to_string(N) + " " + std::to_string(I) + " " + std::to_string(O));
      const Layer layer(N, I, O, more);
      const auto device = make_cuda_device();
      fake().products = 0;
      EXPECT_EQ(results(layer, *device, DType::bf16, 4), results(layer, *emulated, DType::bf16))
          << "also as a graph, from the third run on";
      EXPECT_EQ(fake().products, 4 * (more ? 3 : 6));
      EXPECT_EQ(results(layer, *device, DType::f32), results(layer, *emulated, DType::f32));
      EXPECT_EQ(fake().products, 4 * (more ? 3 : 6)) << "f32 is left to toy's own kernels";
    }
}

// Which products a record asks for, at addresses that nothing reads.
TEST(CublasLtProducts, LossesInChunksReadPartsOfTheirOperands) {
  constexpr int64_t N = 66, D = 3, V = (1 << 18) + 5, kChunk = 64;  // rows of logits at a time
  const auto at = [](uintptr_t number) { return reinterpret_cast<void*>(number << 40); };
  const std::vector<View> in = {{at(1), DType::bf16, {N, D}},
                                {at(2), DType::bf16, {V, D}},
                                {at(3), DType::i32, {N}},
                                {at(4), DType::f32, {N}}},
                          out = {{at(5), DType::f32, {}},
                                 {at(6), DType::f32, {N}},
                                 {at(7), DType::f32, {N, D}},
                                 {at(8), DType::f32, {V, D}}};
  const Attrs attrs = LinearXentAttrs{};
  const auto driver = make_emulated_driver();
  Launches to(*driver, nullptr);
  for (const KernelRecord& r : records(true))
    if (r.op == "linear_xent") {
      KernelCall call{&r, &attrs, in, out};
      call.workspace = at(9);
      r.code.as<Code>()(to, call);
      break;
    }
  std::vector<LibraryProduct> products;
  for (const Launch& l : to.list())
    if (l.product) products.push_back(*l.product);
  ASSERT_EQ(products.size(), 6u);
  const LibraryProduct &logits = products[0], &dx = products[1], &dw = products[2];
  for (const LibraryProduct* p : {&logits, &dx}) EXPECT_EQ(p->b, at(2)) << "the weight";
  for (const void* rows : {logits.a, dw.b}) EXPECT_EQ(rows, at(1));
  EXPECT_EQ(dx.a, dw.a) << "gradients of logits in bf16";
  const auto after = [](const void* p, int64_t bytes) {
    return static_cast<const void*>(static_cast<const char*>(p) + bytes);
  };
  EXPECT_EQ(products[3].a, after(logits.a, kChunk * D * 2));
  EXPECT_EQ(products[3].c, logits.c);
  EXPECT_EQ(products[3].M, N - kChunk);
  EXPECT_EQ(products[4].c, after(dx.c, kChunk * D * 4));
  EXPECT_EQ(products[4].a, dx.a);
  EXPECT_EQ(products[5].b, products[3].a);
  EXPECT_EQ(products[5].K, N - kChunk);
  EXPECT_EQ(dw.acc, nullptr);
  EXPECT_EQ(products[5].acc, at(8)) << "added to those of the rows before";
}

TEST_F(CublasLt, DecidesTheBitsOfBf16) {
  const auto device = make_cuda_device();
  EXPECT_EQ(device->arithmetic(DType::f32), "sm_90");
  EXPECT_EQ(device->arithmetic(DType::bf16), "sm_90, cuBLASLt 13.1.0, 0 SMs");
  EXPECT_EQ(title_of(*device), "Fake GPU (sm_90), driver for CUDA 13.0, cuBLASLt 13.1.0, 0 SMs");
}

TEST_F(CublasLt, CanBeTurnedOff) {
  setenv("TOY_CUBLASLT", "off", 1);
  const auto device = make_cuda_device(), emulated = make_emulated_device();
  EXPECT_EQ(device->arithmetic(DType::bf16), "sm_90");
  const Layer layer(3, 17, 5, false);
  EXPECT_EQ(results(layer, *device, DType::bf16), results(layer, *emulated, DType::bf16));
  EXPECT_EQ(fake().products, 0);
}

TEST_F(CublasLt, IsToldItsMemoryByThePlan) {
  const auto device = make_cuda_device();
  const Layer layer(64, 64, 64, true);
  const auto bytes = [&](DType products) {
    return compile(layer.g, layer.outputs, {}, *device, {.products = products}).arena_bytes;
  };
  EXPECT_GE(bytes(DType::bf16), bytes(DType::f32) + kLibraryWorkspace);
}

TEST_F(CublasLt, FailuresSayWhatToDo) {
  for (const char* function :
       {"cublasLtCreate", "cublasLtMatmulDescCreate", "cublasLtMatmulAlgoGetHeuristic", "cublasLtMatmul", "nothing"}) {
    fake().failing = function;
    const Layer layer(3, 16, 8, true);
    const auto device = make_cuda_device();
    expect_contains(error_of([&] { results(layer, *device, DType::bf16); }), "device 'cuda': cuBLASLt: ");
    expect_contains(error_of([&] { results(layer, *device, DType::bf16); }), "TOY_CUBLASLT=off");
  }
}

}  // namespace
}  // namespace toy::gpu::cublaslt_test
