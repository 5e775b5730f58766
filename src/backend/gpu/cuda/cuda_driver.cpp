#include "backend/gpu/cuda/cuda_driver.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>

#include "backend/gpu/cuda/cublaslt.h"
#include "backend/gpu/cuda/functions.h"
#include "backend/gpu/cuda/images.h"
#include "backend/gpu/cuda/nccl.h"
#include "backend/gpu/cuda/staging.h"
#include "backend/gpu/gpu_device.h"
#include "toy/backend/devices.h"
#include "toy/base/error.h"
#include "toy/base/memory.h"

namespace toy::gpu {
namespace cuda {
namespace {

constexpr int kOldestMajor = 8;  // Ampere: the oldest that cmake/ToyKernels.cmake builds code for

std::string version_text(int v) { return fmt::format("{}.{}", v / 1000, v % 1000 / 10); }

// The library is there, and new enough for the code in this program.
const Functions& usable_functions() {
  check(!images().empty(),
        "device 'cuda': this build has no kernels for CUDA, as nvcc was not found when it was built; install CUDA's "
        "compiler and build again with -DTOY_CUDA=on (toy help gpu-drivers.md)");
  const Functions& f = functions();
  check(
      f.missing.empty(),
      "device 'cuda' needs NVIDIA's driver, which is not here ({}); leave out --device to use the CPU, or install the "
      "driver; on Debian: apt-get install nvidia-driver (section non-free)",
      f.missing);
  int version = 0;
  check_result(f.cuDriverGetVersion(&version), "the driver's version");
  // A driver runs code of every toolkit of its own major version, and of older ones.
  check(version / 1000 >= built_with() / 1000,
        "device 'cuda': NVIDIA's driver is too old: it runs CUDA {}, and the kernels of this build need CUDA {}.0; "
        "install a newer driver",
        version_text(version), built_with() / 1000);
  if (const Result r = f.cuInit(0); r == kNoDevice)
    fail("device 'cuda': NVIDIA's driver finds no GPU; see what nvidia-smi lists, and CUDA_VISIBLE_DEVICES");
  else
    check_result(r, "the driver does not start");
  return f;
}

// They tell the time on the GPU.
class Events {
 public:
  explicit Events(size_t count) : all_(count, nullptr) {
    for (Event& e : all_) check_result(functions().cuEventCreate(&e, 0), "an event");
  }
  ~Events() {
    for (Event e : all_)
      if (e) functions().cuEventDestroy_v2(e);
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;
  Event operator[](size_t i) const { return all_[i]; }

 private:
  std::vector<Event> all_;
};

class GraphRecording final : public Driver::Recording {
 public:
  explicit GraphRecording(Graph graph) {
    check_result(functions().cuGraphInstantiateWithFlags(&exec_, graph, 0), "a graph of launches");
  }
  ~GraphRecording() override {
    if (exec_) functions().cuGraphExecDestroy(exec_);
  }
  GraphExec exec() const { return exec_; }

 private:
  GraphExec exec_ = nullptr;
};

class CudaDriver final : public Driver {
 public:
  CudaDriver() : f_(usable_functions()) {
    check_result(f_.cuDeviceGet(&device_, 0), "the first GPU");
    char text[128] = "";
    check_result(f_.cuDeviceGetName(text, sizeof text, device_), "the GPU's name");
    title_ = text;
    const int major = attribute(kMajor), minor = attribute(kMinor);
    architecture_ = fmt::format("sm_{}{}", major, minor);
    check(major >= kOldestMajor, "device 'cuda': the GPU '{}' is {}; toy needs sm_80 (Ampere) or newer", title_,
          architecture_);
    check_result(f_.cuDevicePrimaryCtxRetain(&context_, device_), "the GPU cannot be used");
    try {
      enter();
      check_result(f_.cuStreamCreate(&stream_, kNonBlockingStream), "a stream");
      staging_.emplace(stream_);
    } catch (...) {
      leave();
      throw;
    }
  }
  ~CudaDriver() override { leave(); }

