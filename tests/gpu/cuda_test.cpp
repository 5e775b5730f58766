// The device of CUDA's driver, with a driver that has no GPU (fake/fake_cuda.h): all but the kernels' speed.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "backend/gpu/cuda/cuda_driver.h"
#include "backend/gpu/cuda/images.h"
#include "backend/gpu/gpu_device.h"
#include "backend/gpu/launches.h"
#include "gpu/fake/fake_cuda.h"
#include "testing/errors.h"
#include "toy/backend/devices.h"
#include "toy/ops/ops.h"
#include "toy/runtime/evaluate.h"
#include "toy/runtime/session.h"

namespace toy::gpu::cuda_test {
namespace {

using testing::error_of, testing::expect_contains, testing::message_of;

// Loaded before the driver is looked for, so that this one is found.
testing::FakeCuda& fake() {
  static auto* const fake = [] {
    void* const library = dlopen(TOY_FAKE_CUDA, RTLD_NOW | RTLD_GLOBAL);
    return library ? static_cast<testing::FakeCuda*>(dlsym(library, "toy_fake_cuda")) : nullptr;
  }();
  return *fake;
}

class Cuda : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("TOY_CUBLASLT", "off", 1);  // cublaslt_test.cpp has tests of its own
    fake() = {};
    if (cuda::images().empty()) GTEST_SKIP() << "the build has no kernels for CUDA (nvcc)";
  }
  void TearDown() override {
    fake().failing = nullptr;
    expect_nothing_left();
  }
  static void expect_nothing_left() {
    const testing::FakeCuda& f = fake();
    EXPECT_EQ(f.allocations + f.pinned + f.streams + f.events + f.modules + f.graphs + f.contexts, 0)
        << f.allocations << " " << f.pinned << " " << f.streams << " " << f.events << " " << f.modules << " "
        << f.graphs << " " << f.contexts;
  }
};

std::vector<uint32_t> many(size_t n, uint32_t seed) {
  std::vector<uint32_t> x(n);
  for (size_t i = 0; i < n; ++i) x[i] = uint32_t(i) * 2654435761u + seed;
  return x;
}

TEST_F(Cuda, UploadsTravelThroughPageLockedMemory) {
  const auto driver = make_cuda_driver();
  EXPECT_EQ(driver->title(), "Fake GPU (sm_90), driver for CUDA 13.0");
  EXPECT_EQ(driver->arithmetic(), "sm_90");
  const size_t n = (size_t(45) << 20) / 4;  // through both halves, and again
  auto* const a = static_cast<char*>(driver->allocate(n * 4));
  auto* const b = static_cast<char*>(driver->allocate(n * 4));
  std::vector<uint32_t> x = many(n, 1), y(n, 7);
  driver->download(y.data(), a, n * 4);
  EXPECT_EQ(y, std::vector<uint32_t>(n, 0)) << "memory is zeroed";
  driver->upload(a, x.data(), n * 4);
  const std::vector<uint32_t> small = many(9, 2);
  for (size_t i = 0; i < 9; ++i) driver->upload(a + 4096 * i, &small[i], 4);
  driver->copy(b, a, n * 4);
  driver->fill(b + 8, std::byte(0x11), 4);
  std::vector<uint32_t> expected = x;
  for (size_t i = 0; i < 9; ++i) expected[1024 * i] = small[i];
  expected[2] = 0x11111111;
  std::fill(x.begin(), x.end(), 0u);  // the host's bytes were taken
  driver->download(y.data(), b, n * 4);
  EXPECT_TRUE(y == expected);
  const Device::Memory memory = driver->memory();
  EXPECT_EQ(memory.total, size_t(1) << 30);
  EXPECT_EQ(memory.free, memory.total - 2 * n * 4);
  driver->release(a), driver->release(b);
}

struct Rms {
  Graph g;
  Value x = g.constant(f32({2, 300}), std::vector<double>(600, 3.0)),
        w = g.constant(f32({300}), std::vector<double>(300, 1.0));
  Value y = rms_norm(x, w, 0);
};

TEST_F(Cuda, ComputesAndReleasesEverything) {
  const Rms graph;
  EXPECT_EQ(evaluate(graph.y, {.device = make_cuda_device().get()}).values, std::vector<double>(600, 1.0));
  EXPECT_EQ(fake().launched, 1);
}

