// Memory and execution: parameters that live between runs, and sessions that run a plan on them.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "toy/runtime/plan.h"

namespace toy {

class FiniteWatch;

/// Named tensors in a device's storage: weights, optimizer moments, caches. Shared by several sessions.
class ParamStore {
 public:
  /// An empty store; `device` must outlive it.
  explicit ParamStore(const Device& device) : device_(&device) {}

  /// Zeroed tensors, one behind the other in one piece of memory. Throws if a name is taken.
  void add(const std::vector<std::pair<std::string, TensorType>>& tensors);
  /// A single one.
  void add(const std::string& name, const TensorType& type) { add({{name, type}}); }
  /// Values of `host` (contiguous). Where the device's memory is the host's and holds their dtype as it is, nothing is
  /// copied and `keep_alive` is held as long as the store; such a tensor is frozen. Throws if the name is taken, and
  /// for a view that has no data or is not contiguous. `mapped`: it lies in a mapped file.
  void bind(const std::string& name, const View& host, std::shared_ptr<const void> keep_alive, bool mapped = false);
  /// Is there a tensor of this name?
  bool has(std::string_view name) const { return entries_.find(name) != entries_.end(); }
  /// Its values as the device stores them. Throws naming the tensor, as all functions below.
  HostTensor host(std::string_view name) const;
  /// Where the device holds it.
  Place place(std::string_view name) const { return entry(name).at; }
  /// In which dtype the device holds it.
  DType stored(std::string_view name) const { return device_->storage(entry(name).type.dtype); }
  /// Its type.
  const TensorType& type(std::string_view name) const { return entry(name).type; }
  /// Was it bound without a copy, so that nothing may write to it?
  bool frozen(std::string_view name) const { return entry(name).frozen; }
  /// The values as f32, row-major.
  std::vector<float> read(std::string_view name) const;
  /// Sets the values, row-major and of any dtype. Throws for another number of values, a strided view or a frozen
  /// tensor.
  void write(std::string_view name, const View& values);
  /// @copydoc write
  void write(std::string_view name, std::span<const float> values);
  /// Sets all of it to zero.
  void clear(std::string_view name);
  /// Sets all tensors that were added to zero, each piece of memory at once.
  void clear();
  std::vector<std::string> names() const;
  /// Bytes of the tensors allocated here (bound ones are not counted).
  size_t bytes() const { return bytes_; }
  /// Gives the memory of a tensor that lies in a mapped file back to the system, which reads it again when needed.
  void release(std::string_view name) const;
  const Device& device() const { return *device_; }

 private:
  struct Entry {
    TensorType type;
    Place at;
    std::shared_ptr<const void> keep_alive;
    bool frozen = false, mapped = false;
  };
  const Entry& entry(std::string_view name) const;
  const Entry& writable(std::string_view name) const;
  Place allocate(size_t bytes);
  const Device* device_;
  std::vector<DeviceBuffer> full_;
  DeviceBuffer shared_;  // its first used_ bytes are
  size_t used_ = 0, bytes_ = 0;
  std::map<std::string, Entry, std::less<>> entries_;
};

/// Time of one step of a plan, summed over runs.
struct StepTime {
  double seconds = 0;
  int64_t runs = 0;
};

/// Runs one plan. Not for use by several threads at once; several sessions may share a device and a store if they take
/// turns.
class Session {
 public:
  /// Binds every parameter of the plan to the first store that holds it (weights, state, ...), which must outlive the
  /// session. Throws naming a parameter that is missing, has another type or was made for a device that stores it
  /// otherwise, and without a plan or store. `arena`: memory that sessions share which take turns, as large as the
  /// largest of their plans wants; outputs are then valid until another of them runs. Default: the session has its own.
  Session(Device& device, std::shared_ptr<const Plan> plan, std::initializer_list<const ParamStore*> stores,
          std::shared_ptr<const DeviceBuffer> arena = nullptr);
  ~Session();

  /// The actual number of rows (0 <= n <= the maximum), until it is set again.
  void set_rows(std::string_view name, int64_t n);
  /// Feeds an input of the next runs: all of it, or with run-time rows its first values. i32 values are checked against
  /// the input's bound. An input that no step needs is ignored; a name that the graph does not have throws
  /// Error{bad_input}.
  void set(std::string_view input, std::span<const int32_t> values);
  /// @copydoc set
  void set(std::string_view input, std::span<const float> values);
  /// Feeds a scalar.
  void set(std::string_view input, float value) { set(input, std::span(&value, 1)); }

  /// Runs the plan. Throws what a kernel found in its data, and Error{bad_input} for an input that was never set.
  void run() { run({}, {}); }
  /// The same in pieces: after the first ends[i] steps, which ascend, calls done(i). What these steps wrote and no
  /// later one writes may then be used while the rest runs.
  void run(std::span<const size_t> ends, const std::function<void(size_t)>& done);
  /// From now on run() looks at the outputs of every step and stops at the first that holds a NaN, or an infinity where
  /// no operand held one: Error{failure} naming layer, op, forward or backward, how many values and the first of them.
  /// Costs a read of all operands; parameters may be half updated after the error. Compile the plan without
  /// PlanOptions::fuse to see single ops named.
  void check_finite(bool on);

  /// Output i of compile(), valid until the next run. The shape has the actual rows. Throws if there is no output i,
  /// and before the first run.
  HostTensor output(size_t i) const;
  /// Output i, which has one element; throws if it has another number.
  float scalar(size_t i) const;
  /// Values of output i as f32.
  std::vector<float> values(size_t i) const;

  /// From now on, measure the time of every step.
  void enable_profile(bool on) { profile_ = on; }
  const std::vector<StepTime>& profile() const { return times_; }
  const Plan& plan() const { return *plan_; }
  size_t arena_bytes() const { return plan_->arena_bytes; }

 private:
  struct Bound {
    std::vector<int64_t> rows;
    std::vector<size_t> ends;  // of its pieces
    std::vector<std::unique_ptr<Program>> pieces;
  };
  View resolve(const Operand& o) const;
  std::unique_ptr<Program> prepare(size_t first, size_t steps) const;
  const Bound& bound(std::span<const size_t> ends);
  const PlanLeaf* input_of(std::string_view name, DType dtype, size_t values);
  void* staged(const PlanLeaf& input, size_t bytes);
  Place place_of(const Operand& o) const;
  void run_watched(size_t begin, size_t end, std::span<double> seconds);
  void repack(std::initializer_list<const ParamStore*> stores);

  Device& device_;
  std::shared_ptr<const Plan> plan_;
  std::shared_ptr<const DeviceBuffer> arena_;
  std::vector<Place> params_;
  DeviceBuffer inputs_;
  Buffer mirror_;                               // of the inputs, where the host cannot write to them
  size_t changed_begin_ = 0, changed_end_ = 0;  // of the mirror: what was set since the last run
  std::vector<DeviceBuffer> constants_;
  DeviceBuffer repacked_;
  std::vector<char> given_;  // which inputs were set
  std::vector<int64_t> rows_;
  std::vector<Bound> bound_;  // the one of the last run first
  std::vector<StepTime> times_;
  std::unique_ptr<FiniteWatch> finite_;  // nullptr: off
  bool profile_ = false, has_run_ = false;
};

}  // namespace toy
