// The device of an OpenCL driver. In CI that is PoCL, on the CPU.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>

#include "backend/gpu/emulated/emulated_driver.h"
#include "backend/gpu/gpu_device.h"
#include "backend/gpu/launches.h"
#include "backend/gpu/opencl/addresses.h"
#include "backend/gpu/opencl/choice.h"
#include "backend/gpu/opencl/opencl_driver.h"
#include "backend/gpu/opencl/program_cache.h"
#include "backend/gpu/sources.h"
#include "testing/errors.h"
#include "testing/files.h"
#include "testing/sanitizers.h"
#include "toy/backend/devices.h"
#include "toy/ops/ops.h"
#include "toy/runtime/evaluate.h"

namespace toy::gpu::opencl_test {
namespace {

using testing::error_of, testing::expect_contains;

// The driver, or nullptr where there is none; `why` then says what is missing.
std::unique_ptr<Driver> driver_or(std::string& why) {
  if (testing::kAddressSanitizer || testing::kThreadSanitizer) {
    why = "drivers leak and race by themselves";
    return nullptr;
  }
  try {
    return make_opencl_driver();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::bad_input);
    why = e.what();
    return nullptr;
  }
}
#define TOY_NEEDS_OPENCL(driver)          \
  std::string why_not;                    \
  const auto driver = driver_or(why_not); \
  if (!driver) GTEST_SKIP() << why_not

// A variable of the environment, until the end of the scope.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before, had_ = true;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { had_ ? setenv(name_, before_.c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::string before_;
  bool had_ = false;
};

std::vector<float> many(size_t n) {
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) x[i] = float(i % 977) * 0.37f - 150.0f;
  return x;
}

TEST(OpenCl, KernelsTakeBuffersWithOffsets) {
  using opencl::with_offsets;
  EXPECT_EQ(
      with_offsets("KERNEL(f, 64)(GLOBAL const float* x, GLOBAL float *y, int n) {\n}\n"),
      "KERNEL(f, 64)(GLOBAL const float* x_buffer, GLOBAL float *y_buffer, int n, ulong x_offset, ulong y_offset) { "
      "GLOBAL const float* x = (GLOBAL const float* )((GLOBAL const char*)x_buffer + x_offset); "
      "GLOBAL float *y = (GLOBAL float *)((GLOBAL char*)y_buffer + y_offset);\n}\n");
  EXPECT_EQ(with_offsets("#define FAULT_PARAMETERS GLOBAL int *fault, int call\n"
                         "KERNEL(f, 32)(FAULT_PARAMETERS, float e)\n{}"),
            "#define FAULT_PARAMETERS GLOBAL int *fault, int call\n"
            "KERNEL(f, 32)(GLOBAL int *fault_buffer, int call, float e, ulong fault_offset)\n"
            "{ GLOBAL int *fault = (GLOBAL int *)((GLOBAL char*)fault_buffer + fault_offset);}");
  for (const char* unchanged :
       {"#define KERNEL(name, items) __kernel void name\n", "// KERNEL(f, 64)(GLOBAL float* x)  words"})
    EXPECT_EQ(with_offsets(unchanged), unchanged);
}

TEST(OpenCl, Memory) {
  TOY_NEEDS_OPENCL(driver);
  const auto x = many(10000);
  auto* const a = static_cast<char*>(driver->allocate(x.size() * 4));
  auto* const b = static_cast<char*>(driver->allocate(1003));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % driver->alignment(), 0u);
  std::vector<float> y(x.size(), 7);
  driver->download(y.data(), a, y.size() * 4);
  EXPECT_EQ(y, std::vector<float>(x.size(), 0.0f)) << "memory is zeroed";
  driver->upload(a, x.data(), x.size() * 4);
  driver->copy(b + 3, a + 400, 1000);
  driver->fill(b + 3, std::byte(0xFF), 5);
  std::vector<char> z(1003);
  driver->download(z.data(), b, z.size());
  EXPECT_EQ(std::memcmp(z.data() + 8, reinterpret_cast<const char*>(x.data()) + 405, 995), 0);
  EXPECT_EQ(std::string(z.data(), 8), std::string(3, '\0') + std::string(5, '\xFF'));
  const size_t free = driver->memory().free;
  driver->release(b);
  EXPECT_GT(driver->memory().free, free);
  driver->release(a);
  const std::string what = error_of([&] { driver->allocate(size_t(1) << 60); });
  expect_contains(what, "device 'opencl': no memory for 1073741824.00 GiB; ");
}

