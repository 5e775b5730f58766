// The functions of CUDA's driver that toy calls, declared here after the CUDA Driver API reference: the program is
// built without CUDA's headers, starts without its driver, and loads it when a device is made.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace toy::gpu::cuda {

using Result = int;  // CUresult
using DeviceId = int;
using Address = unsigned long long;
using Context = struct ContextOfDriver*;
using Module = struct ModuleOfDriver*;
using Function = struct FunctionOfDriver*;
using Stream = struct StreamOfDriver*;
using Event = struct EventOfDriver*;
using Graph = struct GraphOfDriver*;
using GraphExec = struct GraphExecOfDriver*;

// Values of CUresult that toy tells apart.
inline constexpr Result kOk = 0, kOutOfMemory = 2, kNoDevice = 100, kNotReady = 600;
// CUdevice_attribute
inline constexpr int kMultiprocessors = 16, kMajor = 75, kMinor = 76;
// Flags
inline constexpr unsigned kNonBlockingStream = 1, kRelaxedCapture = 2;

// _v2 is what CUDA's header makes of the plain name.
#define TOY_CUDA_FUNCTIONS(F)                                                                              \
  F(cuInit, unsigned flags)                                                                                \
  F(cuDriverGetVersion, int* version)                                                                      \
  F(cuGetErrorName, Result, const char** text)                                                             \
  F(cuGetErrorString, Result, const char** text)                                                           \
  F(cuDeviceGet, DeviceId*, int number)                                                                    \
  F(cuDeviceGetName, char* text, int bytes, DeviceId)                                                      \
  F(cuDeviceGetAttribute, int* value, int attribute, DeviceId)                                             \
  F(cuDevicePrimaryCtxRetain, Context*, DeviceId)                                                          \
  F(cuDevicePrimaryCtxRelease_v2, DeviceId)                                                                \
  F(cuCtxSetCurrent, Context)                                                                              \
  F(cuMemGetInfo_v2, size_t* free, size_t* total)                                                          \
  F(cuMemAlloc_v2, Address*, size_t bytes)                                                                 \
  F(cuMemFree_v2, Address)                                                                                 \
  F(cuMemHostAlloc, void** memory, size_t bytes, unsigned flags)                                           \
  F(cuMemFreeHost, void* memory)                                                                           \
  F(cuMemcpyHtoDAsync_v2, Address to, const void* from, size_t bytes, Stream)                              \
  F(cuMemcpyDtoHAsync_v2, void* to, Address from, size_t bytes, Stream)                                    \
  F(cuMemcpyDtoDAsync_v2, Address to, Address from, size_t bytes, Stream)                                  \
  F(cuMemsetD8Async, Address to, unsigned char value, size_t bytes, Stream)                                \
  F(cuModuleLoadData, Module*, const void* image)                                                          \
  F(cuModuleUnload, Module)                                                                                \
  F(cuModuleGetFunction, Function*, Module, const char* name)                                              \
  F(cuLaunchKernel, Function, unsigned groups_x, unsigned groups_y, unsigned groups_z, unsigned threads_x, \
    unsigned threads_y, unsigned threads_z, unsigned local_bytes, Stream, void** arguments, void** more)   \
  F(cuStreamCreate, Stream*, unsigned flags)                                                               \
  F(cuStreamDestroy_v2, Stream)                                                                            \
  F(cuStreamSynchronize, Stream)                                                                           \
  F(cuStreamQuery, Stream)                                                                                 \
  F(cuStreamBeginCapture_v2, Stream, unsigned mode)                                                        \
  F(cuStreamEndCapture, Stream, Graph*)                                                                    \
  F(cuGraphInstantiateWithFlags, GraphExec*, Graph, unsigned long long flags)                              \
  F(cuGraphLaunch, GraphExec, Stream)                                                                      \
  F(cuGraphExecDestroy, GraphExec)                                                                         \
  F(cuGraphDestroy, Graph)                                                                                 \
  F(cuEventCreate, Event*, unsigned flags)                                                                 \
  F(cuEventRecord, Event, Stream)                                                                          \
  F(cuEventSynchronize, Event)                                                                             \
  F(cuEventElapsedTime, float* milliseconds, Event begin, Event end)                                       \
  F(cuEventDestroy_v2, Event)

/// Every function, or why there are none.
struct Functions {
#define F(name, ...) Result (*name)(__VA_ARGS__) = nullptr;
  TOY_CUDA_FUNCTIONS(F)
#undef F
  std::string missing;  ///< the library or a function that it lacks; "": nothing
};
/// Loads libcuda.so.1 once.
const Functions& functions();

/// Throws Error for a result other than kOk: failure, with the driver's words for it.
void check_result(Result result, std::string_view what);

}  // namespace toy::gpu::cuda