  std::string_view name() const override { return "cuda"; }
  std::string title() const override {
    int version = 0;
    check_result(f_.cuDriverGetVersion(&version), "the driver's version");
    const std::string with = library();
    return fmt::format("{} ({}), driver for CUDA {}{}", title_, architecture_, version_text(version),
                       with.empty() ? "" : ", " + with);
  }
  std::string arithmetic() const override { return architecture_; }
  bool takes_library() const override { return cublaslt_is_wanted(); }
  std::string library() const override {
    return cublaslt_is_there() ? make_multiplier(attribute(kMultiprocessors))->title() : "";
  }
  Device::Memory memory() const override {
    enter();
    Device::Memory m;
    check_result(f_.cuMemGetInfo_v2(&m.free, &m.total), "the GPU's memory");
    return m;
  }
  size_t alignment() const override { return 256; }

  void* allocate(size_t bytes) override {
    enter();
    Address at = 0;
    const Result r = f_.cuMemAlloc_v2(&at, bytes);
    if (r == kOutOfMemory) {
      const Device::Memory m = memory();
      fail_internal("device 'cuda': no memory for {}; {} of {} are free on '{}'", format_bytes(bytes),
                    format_bytes(m.free), format_bytes(m.total), title_);
    }
    check_result(r, "memory of the GPU");
    void* const memory = reinterpret_cast<void*>(at);
    fill(memory, std::byte(0), bytes);
    return memory;
  }
  void release(void* memory) noexcept override {
    f_.cuCtxSetCurrent(context_);
    f_.cuStreamSynchronize(stream_);
    f_.cuMemFree_v2(address(memory));
  }
  void upload(void* to, const void* from, size_t bytes) override {
    enter();
    staging_->upload(address(to), from, bytes);
  }
  void download(void* to, const void* from, size_t bytes) override {
    enter();
    staging_->download(to, address(from), bytes);
  }
  void copy(void* to, const void* from, size_t bytes) override {
    enter();
    check_result(f_.cuMemcpyDtoDAsync_v2(address(to), address(from), bytes, stream_), "copy");
  }
  void fill(void* to, std::byte value, size_t bytes) override {
    enter();
    check_result(f_.cuMemsetD8Async(address(to), static_cast<unsigned char>(value), bytes, stream_), "fill");
  }
  void launch(const Launch& launch) override {
    enter();
    queue(launch);
  }
  void synchronize() override {
    enter();
    check_result(f_.cuStreamSynchronize(stream_), "a kernel failed");
  }

  void run_timed(std::span<const Launch> launches, std::span<const size_t> ends, std::span<double> seconds) override {
    enter();
    load(launches);  // which is no part of a kernel's time
    const Events events(ends.size() + 1);
    check_result(f_.cuEventRecord(events[0], stream_), "an event");
    for (size_t c = 0, i = 0; c < ends.size(); ++c) {
      for (; i < ends[c]; ++i) queue(launches[i]);
      check_result(f_.cuEventRecord(events[c + 1], stream_), "an event");
    }
    synchronize();
    for (size_t c = 0; c < ends.size(); ++c) {
      float ms = 0;
      check_result(f_.cuEventElapsedTime(&ms, events[c], events[c + 1]), "an event");
      seconds[c] += double(ms) / 1000;
    }
  }

  std::unique_ptr<Recording> record(std::span<const Launch> launches) override {
    enter();
    load(launches);  // nothing is loaded while the stream is captured
    check_result(f_.cuStreamBeginCapture_v2(stream_, kRelaxedCapture), "a graph of launches");
    Graph graph = nullptr;
    try {
      for (const Launch& l : launches) queue(l);
    } catch (...) {
      f_.cuStreamEndCapture(stream_, &graph);
      if (graph) f_.cuGraphDestroy(graph);
      throw;
    }
    check_result(f_.cuStreamEndCapture(stream_, &graph), "a graph of launches");
    const std::unique_ptr<GraphOfDriver, Result (*)(Graph)> owner(graph, f_.cuGraphDestroy);
    return std::make_unique<GraphRecording>(graph);
  }
  void replay(Recording& recording) override {
    enter();
    check_result(f_.cuGraphLaunch(dynamic_cast<GraphRecording&>(recording).exec(), stream_), "a graph of launches");
  }

