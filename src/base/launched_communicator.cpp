// Processes that a launcher started, through the plugin src/base/mpi/plugin.cpp.
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/mpi/plugin.h"
#include "toy/base/communicator.h"
#include "toy/base/error.h"

namespace toy {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPlugin = "libtoy_mpi.so";

int number_of(const char* variable) {
  const char* text = std::getenv(variable);
  return text ? std::atoi(text) : 0;
}

class LaunchedCommunicator final : public Communicator {
 public:
  explicit LaunchedCommunicator(const toy_mpi& mpi) : mpi_(mpi) {
    mpi_.start(&place_);
    hosts_.assign(size_t(place_.size), "?");
    give_up_after(kRankTimeout);
    std::vector<size_t> bounds;
    for (int r = 0; r <= place_.size; ++r) bounds.push_back(size_t(r) * TOY_MPI_HOST_BYTES);
    std::string all(bounds.back(), '\0');
    std::copy_n(place_.host, TOY_MPI_HOST_BYTES, all.begin() + int64_t(bounds[size_t(place_.rank)]));
    mpi_.all_gather(all.data(), bounds.data());
    for (int r = 0; r < place_.size; ++r) hosts_[size_t(r)] = all.c_str() + bounds[size_t(r)];
  }
  ~LaunchedCommunicator() override {
    if (lost_.empty()) mpi_.finish();
  }
  LaunchedCommunicator(const LaunchedCommunicator&) = delete;
  LaunchedCommunicator& operator=(const LaunchedCommunicator&) = delete;

  int rank() const override { return place_.rank; }
  int size() const override { return place_.size; }
  std::string host(int rank) const override { return hosts_[size_t(rank)]; }
  int local_rank() const override { return place_.local_rank; }
  int local_size() const override { return place_.local_size; }
  bool any_thread() const override { return place_.threads != 0; }
  void send(int to, std::span<const std::byte> bytes) override { all().send(to, bytes.data(), bytes.size()); }
  std::vector<std::byte> receive(int from) override {
    std::vector<std::byte> bytes(all().next(from));
    mpi_.receive(from, bytes.data(), bytes.size());
    return bytes;
  }
  void broadcast(int root, std::span<std::byte> bytes) override { all().broadcast(root, bytes.data(), bytes.size()); }
  void exchange(std::span<const std::byte> mine, std::span<const size_t> bounds,
                std::span<std::byte* const> parts) override {
    const std::vector<void*> to(parts.begin(), parts.end());
    all().exchange(mine.data(), bounds.data(), to.data());
  }
  void all_gather(std::span<std::byte> of_all, std::span<const size_t> bounds) override {
    all().all_gather(of_all.data(), bounds.data());
  }
  void give_up_after(double seconds) override { mpi_.give_up_after(seconds, on_lost, this); }
  void abort(int code) override { mpi_.abort(code); }

 private:
  static void on_lost(void* self, const int* ranks, int count, double seconds) {
    auto& communicator = *static_cast<LaunchedCommunicator*>(self);
    try {
      communicator.fail_lost({ranks, size_t(count)}, seconds);
    } catch (const Error& e) {
      communicator.lost_ = e.what();
      throw;
    }
  }
  // What was on its way stays there: nothing more can be said.
  const toy_mpi& all() const {
    if (!lost_.empty()) fail_internal("{}", lost_);
    return mpi_;
  }
  const toy_mpi& mpi_;
  toy_mpi_place place_ = {};
  std::vector<std::string> hosts_;
  std::string lost_;  // why nothing more can be said
};

// Where the plugin may be, the best place first.
std::vector<std::string> places() {
  if (const char* given = std::getenv("TOY_MPI_PLUGIN")) return {given};
  std::error_code unknown;
  const fs::path folder = fs::read_symlink("/proc/self/exe", unknown).parent_path();
  std::vector<std::string> list;
  for (const fs::path& path : {folder / kPlugin, folder.parent_path() / "lib/toy" / kPlugin})
    if (fs::exists(path, unknown)) list.push_back(path.string());
  list.emplace_back(kPlugin);  // where the system's libraries are
  return list;
}

}  // namespace

Launch launch_of_this_process() {
  struct Known {
    const char *size, *rank;
  };
  // Open MPI; MPICH, Intel MPI and others with PMI; Slurm with PMIx, whose salloc alone sets the number of tasks, too.
  constexpr Known kKnown[] = {
      {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}, {"PMI_SIZE", "PMI_RANK"}, {"SLURM_NTASKS", "PMIX_RANK"}};
  for (const auto& [size, rank] : kKnown)
    if (number_of(size) > 1 && std::getenv(rank)) return {number_of(rank), number_of(size), size};
  return {};
}

std::unique_ptr<Communicator> launched_communicator(const Launch& launch) {
  std::string why;
  for (const std::string& place : places()) {
    // MPI looks up its own parts by name, so its symbols have to be visible to them.
    void* library = dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
      why = dlerror();
      continue;
    }
    const auto functions = reinterpret_cast<const toy_mpi* (*)()>(dlsym(library, "toy_mpi_functions"));
    check(functions != nullptr, "ranks: {} is not toy's plugin; build it with toy", place);
    check(functions()->version == TOY_MPI_VERSION,
          "ranks: {} has version {} of the interface, toy needs {}; rebuild it", place, functions()->version,
          TOY_MPI_VERSION);
    return std::make_unique<LaunchedCommunicator>(*functions());
  }
  fail(
      "ranks: this was started as {} tasks ({}), and the plugin {} cannot be used: {}; build toy where MPI is "
      "installed (toy help many-machines.md)",
      launch.size, launch.by, kPlugin, why);
}

}  // namespace toy
