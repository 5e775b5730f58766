// What the parts of `toy bench` share: the ceilings of the machine, and how a session's time is spread over its ops.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "toy/base/clock.h"
#include "toy/base/threads.h"
#include "toy/runtime/plan_profile.h"
#include "toy/runtime/session.h"
#include "toy/train/trainer.h"

namespace toy::cli {

double median(std::vector<double> values);

/// The threads that run a device's kernels; nullptr where they run on a GPU.
ThreadPool* host_team(Device& device);
/// f32 multiply-add GFLOP/s, int8 GOP/s (0: a GPU's kernels use none) and GB/s read from memory (of a GPU: copied in
/// it): the best of several short measurements, which is what the undisturbed machine can do.
double fma_ceiling(Device& device);
double int8_ceiling(Device& device);
double read_ceiling(Device& device);
/// GFLOP/s of multiply-adds of bf16; 0 where dense products do not round to it. Of a GPU: of square_product().
double bf16_ceiling(Device& device);
/// y = x w^T of squares, in f32 or with operands rounded to another type: as large as takes some milliseconds. GFLOP/s,
/// 0 where the device has no such products, and the size.
std::pair<double, int64_t> square_product(Device& device, DType type);

/// Bytes that a device with memory of its own has given out, 0 for others; " and N MiB of device 'cuda'".
size_t device_bytes(const Device& device);
std::string device_text(const Device& device);

/// A level of memory, used by all threads. GPUs have one, whose read is a copy's.
struct MemoryLevel {
  std::string name;           ///< L1, L2, L3, memory
  size_t holds = 0;           ///< bytes that all threads together can keep in it; 0: no end
  double read = 0, copy = 0;  ///< GB/s; of a copy, bytes read and written both count
};
std::vector<MemoryLevel> memory_levels(ThreadPool& pool);

/// What bounds an op: multiply-adds, transcendental functions, and the memory that holds its operands.
struct Ceilings {
  double fma = 0;   ///< GFLOP/s
  double bf16 = 0;  ///< the same of operands in bf16, which are summed in f32; 0: none, or not known
  double exp = 0;   ///< 1e9 a second
  std::vector<MemoryLevel> levels;

  Ceilings() = default;
  /// Measures them, for some seconds.
  explicit Ceilings(Device& device);
  const MemoryLevel& level_of(double bytes) const;
  struct Best {
    double seconds;
    std::string by;  ///< "FMA", "bf16", "exp", or a level of memory
  };
  /// The least time that work of this cost can take, whose bytes come from where `reuse` says that they are.
  Best best_time(const Cost& cost, std::span<const Reuse> reuse, bool in_bf16 = false) const;
};
/// Of each step of a plan that runs again and again, whose dense products round to `products`.
std::vector<Ceilings::Best> best_times(const Plan& plan, const Ceilings& ceilings, DType products = DType::f32);

/// The names in "NAME[,NAME...]". Throws for one that is neither a size nor a file of dimensions, before anything is
/// measured.
std::vector<std::string> shapes_of(const std::string& list);
/// Calls `work` in a process of its own, so that memory it needs is not counted as the caller's. Call it before there
/// are threads. Throws Exit where it fails, which has said why.
void run_apart(const std::function<void()>& work);
/// Calls `measure` for each shape; where there are several, in processes of their own: peak memory is each shape's.
void for_each_shape(const std::vector<std::string>& shapes, const std::function<void(const std::string&)>& measure);
/// Whether other programs disturbed the measurement: a level of memory seems slower than one further away.
bool look_disturbed(const Ceilings& ceilings);
/// From a file that `toy bench machine --json` wrote. Throws Error{bad_input} naming file and key.
Ceilings read_ceilings(const std::string& path);

/// The `i`th of a fixed sequence of random tokens below `vocab`.
int32_t random_token(int64_t i, int64_t vocab);
/// Such tokens, and what follows each.
Windows random_windows(int64_t tokens, int64_t vocab);
/// The plan of a training step on `sequences` of equal length, with what their attention costs: an op states the cost
/// of one sequence of all rows.
Plan plan_of_sequences(Plan plan, int64_t sequences);
/// Time, FLOPs and bytes of a session's profiled steps, summed by op, on stderr. `costs`: the session's plan, or one of
/// the same graph for as many rows as were computed.
void print_profile(const Session& session, double fma, const Plan& costs);

void add_bench_machine(CLI::App& app);
void add_bench_ops(CLI::App& app);
void add_bench_train(CLI::App& app, Communicator* ranks);
void add_bench_infer(CLI::App& app);

}  // namespace toy::cli