// Many devices have no f64. kernels_compile_test.sh compiles the same without it, where there is a clang.
TEST(OpenCl, NoKernelUsesF64) {
  const std::regex comment("//[^\n]*"), f64("\\bdouble\\b|[0-9]\\.[0-9]*(e[-+]?[0-9]+)?[^0-9ef]");
  for (const Source& s : sources()) {
    const std::string text = std::regex_replace(std::string(s.text), comment, "");
    std::smatch found;
    EXPECT_FALSE(std::regex_search(text, found, f64)) << s.name << ": " << found.str();
  }
  for (const char* bad : {"GLOBAL double* x", "x * 0.5;", "x * 1.5e-3)"})
    EXPECT_TRUE(std::regex_search(bad, f64)) << bad;
}

TEST(OpenCl, OldDevicesAreRefused) {
  for (const char* good : {"OpenCL 1.2 CUDA", "OpenCL 3.0 pocl 3.1+debian", "OpenCL 2.0 "})
    opencl::require_version(good, "some GPU");
  for (const char* bad : {"OpenCL 1.1 old", "OpenCL 1.0 ", "something else", ""})
    EXPECT_NE(error_of([&] { opencl::require_version(bad, "some GPU"); }).find("need OpenCL 1.2"), std::string::npos);
}

// By the device's clock, each launch where it belongs.
TEST(OpenCl, TimesLaunches) {
  TOY_NEEDS_OPENCL(driver);
  constexpr int64_t kMany = int64_t(1) << 22, kFew = 1024;
  void* const memory = driver->allocate(kMany * sizeof(float));
  const auto fill = [&](int64_t n) {
    return Launch{Kernel::fill, {blocks(n, ELEMENTS_OF_A_GROUP)}, {memory, n, uint32_t(7)}};
  };
  const std::vector<Launch> launches{fill(kFew), fill(kMany), fill(kMany), fill(kFew)};
  const std::vector<size_t> ends{1, 3, 3, 4};
  std::vector<double> seconds(4);
  driver->run_timed(launches, ends, seconds);  // also compiles
  driver->run_timed(launches, ends, seconds);
  EXPECT_GT(seconds[0], 0);
  EXPECT_GT(seconds[1], seconds[0]);
  EXPECT_EQ(seconds[2], 0);
  uint32_t last = 0;
  driver->download(&last, static_cast<char*>(memory) + (kMany - 1) * sizeof(float), sizeof last);
  EXPECT_EQ(last, 7u);
  driver->release(memory);
}

TEST(OpenCl, ChoosesByName) {
  TOY_NEEDS_OPENCL(driver);
  const Variable wanted("TOY_OPENCL_DEVICE", "no such device");
  const std::string what = error_of([] { make_opencl_driver(); });
  expect_contains(what,
                  "TOY_OPENCL_DEVICE is 'no such device', and no OpenCL device has that in its name; there are '");
}

TEST(OpenCl, CompilesOnceAndKeepsIt) {
  TOY_NEEDS_OPENCL(driver);
  const testing::Folder folder;
  const Variable cache("XDG_CACHE_HOME", folder.path());
  Graph g;
  const Value y = rms_norm(g.constant(f32({2, 300}), std::vector<double>(600, 3.0)),
                           g.constant(f32({300}), std::vector<double>(300, 1.0)), 0);
  const auto compute = [&] {
    const auto device = make_gpu_device(make_opencl_driver(true));
    EXPECT_EQ(evaluate(y, {.device = device.get()}).values, std::vector<double>(600, 1.0));
  };
  const auto only_file = [&] { return std::filesystem::directory_iterator(folder.path("toy/opencl"))->path(); };
  compute();
  const auto made = std::filesystem::last_write_time(only_file());
  compute();
  EXPECT_EQ(std::filesystem::last_write_time(only_file()), made) << "the second device reads it";
  std::fstream(only_file(), std::ios::in | std::ios::out | std::ios::binary).seekp(100).write("damaged", 7);
  compute();
  EXPECT_NE(std::filesystem::last_write_time(only_file()), made) << "a damaged file is written again";
}

TEST(OpenCl, ProgramsThatAreKept) {
  const testing::Folder folder;
  const Variable cache("XDG_CACHE_HOME", folder.path());
  const std::vector<unsigned char> binary{1, 2, 0, 255};
  EXPECT_TRUE(opencl::load_program("key").empty());
  ASSERT_TRUE(opencl::can_store_programs());
  opencl::store_program("key", binary);
  EXPECT_EQ(opencl::load_program("key"), binary);
  EXPECT_TRUE(opencl::load_program("another").empty());
  const auto file = std::filesystem::directory_iterator(folder.path("toy/opencl"))->path();
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  EXPECT_TRUE(opencl::load_program("key").empty()) << "cut short";
  std::filesystem::resize_file(file, 5);
  EXPECT_TRUE(opencl::load_program("key").empty());
  const Variable none("XDG_CACHE_HOME", "/dev/null");
  EXPECT_FALSE(opencl::can_store_programs());
  EXPECT_TRUE(opencl::load_program("key").empty());
}

}  // namespace
}  // namespace toy::gpu::opencl_test
