// The functions of NCCL that toy calls, declared here after NCCL's documentation ("API", nccl.h): the program is built
// without its headers, and loads it when ranks with GPUs begin to train.
#pragma once

#include <climits>
#include <cstddef>
#include <string>

namespace toy::gpu::nccl {

using Result = int;  // ncclResult_t
using Comm = struct CommOfNccl*;
inline constexpr Result kOk = 0, kInProgress = 7;
inline constexpr int kInt8 = 0;  // ncclDataType_t

struct UniqueId {  // ncclUniqueId, passed by value
  char bytes[128];
};
/// The beginning of ncclConfig_t, as it was in version 2.14; later versions take what follows as not given.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;  ///< no call waits for other ranks
  int cga_cluster_size = INT_MIN;
};
inline constexpr int kOldest = 21400;  ///< 2.14, the first with a Config, as ncclGetVersion() counts

#define TOY_NCCL_FUNCTIONS(F)                                                                                \
  F(Result, ncclGetVersion, int* version)                                                                    \
  F(const char*, ncclGetErrorString, Result)                                                                 \
  F(const char*, ncclGetLastError, Comm)                                                                     \
  F(Result, ncclGetUniqueId, UniqueId*)                                                                      \
  F(Result, ncclCommInitRankConfig, Comm*, int ranks, UniqueId id, int rank, Config*)                        \
  F(Result, ncclCommGetAsyncError, Comm, Result*)                                                            \
  F(Result, ncclCommAbort, Comm)                                                                             \
  F(Result, ncclGroupStart)                                                                                  \
  F(Result, ncclGroupEnd)                                                                                    \
  F(Result, ncclBroadcast, const void* from, void* to, size_t count, int type, int root, Comm, void* stream) \
  F(Result, ncclSend, const void* from, size_t count, int type, int to, Comm, void* stream)                  \
  F(Result, ncclRecv, void* to, size_t count, int type, int from, Comm, void* stream)

/// Every function, or why there are none.
struct Functions {
#define F(result, name, ...) result (*name)(__VA_ARGS__) = nullptr;
  TOY_NCCL_FUNCTIONS(F)
#undef F
  std::string missing;  ///< the library or a function that it lacks; "": nothing
};
/// Loads libnccl.so.2 once.
const Functions& functions();

}  // namespace toy::gpu::nccl