TEST_F(Cuda, GraphsRepeatLaunches) {
  const auto driver = make_cuda_driver();
  const size_t bytes = 300 * 4;
  auto *const x = driver->allocate(bytes), *const w = driver->allocate(bytes), *const y = driver->allocate(bytes);
  const std::vector<float> ones(300, 1.0f), threes(300, 3.0f);
  driver->upload(w, ones.data(), bytes);
  const Launch launch{Kernel::rms_norm, {1, 1, 1}, {x, w, y, int(WEIGHT_F32), 300, 0.0f}};
  std::vector<float> result(300);
  {
    const auto recording = driver->record(std::span(&launch, 1));
    EXPECT_EQ(fake().launched, 0) << "recording does not run it";
    for (int run = 0; run < 3; ++run) {
      driver->upload(x, threes.data(), bytes);
      driver->replay(*recording);
      driver->fill(x, std::byte(0), bytes);
    }
    driver->download(result.data(), y, bytes);
    EXPECT_EQ(result, ones);
    EXPECT_EQ(fake().replayed, 3);
  }
  fake().failing = "cuLaunchKernel", fake().result = 701;
  expect_contains(error_of([&] { driver->record(std::span(&launch, 1)); }), "rms_norm: what a test wants");
  fake().failing = nullptr;
  // Timed: one call of two launches, one of none.
  const std::vector<Launch> launches(2, launch);
  const size_t ends[] = {2, 2};
  double seconds[] = {1, 1};
  driver->run_timed(launches, ends, seconds);
  EXPECT_GT(seconds[0], seconds[1]);
  EXPECT_GE(seconds[1], 1);
  for (void* p : {x, w, y}) driver->release(p);
}

// Tables of tensors are written before the first run and stay for graphs.
TEST_F(Cuda, TablesOfTensorsInGraphs) {
  Graph g;
  std::vector<Value> gradients, updates;
  const auto param = [&](const char* name, int i) { return g.param(name + std::to_string(i), f32({50 * i + 1})); };
  for (int i = 0; i < 10; ++i) gradients.push_back(param("g", i));
  const Value norm = global_norm(gradients), scale = clip_scale(norm, g.scalar(0.5)), one = g.scalar(0.25);
  for (int i = 0; i < 10; ++i) {
    const AdamWState next = adamw({param("w", i), param("m", i), param("v", i)}, gradients[size_t(i)], one, one, one,
                                  scale, {.weight_decay = 0.1});
    for (const Value& v : {next.w, next.m, next.v}) updates.push_back(v);
  }
  constexpr int kRuns = 5, kSingle = 2;  // a graph from the third run on
  const auto weights = [&](Device& device) {
    const auto plan = std::make_shared<const Plan>(compile(g, std::vector{norm}, updates, device));
    ParamStore store(device);
    for (const PlanLeaf& p : plan->params) {
      store.add(p.name, p.type);
      std::vector<float> x(size_t(p.type.shape.count()));
      for (size_t i = 0; i < x.size(); ++i) x[i] = float(i % 13) / 8;
      store.write(p.name, x);
    }
    Session session(device, plan, {&store});
    for (int run = 0; run < kRuns; ++run) session.run();
    std::vector<std::vector<float>> all;
    for (const PlanLeaf& p : plan->params) all.push_back(store.read(p.name));
    return all;
  };
  EXPECT_EQ(weights(*make_cuda_device()), weights(*make_emulated_device()));
  constexpr int kLaunches = 4;  // sums of squares, the norm, the scale, all tensors
  EXPECT_EQ(fake().launched, kSingle * kLaunches);
  EXPECT_EQ(fake().replayed, (kRuns - kSingle) * kLaunches);
}

TEST_F(Cuda, SaysWhatIsMissing) {
  fake().version = 12040;
  EXPECT_EQ(message_of(make_cuda_driver),
            "device 'cuda': NVIDIA's driver is too old: it runs CUDA 12.4, and the kernels of this build need CUDA " +
                std::to_string(cuda::built_with() / 1000) + ".0; install a newer driver");
  fake() = {.devices = 0};
  expect_contains(message_of(make_cuda_driver), "device 'cuda': NVIDIA's driver finds no GPU");
  fake() = {.major = 7, .minor = 5};
  EXPECT_EQ(message_of(make_cuda_driver),
            "device 'cuda': the GPU 'Fake GPU' is sm_75; toy needs sm_80 (Ampere) or newer");
}

TEST_F(Cuda, FailuresReleaseWhatWasMade) {
  for (const char* function : {"cuInit", "cuDevicePrimaryCtxRetain", "cuStreamCreate", "cuMemAlloc_v2"}) {
    fake() = {.failing = function, .result = 999};
    expect_contains(error_of([] { make_cuda_device(); }), "what a test wants (CUDA_ERROR_OF_A_TEST, error 999)");
    expect_nothing_left();
  }
  for (const char* function :
       {"cuMemHostAlloc", "cuEventCreate", "cuModuleLoadData", "cuLaunchKernel", "cuStreamSynchronize"}) {
    fake() = {.failing = function, .result = 719};
    const Rms graph;
    ::testing::internal::CaptureStderr();
    expect_contains(error_of([&] { evaluate(graph.y, {.device = make_cuda_device().get()}); }), "error 719");
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");  // one message: a GPU that is lost answers all calls so
    expect_nothing_left();
  }
}

TEST_F(Cuda, NoMemorySaysHowMuchThereIs) {
  const auto driver = make_cuda_driver();
  void* const half = driver->allocate(size_t(512) << 20);
  EXPECT_EQ(error_of([&] { driver->allocate(size_t(768) << 20); }),
            "device 'cuda': no memory for 768.0 MiB; 512.0 MiB of 1.00 GiB are free on 'Fake GPU'");
  driver->release(half);
}

}  // namespace
}  // namespace toy::gpu::cuda_test
