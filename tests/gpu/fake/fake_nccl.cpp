// A libnccl.so.2 without a GPU: messages are files of a folder that the unique id names, so ranks may be threads or
// processes. With the queue of fake_cuda.cpp they travel in it; without a queue, while their rank asks how it is.
#include "gpu/fake/fake_nccl.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/gpu/cuda/nccl_functions.h"

using namespace toy::gpu::nccl;
namespace fs = std::filesystem;
using toy::testing::FakeNccl;

FakeNccl toy_fake_nccl;

namespace {

constexpr Result kInvalidArgument = 4, kInvalidUsage = 5;
constexpr unsigned kMagic = 0xcafebeef;

// Sends `bytes`, or takes what comes into them. done: it is over.
struct Message {
  bool sends;
  std::byte* bytes;
  size_t count;
  std::string file;
  bool done = false;
};
using Group = std::vector<Message>;

}  // namespace

struct toy::gpu::nccl::CommOfNccl {
  fs::path folder;
  int rank, ranks;
  std::vector<int> sent, received;  // to and from each rank
  int calls = 0;                    // of the function that fails
  bool joined = false, asked = false, aborted = false;
  std::deque<std::shared_ptr<Group>> groups = {};  // that are on their way without a queue
  std::string last_error = {};
};

namespace {

thread_local std::unique_ptr<Group> grouped;
thread_local Comm group_comm;
thread_local void* group_stream;

const FakeNccl& wanted() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (const char* v = std::getenv("TOY_FAKE_NCCL_VERSION")) toy_fake_nccl.version = std::atoi(v);
    static std::string function;
    if (const char* f = std::getenv("TOY_FAKE_NCCL_FAILS")) {
      std::istringstream(f) >> function >> toy_fake_nccl.rank >> toy_fake_nccl.after;
      toy_fake_nccl.failing = function.c_str();
    }
  });
  return toy_fake_nccl;
}

bool fails(Comm comm, std::string_view function) {
  const FakeNccl& w = wanted();
  if (w.failing != function || comm->rank != w.rank || comm->calls++ < w.after) return false;
  comm->last_error = "a cable was pulled, as a test wants";
  return true;
}
#define TOY_MAY_FAIL(comm) \
  if (fails(comm, __func__)) return wanted().result;

// All of a file or nothing of it.
void write_file(const fs::path& path, const void* bytes, size_t count) {
  const fs::path part = path.string() + ".part";
  std::ofstream(part, std::ios::binary).write(static_cast<const char*>(bytes), std::streamsize(count));
  fs::rename(part, path);
}
bool read_file(const fs::path& path, void* bytes, size_t count) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return false;
  if (fs::file_size(path) != count) std::abort();  // a chunk of another size than its receiver expects
  file.read(static_cast<char*>(bytes), std::streamsize(count));
  return fs::remove(path);
}

bool moved(const CommOfNccl& comm, Message& m) {
  if (m.done) return true;
  if (m.sends)
    write_file(comm.folder / m.file, m.bytes, m.count);
  else if (std::string_view(wanted().failing) == "hang" || !read_file(comm.folder / m.file, m.bytes, m.count))
    return false;
  return m.done = true;
}
bool moved(const CommOfNccl& comm, Group& group) {
  size_t done = 0;
  for (Message& m : group) done += moved(comm, m);
  return done == group.size();
}

std::string file_of(int from, int to, int number) { return fmt::format("{}-{}-{}", from, to, number); }
Result add(bool sends, void* bytes, size_t count, int type, int peer, Comm comm, void* stream) {
  if (!grouped) return kInvalidUsage;  // toy sends and receives in groups only
  if (type != kInt8 || peer < 0 || peer >= comm->ranks || peer == comm->rank || !comm->joined) return kInvalidArgument;
  const int number = sends ? comm->sent[size_t(peer)]++ : comm->received[size_t(peer)]++;
  grouped->push_back({sends, static_cast<std::byte*>(bytes), count,
                      sends ? file_of(comm->rank, peer, number) : file_of(peer, comm->rank, number)});
  group_comm = comm, group_stream = stream;
  return kInProgress;  // as NCCL may say where it does not block
}

