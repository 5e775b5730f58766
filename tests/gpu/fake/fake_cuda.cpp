// A libcuda.so.1 without a GPU: kernels run as on the device emulated, found by their names. Nothing that is queued
// happens before somebody waits for it, so what the program forgets to wait for, or reuses too early, shows.
#include "gpu/fake/fake_cuda.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "backend/flush_denormals.h"
#include "backend/gpu/cuda/functions.h"
#include "backend/gpu/emulated/texts.h"

using namespace toy;
using namespace toy::gpu;
using cuda::Address, cuda::Context, cuda::DeviceId, cuda::Event, cuda::Function, cuda::Graph, cuda::GraphExec,
    cuda::Module, cuda::Result, cuda::Stream;

testing::FakeCuda toy_fake_cuda;

namespace {

auto& fake = toy_fake_cuda;
constexpr Result kInvalidValue = 1, kInvalidImage = 200, kNotFound = 500;
constexpr uint32_t kFatBinary = 0xba55ed50;

using Work = std::vector<std::function<void()>>;
std::deque<std::function<bool()>> queued;  // true: done; false: it waits for another rank
std::unique_ptr<Work> captured;
std::map<Address, size_t> memory;
float clock_ms = 0;

Result queue(std::function<void()> work) {
  if (captured)
    captured->push_back(std::move(work));
  else
    queued.push_back([work = std::move(work)] { return work(), true; });
  return cuda::kOk;
}
// As far as that goes.
bool advance() {
  for (; !queued.empty(); queued.pop_front(), ++clock_ms)
    if (!queued.front()()) return false;
  return true;
}
Result drain() {
  while (!advance()) std::this_thread::yield();
  return cuda::kOk;
}
void* host(Address at) { return reinterpret_cast<void*>(at); }
bool inside(Address at, size_t bytes) {
  const auto next = memory.upper_bound(at);
  if (next == memory.begin()) return false;
  const auto& [first, size] = *std::prev(next);
  return at + bytes <= first + size;
}
template <class T>
T* as(auto* handle) {
  return reinterpret_cast<T*>(handle);
}

}  // namespace

extern "C" {
// Each that may fails where a test wants it to.
#define TOY_EXPORT __attribute__((visibility("default")))
#define TOY_MAY_FAIL \
  if (fake.failing && std::string_view(fake.failing) == __func__) return fake.result;

TOY_EXPORT Result cuInit(unsigned) {
  TOY_MAY_FAIL
  return fake.devices > 0 ? cuda::kOk : cuda::kNoDevice;
}
TOY_EXPORT Result cuDriverGetVersion(int* version) {
  *version = fake.version;
  return cuda::kOk;
}
TOY_EXPORT Result cuGetErrorName(Result, const char** text) {
  *text = "CUDA_ERROR_OF_A_TEST";
  return cuda::kOk;
}
TOY_EXPORT Result cuGetErrorString(Result, const char** text) {
  *text = "what a test wants";
  return cuda::kOk;
}
TOY_EXPORT Result cuDeviceGet(DeviceId* id, int number) {
  *id = number;
  return cuda::kOk;
}
TOY_EXPORT Result cuDeviceGetName(char* text, int bytes, DeviceId) {
  std::strncpy(text, "Fake GPU", size_t(bytes));
  return cuda::kOk;
}
TOY_EXPORT Result cuDeviceGetAttribute(int* value, int attribute, DeviceId) {
  *value = attribute == cuda::kMajor ? fake.major : fake.minor;
  return cuda::kOk;
}
TOY_EXPORT Result cuDevicePrimaryCtxRetain(Context* context, DeviceId) {
  TOY_MAY_FAIL
  ++fake.contexts;
  *context = reinterpret_cast<Context>(&fake);
  return cuda::kOk;
}
TOY_EXPORT Result cuDevicePrimaryCtxRelease_v2(DeviceId) {
  --fake.contexts;
  return cuda::kOk;
}
TOY_EXPORT Result cuCtxSetCurrent(Context) { return fake.contexts > 0 ? cuda::kOk : kInvalidValue; }

TOY_EXPORT Result cuMemGetInfo_v2(size_t* free, size_t* total) {
  *free = *total = fake.memory;
  for (const auto& [at, bytes] : memory) *free -= bytes;
  return cuda::kOk;
}
TOY_EXPORT Result cuMemAlloc_v2(Address* at, size_t bytes) {
  TOY_MAY_FAIL
  size_t free = 0, total = 0;
  cuMemGetInfo_v2(&free, &total);
  if (bytes > free) return cuda::kOutOfMemory;
  void* const all = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(all, 0xCD, bytes);
  *at = reinterpret_cast<Address>(all);
  memory[*at] = bytes;
  ++fake.allocations;
  return cuda::kOk;
}
TOY_EXPORT Result cuMemFree_v2(Address at) {
  if (memory.erase(at) == 0) return kInvalidValue;
  std::free(host(at));
  --fake.allocations;
  return cuda::kOk;
}
TOY_EXPORT Result cuMemHostAlloc(void** at, size_t bytes, unsigned) {
  TOY_MAY_FAIL
  *at = std::malloc(bytes);
  ++fake.pinned;
  return cuda::kOk;
}
TOY_EXPORT Result cuMemFreeHost(void* at) {
  std::free(at);
  --fake.pinned;
  return cuda::kOk;
}
TOY_EXPORT Result cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, Stream) {
  if (!inside(to, bytes)) return kInvalidValue;
  return queue([=] { std::memcpy(host(to), from, bytes); });
}
TOY_EXPORT Result cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, Stream) {
  if (!inside(from, bytes)) return kInvalidValue;
  return queue([=] { std::memcpy(to, host(from), bytes); });
}
TOY_EXPORT Result cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, Stream) {
  if (!inside(to, bytes) || !inside(from, bytes)) return kInvalidValue;
  return queue([=] { std::memcpy(host(to), host(from), bytes); });
}
TOY_EXPORT Result cuMemsetD8Async(Address to, unsigned char value, size_t bytes, Stream) {
  if (!inside(to, bytes)) return kInvalidValue;
  return queue([=] { std::memset(host(to), value, bytes); });
}

