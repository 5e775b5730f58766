// The processes that train together, and how bytes go from one to another.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace toy {

/// How long ranks wait for each other unless they are told.
constexpr double kRankTimeout = 600;

/// One of the processes, or ranks, that train together. Not for use by several threads at once. What two ranks send
/// each other arrives in its order; broadcast(), exchange() and all_gather() are called by all ranks in the same order.
/// All but rank() to local_size() throw Error{failure} after another rank has called abort(), or end the process; and
/// where a rank does not answer in time, naming it, and then from every call.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;  ///< 0 to size() - 1
  virtual int size() const = 0;
  virtual std::string host(int rank) const = 0;  ///< name of its machine
  virtual int local_rank() const = 0;            ///< among the ranks of this machine
  virtual int local_size() const = 0;            ///< how many these are
  virtual bool any_thread() const = 0;           ///< may several threads use it, one at a time? Else its maker alone
  /// A message, which may be empty. Returns when the bytes may be changed.
  virtual void send(int to, std::span<const std::byte> bytes) = 0;
  /// Waits for what rank `from` sends. Does not keep a core busy.
  virtual std::vector<std::byte> receive(int from) = 0;
  /// Rank `root`'s bytes to all, which have as many.
  virtual void broadcast(int root, std::span<std::byte> bytes) = 0;
  /// Chunk c of `mine`, from bounds[c] to bounds[c + 1], goes to rank c. parts[r] takes what rank r has of this rank's
  /// chunk; parts[rank()] is not touched. Adds nothing.
  virtual void exchange(std::span<const std::byte> mine, std::span<const size_t> bounds,
                        std::span<std::byte* const> parts) = 0;
  /// Chunk c of `all`, as rank c has it, to all ranks.
  virtual void all_gather(std::span<std::byte> all, std::span<const size_t> bounds) = 0;
  /// From now on, and above 0: seconds in which another rank has to answer. A rank above 0 that waits in receive()
  /// waits as long as rank 0 lives, which may have other work.
  virtual void give_up_after(double seconds) = 0;
  /// Ends all ranks with this exit code.
  virtual void abort(int code) = 0;

 protected:
  /// Throws what give_up_after() says. No ranks: it is not known which.
  [[noreturn]] void fail_lost(std::span<const int> lost, double seconds) const;
};

/// How a launcher such as mpirun or srun started this process.
struct Launch {
  int rank = 0, size = 1;
  std::string by;  ///< the environment variable that says so; "" where nothing does
};
/// From the environment.
Launch launch_of_this_process();
/// Of a process that a launcher started: the plugin libtoy_mpi.so, next to the program, in ../lib/toy, or where
/// TOY_MPI_PLUGIN says. Throws Error{bad_input} where there is none, or one of another version.
std::unique_ptr<Communicator> launched_communicator(const Launch& launch);

/// All ranks call it. Throws on rank 0 Error{bad_input} naming the first rank of another version of the program, or
/// whose command line has other words than that of rank 0, and these.
void require_same_command(Communicator& ranks, std::string_view version, std::span<const std::string> words);

/// Ranks that may use the same cores of a machine divide them among themselves. All ranks call it before they make
/// threads. Returns, on rank 0, a warning where a launcher left cores of a machine unused; else "".
std::string share_cores(Communicator& ranks);

/// Ranks of one machine take a GPU each: CUDA_VISIBLE_DEVICES becomes the local_rank()'th of those that it lists, or,
/// where it is not set, that number. A list with fewer than there are ranks is left as it is. Before CUDA's driver is
/// loaded.
void share_gpus(const Communicator& ranks);

/// Threads of one process as ranks: each thread takes one of these.
std::vector<std::unique_ptr<Communicator>> local_communicators(int size);

}  // namespace toy