// The queue of fake_cuda.cpp, where that is there: calls f until it returns true.
using Queue = void (*)(std::function<bool()> f);
void queue_in_cuda(std::function<bool()> f) {
  const auto queue = reinterpret_cast<Queue>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), "toy_fake_cuda_queue"));
  queue(std::move(f));
}

}  // namespace

extern "C" {
#define TOY_EXPORT __attribute__((visibility("default")))

TOY_EXPORT Result ncclGetVersion(int* version) {
  *version = wanted().version;
  return kOk;
}
TOY_EXPORT const char* ncclGetErrorString(Result) { return "what a test wants"; }
TOY_EXPORT const char* ncclGetLastError(Comm comm) { return comm ? comm->last_error.c_str() : ""; }
TOY_EXPORT Result ncclGetUniqueId(UniqueId* id) {
  std::string name = (fs::temp_directory_path() / "toy-nccl-XXXXXX").string();
  if (name.size() >= sizeof id->bytes || !mkdtemp(name.data())) return kInvalidUsage;
  std::strcpy(id->bytes, name.c_str());
  return kOk;
}
TOY_EXPORT Result ncclCommInitRankConfig(Comm* comm, int ranks, UniqueId id, int rank, Config* config) {
  if (config->magic != kMagic || config->size < 20 || config->blocking != 0) return kInvalidArgument;
  const auto n = static_cast<size_t>(ranks);
  *comm = new CommOfNccl{id.bytes, rank, ranks, std::vector<int>(n), std::vector<int>(n)};
  TOY_MAY_FAIL(*comm)
  write_file((*comm)->folder / fmt::format("rank-{}", rank), "", 0);
  return kInProgress;
}
TOY_EXPORT Result ncclCommGetAsyncError(Comm comm, Result* state) {
  *state = kOk;
  if (fails(comm, __func__)) {
    *state = wanted().result;
    return kOk;
  }
  if (!comm->joined) {
    int there = 0;
    for (int r = 0; r < comm->ranks; ++r) there += fs::exists(comm->folder / fmt::format("rank-{}", r));
    comm->joined = there == comm->ranks;
  }
  for (auto& group : comm->groups)
    if (!moved(*comm, *group)) break;
  while (!comm->groups.empty() && std::ranges::all_of(*comm->groups.front(), &Message::done)) comm->groups.pop_front();
  // Once for each group it is still busy with its start.
  if (!comm->joined || !comm->groups.empty() || std::exchange(comm->asked, false)) *state = kInProgress;
  return kOk;
}
TOY_EXPORT Result ncclCommAbort(Comm comm) {
  std::error_code ignored;
  if (comm->rank == 0 && comm->groups.empty()) fs::remove_all(comm->folder, ignored);
  comm->aborted = true, comm->groups.clear();  // stays: the queue may hold a group of it
  return kOk;
}
TOY_EXPORT Result ncclGroupStart() {
  grouped = std::make_unique<Group>();
  return kOk;
}
TOY_EXPORT Result ncclGroupEnd() {
  const std::shared_ptr<Group> group = std::move(grouped);
  if (!group || group->empty()) return kOk;
  Comm comm = group_comm;
  TOY_MAY_FAIL(comm)
  comm->asked = true;
  if (group_stream)
    queue_in_cuda([comm, group] { return comm->aborted || moved(*comm, *group); });
  else
    comm->groups.push_back(group);
  return kInProgress;
}
TOY_EXPORT Result ncclSend(const void* from, size_t count, int type, int to, Comm comm, void* stream) {
  TOY_MAY_FAIL(comm)
  return add(true, const_cast<void*>(from), count, type, to, comm, stream);
}
TOY_EXPORT Result ncclRecv(void* to, size_t count, int type, int from, Comm comm, void* stream) {
  TOY_MAY_FAIL(comm)
  return add(false, to, count, type, from, comm, stream);
}
TOY_EXPORT Result ncclBroadcast(const void* from, void* to, size_t count, int type, int root, Comm comm, void* stream) {
  TOY_MAY_FAIL(comm)
  if (from != to) return kInvalidArgument;
  if (comm->rank != root) return add(false, to, count, type, root, comm, stream);
  for (int r = 0; r < comm->ranks; ++r)
    if (r != root)
      if (const Result result = add(true, to, count, type, r, comm, stream); result != kInProgress) return result;
  return kInProgress;
}
}  // extern "C"
