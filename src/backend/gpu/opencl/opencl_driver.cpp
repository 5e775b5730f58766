#include "backend/gpu/opencl/opencl_driver.h"

#include <algorithm>
#include <map>
#include <memory>

#include "backend/gpu/gpu_device.h"
#include "backend/gpu/opencl/addresses.h"
#include "backend/gpu/opencl/choice.h"
#include "backend/gpu/opencl/program_cache.h"
#include "backend/gpu/sources.h"
#include "toy/backend/devices.h"
#include "toy/base/error.h"
#include "toy/base/memory.h"

namespace toy::gpu {
namespace opencl {
namespace {

// The sizes of a launch.
struct Items {
  explicit Items(const Launch& l)
      : group{size_t(info_of(l.kernel).items), 1, 1},
        all{group[0] * size_t(l.groups.x), size_t(l.groups.y), size_t(l.groups.z)} {}
  size_t group[3], all[3];
};

// Kernels that have their arguments already: to queue one is one call.
class Prepared final : public Driver::Recording {
 public:
  ~Prepared() override {
    for (const auto& [kernel, items] : kernels_) functions().clReleaseKernel(kernel);
  }
  void add(KernelHandle kernel, const Items& items) { kernels_.emplace_back(kernel, items); }
  const std::vector<std::pair<KernelHandle, Items>>& kernels() const { return kernels_; }

 private:
  std::vector<std::pair<KernelHandle, Items>> kernels_;
};

// A queue that keeps times, which may make it slower than one that does not.
struct TimedQueue {
  TimedQueue(Context context, DeviceId device) {
    Status status = kOk;
    queue = functions().clCreateCommandQueue(context, device, kProfiling, &status);
    check_status(status, "a queue that keeps times");
  }
  ~TimedQueue() {
    for (Event e : events)
      if (e) functions().clReleaseEvent(e);
    functions().clReleaseCommandQueue(queue);
  }
  TimedQueue(const TimedQueue&) = delete;
  TimedQueue& operator=(const TimedQueue&) = delete;
  Queue queue = nullptr;
  std::vector<Event> events;  // of launches, in their order
};

class OpenClDriver final : public Driver {
 public:
  explicit OpenClDriver(bool always_keep)
      : choice_(choose_device()),
        keeps_(always_keep || choice_.platform_name != kPocl),
        alignment_(std::max<size_t>(64, value_of<uint32_t>(choice_.device, kAddressAlignBits) / 8)),
        addresses_(alignment_) {
    require_abilities();
    Status status = kOk;
    context_ = f_.clCreateContext(nullptr, 1, &choice_.device, nullptr, nullptr, &status);
    check_status(status, "the device cannot be used");
    queue_ = f_.clCreateCommandQueue(context_, choice_.device, 0, &status);
    if (status != kOk) f_.clReleaseContext(context_);
    check_status(status, "a queue");
  }
  ~OpenClDriver() override {
    f_.clFinish(queue_);
    for (const auto kernel : kernels_)
      if (kernel) f_.clReleaseKernel(kernel);
    for (const auto& [file, program] : programs_)
      if (program) f_.clReleaseProgram(program);
    f_.clReleaseCommandQueue(queue_);
    f_.clReleaseContext(context_);
  }

  std::string_view name() const override { return "opencl"; }
  std::string title() const override {
    return fmt::format("{} of {}, driver {}", choice_.name, choice_.platform_name,
                       text_of(choice_.device, kDriverVersion));
  }
  std::string arithmetic() const override {
    return fmt::format("{}, driver {}", choice_.name, text_of(choice_.device, kDriverVersion));
  }
  Device::Memory memory() const override {
    const auto total = size_t(value_of<uint64_t>(choice_.device, kMemoryBytes));
    return {total, total - std::min(total, addresses_.bytes())};  // OpenCL does not tell what other programs hold
  }
  size_t alignment() const override { return alignment_; }
  bool reaches(const void* given, const void* other) const override {  // in the same buffer
    return addresses_.find(given).buffer == addresses_.find(other).buffer;
  }

