// What a GPU's API offers, in few words: memory, copies and launches of kernels in one queue. GpuDevice is built on it,
// so a device for another API is a driver and nothing else.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "toy/backend/device.h"

namespace toy {
class Communicator;
}

namespace toy::gpu {

/// Every kernel (kernels/kernels.def).
enum class Kernel : int {
#define TOY_GPU_KERNEL(file, name, items) name,
#include "backend/gpu/kernels/kernels.def"
#undef TOY_GPU_KERNEL
};

/// What the list says about a kernel.
struct KernelInfo {
  std::string_view file;  ///< kernels/FILE.k has its text
  std::string_view name;  ///< of its function
  int items = 0;          ///< work-items of a group
};
/// In the order of Kernel.
std::span<const KernelInfo> kernel_list();
inline const KernelInfo& info_of(Kernel kernel) { return kernel_list()[size_t(kernel)]; }

/// How many groups a launch has. y and z: at most 65535.
struct Groups {
  int x = 1, y = 1, z = 1;
};

/// One argument of a kernel, by value: a number, a struct of numbers, or the address of memory (which may be null).
class Arg {
 public:
  Arg(const void* memory) : memory_(true) { put(memory); }
  Arg(std::nullptr_t) : Arg(static_cast<const void*>(nullptr)) {}
  template <class T, class = std::enable_if_t<!std::is_pointer_v<T> && std::is_trivially_copyable_v<T>>>
  Arg(const T& number) {
    put(number);
  }
  const void* value() const { return value_.data(); }
  size_t bytes() const { return bytes_; }
  bool is_memory() const { return memory_; }
  /// Of the same kind, null or 0.
  Arg cleared() const {
    Arg a = *this;
    a.value_.fill(std::byte(0));
    return a;
  }
  bool operator==(const Arg&) const = default;
  /// Where is_memory(): an address that allocate() gave, or one behind it.
  void* memory() const {
    void* address;
    std::memcpy(&address, value_.data(), sizeof address);
    return address;
  }

 private:
  template <class T>
  void put(const T& v) {
    static_assert(sizeof(T) <= sizeof(value_));
    std::memcpy(value_.data(), &v, bytes_ = sizeof(T));
  }
  alignas(8) std::array<std::byte, 184> value_{};
  size_t bytes_ = 0;
  bool memory_ = false;
};

/// c[M,N] = a b (+ bias) (+ acc) by a library of the hardware's maker: operands in bf16, sums, bias, acc and c in f32,
/// all without gaps. acc may be c.
struct LibraryProduct {
  int64_t M = 0, N = 0, K = 0;
  const void* a = nullptr;
  bool a_turned = false;  ///< a lies as [K,M], else as [M,K]
  const void* b = nullptr;
  bool b_turned = false;  ///< b lies as [N,K], else as [K,N]
  const void *bias = nullptr, *acc = nullptr;
  void* c = nullptr;
  void* workspace = nullptr;  ///< kLibraryWorkspace bytes for the library itself
};
inline constexpr size_t kLibraryWorkspace = size_t(32) << 20;

/// A tensor that a launch goes over.
struct OneTensor {
  std::vector<const void*> operands;  ///< addresses of 4-byte elements, null where one is absent
  int64_t elements = 0;
  int groups = 0;  ///< of its own
  float decay = 0;
};

/// A kernel with its arguments, in the order of its parameters.
struct Launch {
  Kernel kernel;
  Groups groups;
  std::vector<Arg> args;
  std::optional<LibraryProduct> product = {};  ///< instead of the kernel, where there is a library()
  /// What a kernel of many tensors goes over (kernels/tensors.h). Tables makes the last of its arguments of them.
  std::vector<OneTensor> tensors = {};
  size_t of_call = 0;  ///< so many arguments, the first ones, only say which call it is
};

/// One queue of one device: launches, copies and fills happen in the order of the calls. Addresses are numbers of the
/// device: `address + n` is n bytes further. Not for use by several threads at once, but for
/// allocate() and release(), as Device.
class Driver {
 public:
  virtual ~Driver() = default;
  /// Device::name().
  virtual std::string_view name() const = 0;
  /// The hardware and its driver, as their makers name them; empty where there is no more to say than name().
  virtual std::string title() const { return {}; }
  /// What decides the bits of its kernels besides that name, e.g. "sm_90"; may be empty.
  virtual std::string arithmetic() const { return {}; }
  /// Could launch() take a LibraryProduct, if its library is there? Asks without loading it.
  virtual bool takes_library() const { return false; }
  /// What decides the bits of a LibraryProduct, e.g. "cuBLASLt 13.1.0"; empty where launch() takes none.
  virtual std::string library() const { return {}; }
  virtual Device::Memory memory() const = 0;
  /// What addresses of values are multiples of: a power of two, at least 64.
  virtual size_t alignment() const = 0;

  /// May a kernel that was given the first address also use the second, by the distance between them?
  virtual bool reaches(const void* given, const void* other) const { return true; }

  /// Zeroed memory at a multiple of alignment(). Throws Error{failure} with the size when there is none. bytes > 0.
  virtual void* allocate(size_t bytes) = 0;
  /// Gives back what allocate() gave, when what is queued no longer needs it.
  virtual void release(void* memory) noexcept = 0;
  /// The host's bytes are copied before it returns.
  virtual void upload(void* to, const void* from, size_t bytes) = 0;
  /// Waits for what is queued.
  virtual void download(void* to, const void* from, size_t bytes) = 0;
  /// Within the device's memory, not overlapping.
  virtual void copy(void* to, const void* from, size_t bytes) = 0;
  virtual void fill(void* to, std::byte value, size_t bytes) = 0;
  /// Queues a kernel. The driver does not need the arguments after it has returned.
  virtual void launch(const Launch& launch) = 0;
  /// Waits for all that is queued. Throws Error{failure} for what went wrong in it.
  virtual void synchronize() = 0;

  /// Launches and waits; adds to seconds[i] what the launches up to ends[i] took, from ends[i - 1] on. A driver whose
  /// clock is on the device need not wait for each.
  virtual void run_timed(std::span<const Launch> launches, std::span<const size_t> ends, std::span<double> seconds);

  /// Launches that replay() queues at once.
  class Recording {
   public:
    virtual ~Recording() = default;
  };
  /// nullptr: it has no faster way than to launch one after another.
  virtual std::unique_ptr<Recording> record(std::span<const Launch> launches) { return nullptr; }
  /// A recording of this driver.
  virtual void replay(Recording& recording) {}

  /// Does connect() give something?
  virtual bool connects() const { return false; }
  /// Called by all ranks: ranks whose broadcast(), exchange() and all_gather() take addresses of this driver's memory,
  /// and see what was queued before. Throws Error on all ranks for what one of them lacks. They must not outlive it.
  /// `seconds`: what the ranks were told by give_up_after().
  virtual std::unique_ptr<Communicator> connect(Communicator& ranks, double seconds);
};

}  // namespace toy::gpu