TOY_EXPORT Result cuModuleLoadData(Module* module, const void* image) {
  TOY_MAY_FAIL
  uint32_t magic = 0;
  std::memcpy(&magic, image, sizeof magic);
  if (magic != kFatBinary) return kInvalidImage;
  *module = reinterpret_cast<Module>(++fake.modules);
  return cuda::kOk;
}
TOY_EXPORT Result cuModuleUnload(Module) {
  --fake.modules;
  return cuda::kOk;
}
TOY_EXPORT Result cuModuleGetFunction(Function* function, Module, const char* name) {
  for (const Text& t : texts())
    if (std::string_view(t.name) == name) {
      *function = reinterpret_cast<Function>(const_cast<Text*>(&t));
      return cuda::kOk;
    }
  return kNotFound;
}
TOY_EXPORT Result cuLaunchKernel(Function function, unsigned x, unsigned y, unsigned z, unsigned items, unsigned,
                                 unsigned, unsigned, Stream, void** values, void**) {
  TOY_MAY_FAIL
  const Text& text = *as<const Text>(function);
  if (int(items) != text.items || x == 0 || y == 0 || z == 0) return kInvalidValue;
  const Launch launch{Kernel{}, {int(x), int(y), int(z)}, text.take(values)};
  const bool graph = captured != nullptr;
  return queue([&text, launch, graph] {
    ++(graph ? fake.replayed : fake.launched);
    const FlushDenormals flush;
    run_groups(text, launch, ItemOrder::ascending);
  });
}

TOY_EXPORT Result cuStreamCreate(Stream* stream, unsigned) {
  TOY_MAY_FAIL
  *stream = reinterpret_cast<Stream>(++fake.streams);
  return cuda::kOk;
}
TOY_EXPORT Result cuStreamDestroy_v2(Stream) {
  --fake.streams;
  return cuda::kOk;
}
TOY_EXPORT Result cuStreamSynchronize(Stream) {
  drain();
  TOY_MAY_FAIL
  return cuda::kOk;
}
TOY_EXPORT Result cuStreamQuery(Stream) { return advance() ? cuda::kOk : cuda::kNotReady; }
TOY_EXPORT Result cuStreamBeginCapture_v2(Stream, unsigned) {
  TOY_MAY_FAIL
  captured = std::make_unique<Work>();
  return cuda::kOk;
}
TOY_EXPORT Result cuStreamEndCapture(Stream, Graph* graph) {
  ++fake.graphs;
  *graph = as<cuda::GraphOfDriver>(captured.release());
  return cuda::kOk;
}
TOY_EXPORT Result cuGraphInstantiateWithFlags(GraphExec* exec, Graph graph, unsigned long long) {
  TOY_MAY_FAIL
  ++fake.graphs;
  *exec = as<cuda::GraphExecOfDriver>(new Work(*as<Work>(graph)));
  return cuda::kOk;
}
TOY_EXPORT Result cuGraphLaunch(GraphExec exec, Stream) {
  for (const auto& work : *as<Work>(exec)) queue(work);
  return cuda::kOk;
}
TOY_EXPORT Result cuGraphExecDestroy(GraphExec exec) {
  --fake.graphs;
  delete as<Work>(exec);
  return cuda::kOk;
}
TOY_EXPORT Result cuGraphDestroy(Graph graph) {
  --fake.graphs;
  delete as<Work>(graph);
  return cuda::kOk;
}

TOY_EXPORT Result cuEventCreate(Event* event, unsigned) {
  TOY_MAY_FAIL
  ++fake.events;
  *event = as<cuda::EventOfDriver>(new float(-1));
  return cuda::kOk;
}
TOY_EXPORT Result cuEventRecord(Event event, Stream) {
  return queue([=] { *as<float>(event) = clock_ms; });
}
TOY_EXPORT Result cuEventSynchronize(Event) { return drain(); }
TOY_EXPORT Result cuEventElapsedTime(float* ms, Event begin, Event end) {
  *ms = *as<float>(end) - *as<float>(begin);
  return *as<float>(begin) < 0 || *as<float>(end) < 0 ? kInvalidValue : cuda::kOk;
}
TOY_EXPORT Result cuEventDestroy_v2(Event event) {
  --fake.events;
  delete as<float>(event);
  return cuda::kOk;
}

// For fake_cublaslt.cpp: work of the stream, or of the graph that is captured.
TOY_EXPORT void toy_fake_cuda_work(std::function<void()> work) { queue(std::move(work)); }
// For fake_nccl.cpp.
TOY_EXPORT void toy_fake_cuda_queue(std::function<bool()> work) { queued.push_back(std::move(work)); }
}  // extern "C"