  void* allocate(size_t bytes) override {
    const auto most = size_t(value_of<uint64_t>(choice_.device, kMostBufferBytes));
    const auto no_memory = [&](size_t limit, const char* what) {
      fail_internal("device 'opencl': no memory for {}; {} {} on '{}'", format_bytes(bytes), format_bytes(limit), what,
                    choice_.name);
    };
    if (bytes > most) no_memory(most, "are the most that a buffer can have");
    if (bytes > memory().free) no_memory(memory().free, "are free");
    const size_t whole = (bytes + kPattern - 1) / kPattern * kPattern;
    Status status = kOk;
    const Memory buffer = f_.clCreateBuffer(context_, kReadWrite, whole, nullptr, &status);
    if (status != kOk) no_memory(memory().free, "may be free");
    void* const first = addresses_.add(buffer, whole);
    fill(first, std::byte(0), whole);
    synchronize();  // a driver may find only now that there is no memory
    return first;
  }
  void release(void* memory) noexcept override {
    addresses_.remove(memory);  // OpenCL keeps it until what is queued has run
  }
  void upload(void* to, const void* from, size_t bytes) override {
    const auto at = addresses_.find(to);
    check_status(f_.clEnqueueWriteBuffer(queue_, at.buffer, 1, at.offset, bytes, from, 0, nullptr, nullptr), "upload");
  }
  void download(void* to, const void* from, size_t bytes) override {
    const auto at = addresses_.find(from);
    check_status(f_.clEnqueueReadBuffer(queue_, at.buffer, 1, at.offset, bytes, to, 0, nullptr, nullptr), "download");
  }
  void copy(void* to, const void* from, size_t bytes) override {
    const auto source = addresses_.find(from), target = addresses_.find(to);
    check_status(f_.clEnqueueCopyBuffer(queue_, source.buffer, target.buffer, source.offset, target.offset, bytes, 0,
                                        nullptr, nullptr),
                 "copy");
  }
  void fill(void* to, std::byte value, size_t bytes) override {
    const auto at = addresses_.find(to);
    std::byte pattern[kPattern];
    std::fill_n(pattern, kPattern, value);
    const size_t unit = at.offset % kPattern == 0 && bytes % kPattern == 0 ? kPattern : 1;
    check_status(f_.clEnqueueFillBuffer(queue_, at.buffer, pattern, unit, at.offset, bytes, 0, nullptr, nullptr),
                 "fill");
  }
  void launch(const Launch& launch) override {
    const KernelHandle kernel = kernel_of(launch.kernel);
    set_arguments(kernel, launch);
    queue(queue_, kernel, Items(launch), info_of(launch.kernel).name);
    if (++launched_ % kFlushEvery == 0) check_status(f_.clFlush(queue_), "the queue");  // the device begins
  }
  void synchronize() override { check_status(f_.clFinish(queue_), "a kernel failed"); }

  void run_timed(std::span<const Launch> launches, std::span<const size_t> ends, std::span<double> seconds) override {
    synchronize();
    TimedQueue timed(context_, choice_.device);
    std::vector<Event>& events = timed.events;
    for (const Launch& l : launches) {
      set_arguments(kernel_of(l.kernel), l);
      queue(timed.queue, kernel_of(l.kernel), Items(l), info_of(l.kernel).name, &events.emplace_back(nullptr));
    }
    check_status(f_.clFinish(timed.queue), "a kernel failed");
    for (size_t c = 0, i = 0; c < ends.size(); ++c)
      for (; i < ends[c]; ++i) {
        uint64_t begin = 0, end = 0;
        check_status(f_.clGetEventProfilingInfo(events[i], kStarted, sizeof begin, &begin, nullptr), "an event");
        check_status(f_.clGetEventProfilingInfo(events[i], kEnded, sizeof end, &end, nullptr), "an event");
        seconds[c] += double(end - begin) * 1e-9;
      }
  }

  std::unique_ptr<Recording> record(std::span<const Launch> launches) override {
    auto all = std::make_unique<Prepared>();
    for (const Launch& l : launches) {
      const KernelHandle kernel = create(l.kernel);
      all->add(kernel, Items(l));
      set_arguments(kernel, l);
    }
    return all;
  }
  void replay(Recording& recording) override {
    for (const auto& [kernel, items] : dynamic_cast<Prepared&>(recording).kernels())
      queue(queue_, kernel, items, "a kernel");
    check_status(f_.clFlush(queue_), "the queue");
  }

 private:
  static constexpr const char* kPocl = "Portable Computing Language";
  static constexpr size_t kPattern = 16, kFlushEvery = 64;
  // -cl-fp32-correctly-rounded-divide-sqrt only where the device can: else its compiler refuses the option.
  static constexpr const char *kOptions = "-cl-std=CL1.2 -cl-denorms-are-zero",
                              *kRounded = " -cl-fp32-correctly-rounded-divide-sqrt";

  void require_abilities() const {
    require_version(text_of(choice_.device, kDeviceVersion), choice_.name);
    int items = 0;
    for (const KernelInfo& k : kernel_list()) items = std::max(items, k.items);
    const auto most = value_of<size_t>(choice_.device, kMostGroupItems);
    check(most >= size_t(items), "device 'opencl': '{}' runs {} items in a group, and kernels need {}", choice_.name,
          most, items);
    check(value_of<Bits>(choice_.device, kSingleFp) & kRoundsToNearest,
          "device 'opencl': '{}' does not round to nearest, which kernels need; choose another device with "
          "TOY_OPENCL_DEVICE, or use --device cpu",
          choice_.name);
    check(value_of<uint32_t>(choice_.device, kLittleEndian), "device 'opencl': '{}' is big-endian", choice_.name);
  }

