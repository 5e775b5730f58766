#include "backend/gpu/gpu_device.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "backend/gpu/fuse.h"
#include "backend/gpu/launches.h"
#include "backend/gpu/tables.h"
#include "toy/base/clock.h"
#include "toy/base/communicator.h"
#include "toy/base/error.h"

namespace toy::gpu {
namespace {

// What a kernel found in its data, as REPORT() of dialect.h writes it.
struct Fault {
  int32_t code = 0, call = 0, index = 0, value = 0;
};

// The op of each call of a program, by which a fault is named. It may outlive the program.
using Names = std::vector<std::string_view>;

// No GPU has more groups along y and z than this.
constexpr int kMostGroups = 65535;
void check_groups(const Launch& l, const KernelCall& c) {
  check(
      l.groups.y <= kMostGroups && l.groups.z <= kMostGroups,
      "{}: operands are too large for one launch: kernel {} would have {} x {} groups along y and z, at most {} each; "
      "use a smaller batch",
      c.kernel->op, info_of(l.kernel).name, l.groups.y, l.groups.z, kMostGroups);
}

class GpuProgram final : public Program {
 public:
  GpuProgram(Driver& driver, void* fault, std::span<const KernelCall> calls) : driver_(driver) {
    Launches launches(driver, fault);
    Names ops;
    for (const KernelCall& c : calls) {
      Code* const code = c.kernel->code.as<Code>();
      check(code, "device '{}': the kernel for '{}' is of another device; compile for the device that runs the plan",
            driver.name(), c.kernel->op);
      launches.begin(int32_t(ops.size()));
      code(launches, c);
      for (size_t i = ends_.empty() ? 0 : ends_.back(); i < launches.list().size(); ++i)
        check_groups(launches.list()[i], c);
      ops.push_back(c.kernel->op);
      ends_.push_back(launches.list().size());
    }
    launches_ = launches.list();
    fused_ = fused(driver, calls, launches_, ends_);
    std::vector<Launch>* const lists[] = {&launches_, &fused_};
    tables_.emplace(driver, lists);
    ops_ = std::make_shared<const Names>(std::move(ops));
  }
  ~GpuProgram() override {
    try {
      driver_.synchronize();
    } catch (const Error&) {  // who waits for the run hears of it
    }
  }

  void run() {
    // Most programs of a decoder run once or twice: a recording pays for those that stay.
    if (++runs_ == 3) record();
    if (recording_) return driver_.replay(*recording_);
    for (const Launch& l : fused_) driver_.launch(l);
  }
  void run(std::span<double> seconds) { driver_.run_timed(launches_, ends_, seconds); }
  const std::shared_ptr<const Names>& ops() const { return ops_; }

 private:
  void record() {
    try {
      recording_ = driver_.record(fused_);
    } catch (const Error&) {  // no memory for it: the launches by themselves do the same
    }
  }

  Driver& driver_;
  std::vector<Launch> launches_, fused_;  // as the calls say, for their times; fewer that do the same
  std::vector<size_t> ends_;              // of each call's launches
  std::optional<Tables> tables_;          // of both
  std::shared_ptr<const Names> ops_;
  std::unique_ptr<Driver::Recording> recording_;
  int runs_ = 0;
};

class GpuDevice final : public Device {
 public:
  explicit GpuDevice(std::unique_ptr<Driver> driver) : driver_(std::move(driver)) {
    fault_ = driver_->allocate(sizeof(Fault));
  }
  ~GpuDevice() override {
    close();
    driver_->release(fault_);
  }

  std::string_view name() const override { return driver_->name(); }
  DType storage(DType logical) const override { return logical; }
  DType compute() const override { return DType::f32; }
  bool has_products(DType type) const override { return type == DType::f32 || type == DType::bf16; }
  std::string arithmetic(DType products) const override {
    const std::string own = driver_->arithmetic(), library = products == DType::bf16 ? driver_->library() : "";
    return own.empty() || library.empty() ? own + library : own + ", " + library;
  }
  std::span<const KernelRecord> kernels() const override { return records(driver_->takes_library()); }

  Driver& driver() const { return *driver_; }
  Memory memory() const override { return driver_->memory(); }
  size_t alignment() const override { return driver_->alignment(); }
  void* allocate(size_t bytes) const override { return driver_->allocate(bytes); }
  void release(void* memory) const noexcept override { driver_->release(memory); }
  void upload(Place to, const void* from, size_t bytes) const override {
    if (bytes > 0) driver_->upload(address(to), from, bytes);
  }
  void download(void* to, Place from, size_t bytes) const override {
    if (bytes > 0) driver_->download(to, address(from), bytes);
  }
  void copy(Place to, Place from, size_t bytes) const override {
    if (bytes > 0) driver_->copy(address(to), address(from), bytes);
  }
  void fill(Place to, std::byte value, size_t bytes) const override {
    if (bytes > 0) driver_->fill(address(to), value, bytes);
  }
  // As numbers: where there are no rows, there may be no memory to count from.
  void* address(Place at) const override {
    return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(at.memory) + at.offset);
  }

  std::unique_ptr<Program> prepare(std::span<const KernelCall> calls) override {
    return std::make_unique<GpuProgram>(*driver_, fault_, calls);
  }
  void run(Program& program, std::span<double> seconds) override {
    GpuProgram& ready = dynamic_cast<GpuProgram&>(program);
    if (running_ != ready.ops()) synchronize();  // for the names of its calls
    running_ = ready.ops();
    seconds.empty() ? ready.run() : ready.run(seconds);
  }
  void synchronize() const override {
    const std::shared_ptr<const Names> ran = std::exchange(running_, nullptr);
    if (!ran) return driver_->synchronize();
    Fault fault;
    driver_->download(&fault, fault_, sizeof fault);
    if (fault.code == 0) return;
    driver_->fill(fault_, std::byte(0), sizeof fault);
    throw KernelFailure(KernelFault(fault.code), (*ran)[size_t(fault.call)], fault.index, fault.value);
  }

 private:
  std::unique_ptr<Driver> driver_;
  void* fault_ = nullptr;
  mutable std::shared_ptr<const Names> running_;  // of the program that ran since the last synchronize()
};

}  // namespace

std::span<const KernelInfo> kernel_list() {
  static const KernelInfo list[] = {
#define TOY_GPU_KERNEL(file, name, items) {#file, #name, items},
#include "backend/gpu/kernels/kernels.def"
#undef TOY_GPU_KERNEL
  };
  return list;
}

void Driver::run_timed(std::span<const Launch> launches, std::span<const size_t> ends, std::span<double> seconds) {
  synchronize();
  double before = steady_seconds();
  for (size_t c = 0, i = 0; c < ends.size(); ++c) {
    for (; i < ends[c]; ++i) launch(launches[i]);
    synchronize();
    const double after = steady_seconds();
    seconds[c] += after - before;
    before = after;
  }
}

std::unique_ptr<Communicator> Driver::connect(Communicator&, double) { return nullptr; }

std::string title_of(const Device& device) {
  const auto* gpu = dynamic_cast<const GpuDevice*>(&device);
  return gpu ? gpu->driver().title() : "";
}

Driver* driver_of(Device& device) {
  const auto* gpu = dynamic_cast<const GpuDevice*>(&device);
  return gpu ? &gpu->driver() : nullptr;
}

std::unique_ptr<Device> make_gpu_device(std::unique_ptr<Driver> driver) {
  return std::make_unique<GpuDevice>(std::move(driver));
}

}  // namespace toy::gpu