  bool connects() const override { return nccl_is_wanted(); }
  std::unique_ptr<Communicator> connect(Communicator& ranks, double seconds) override {
    return make_nccl_communicator(ranks, {stream_, [this] { enter(); }, [this] { return idle(); }}, seconds);
  }

 private:
  static Address address(const void* memory) { return reinterpret_cast<uintptr_t>(memory); }
  // The context belongs to a thread, and another one may call next.
  void enter() const { check_result(f_.cuCtxSetCurrent(context_), "the GPU cannot be used"); }
  bool idle() const {
    const Result r = f_.cuStreamQuery(stream_);
    if (r != kNotReady) check_result(r, "a kernel failed");
    return r == kOk;
  }
  int attribute(int which) const {
    int value = 0;
    check_result(f_.cuDeviceGetAttribute(&value, which, device_), "an attribute of the GPU");
    return value;
  }

  // A file's code is loaded by the first launch of one of its kernels.
  Function function_of(Kernel kernel) {
    Function& function = functions_[size_t(kernel)];
    if (function) return function;
    const KernelInfo& info = info_of(kernel);
    Module& module = modules_[info.file];
    if (!module) {
      for (const Image& i : images())
        if (i.file == info.file)
          check_result(f_.cuModuleLoadData(&module, i.data), fmt::format("code of '{}' for {}", i.file, architecture_));
      if (!module) fail_internal("device 'cuda': the program has no code of '{}'", info.file);
    }
    check_result(f_.cuModuleGetFunction(&function, module, std::string(info.name).c_str()), info.name);
    return function;
  }

  Multiplier& multiplier() {
    if (!multiplier_) multiplier_ = make_multiplier(attribute(kMultiprocessors));
    return *multiplier_;
  }
  void load(std::span<const Launch> launches) {
    for (const Launch& l : launches)
      if (l.product)
        multiplier().plan(*l.product);
      else
        function_of(l.kernel);
  }

  void queue(const Launch& l) {
    if (l.product) return multiplier().queue(*l.product, stream_);
    arguments_.clear();
    for (const Arg& a : l.args) arguments_.push_back(const_cast<void*>(a.value()));
    check_result(
        f_.cuLaunchKernel(function_of(l.kernel), unsigned(l.groups.x), unsigned(l.groups.y), unsigned(l.groups.z),
                          unsigned(info_of(l.kernel).items), 1, 1, 0, stream_, arguments_.data(), nullptr),
        info_of(l.kernel).name);
  }

  void leave() noexcept {
    Result worst = f_.cuCtxSetCurrent(context_);
    // A GPU that has failed, or is gone, answers everything with its first error, which has been said.
    const bool has_failed = stream_ && f_.cuStreamSynchronize(stream_) != kOk;
    staging_.reset();
    multiplier_.reset();
    for (const auto& [file, module] : modules_)
      if (module) worst = std::max(worst, f_.cuModuleUnload(module));
    if (stream_) worst = std::max(worst, f_.cuStreamDestroy_v2(stream_));
    worst = std::max(worst, f_.cuDevicePrimaryCtxRelease_v2(device_));
    if (worst != kOk && !has_failed)
      std::fprintf(stderr, "toy: device 'cuda' was not released as it should be (error %d)\n", worst);
  }

  const Functions& f_;
  DeviceId device_ = 0;
  Context context_ = nullptr;
  Stream stream_ = nullptr;
  std::optional<Staging> staging_;
  std::unique_ptr<Multiplier> multiplier_;
  std::string title_, architecture_;
  std::map<std::string_view, Module> modules_;
  std::vector<Function> functions_ = std::vector<Function>(kernel_list().size());
  std::vector<void*> arguments_;
};

}  // namespace
}  // namespace cuda

std::unique_ptr<Driver> make_cuda_driver() { return std::make_unique<cuda::CudaDriver>(); }

}  // namespace toy::gpu

namespace toy {

std::unique_ptr<Device> make_cuda_device() { return gpu::make_gpu_device(gpu::make_cuda_driver()); }

}  // namespace toy