  void set_arguments(KernelHandle kernel, const Launch& l) {
    const auto set = [&](size_t index, size_t bytes, const void* value) {
      const Status status = f_.clSetKernelArg(kernel, uint32_t(index), bytes, value);
      if (status != kOk) check_status(status, fmt::format("argument {} of {}", index, info_of(l.kernel).name));
    };
    size_t offsets = l.args.size();  // with_offsets()
    for (size_t i = 0; i < l.args.size(); ++i) {
      const Arg& a = l.args[i];
      if (!a.is_memory()) {
        set(i, a.bytes(), a.value());
        continue;
      }
      const Addresses::Spot at = addresses_.find(a.memory());
      set(i, sizeof at.buffer, &at.buffer);
      set(offsets++, sizeof at.offset, &at.offset);
    }
  }
  void queue(Queue to, KernelHandle kernel, const Items& items, std::string_view name, Event* event = nullptr) {
    check_status(f_.clEnqueueNDRangeKernel(to, kernel, 3, nullptr, items.all, items.group, 0, nullptr, event), name);
  }
  KernelHandle kernel_of(Kernel kernel) {
    KernelHandle& handle = kernels_[size_t(kernel)];
    return handle ? handle : handle = create(kernel);
  }
  KernelHandle create(Kernel kernel) {
    const KernelInfo& info = info_of(kernel);
    Status status = kOk;
    const KernelHandle handle = f_.clCreateKernel(program_of(info.file), std::string(info.name).c_str(), &status);
    check_status(status, info.name);
    return handle;
  }

  // A file of kernels is compiled when one of them is first launched.
  Compiled program_of(std::string_view file) {
    Compiled& program = programs_[file];
    if (program) return program;
    const std::string text = with_offsets(whole_source(std::string(file) + ".k"));
    std::string options = kOptions;
    if (value_of<Bits>(choice_.device, kSingleFp) & kRoundsDivision) options += kRounded;
    const std::string key =
        fmt::format("{}\n{}\n{}\n{}\n{}\n{}", choice_.platform_name, choice_.name,
                    text_of(choice_.device, kDriverVersion), text_of(choice_.device, kDeviceVersion), options, text);
    if (keeps_) program = from_binary(load_program(key), options);
    if (program) return program;
    program = from_text(file, text, options);
    if (keeps_ && can_store_programs()) store_program(key, binary_of(program));
    return program;
  }
  // nullptr where there is none, or the driver does not take it.
  Compiled from_binary(const std::vector<unsigned char>& binary, const std::string& options) {
    if (binary.empty()) return nullptr;
    const size_t bytes = binary.size();
    const unsigned char* data = binary.data();
    Status each = kOk, status = kOk;
    const Compiled p = f_.clCreateProgramWithBinary(context_, 1, &choice_.device, &bytes, &data, &each, &status);
    if (status != kOk || each != kOk) return nullptr;
    if (f_.clBuildProgram(p, 1, &choice_.device, options.c_str(), nullptr, nullptr) == kOk) return p;
    f_.clReleaseProgram(p);
    return nullptr;
  }
  Compiled from_text(std::string_view file, const std::string& text, const std::string& options) {
    const char* data = text.c_str();
    Status status = kOk;
    const Compiled p = f_.clCreateProgramWithSource(context_, 1, &data, nullptr, &status);
    check_status(status, file);
    if (f_.clBuildProgram(p, 1, &choice_.device, options.c_str(), nullptr, nullptr) == kOk) return p;
    size_t bytes = 0;
    f_.clGetProgramBuildInfo(p, choice_.device, kBuildLog, 0, nullptr, &bytes);
    std::string log(bytes, '\0');
    f_.clGetProgramBuildInfo(p, choice_.device, kBuildLog, bytes, log.data(), nullptr);
    f_.clReleaseProgram(p);
    fail_internal("device 'opencl': '{}' does not compile the kernels of {}.k:\n{}", choice_.name, file, log.c_str());
  }
  std::vector<unsigned char> binary_of(Compiled program) {
    size_t bytes = 0;
    check_status(f_.clGetProgramInfo(program, kBinarySizes, sizeof bytes, &bytes, nullptr), "a compiled program");
    std::vector<unsigned char> binary(bytes);
    unsigned char* data = binary.data();
    check_status(f_.clGetProgramInfo(program, kBinaries, sizeof data, &data, nullptr), "a compiled program");
    return binary;
  }

  const Choice choice_;  // loads the functions
  const bool keeps_;     // programs on disk
  const Functions& f_ = functions();
  const size_t alignment_;
  Addresses addresses_;
  Context context_ = nullptr;
  Queue queue_ = nullptr;
  size_t launched_ = 0;
  std::map<std::string_view, Compiled> programs_;
  std::vector<KernelHandle> kernels_ = std::vector<KernelHandle>(kernel_list().size());
};

}  // namespace
}  // namespace opencl

std::unique_ptr<Driver> make_opencl_driver(bool always_keep) {
  return std::make_unique<opencl::OpenClDriver>(always_keep);
}

}  // namespace toy::gpu

namespace toy {

std::unique_ptr<Device> make_opencl_device() { return gpu::make_gpu_device(gpu::make_opencl_driver()); }

}  // namespace toy
