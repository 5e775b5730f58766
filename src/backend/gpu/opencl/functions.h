// The functions of OpenCL 1.2 that toy calls, declared here after the OpenCL specification: the program is built
// without OpenCL's headers, starts without a loader, and loads libOpenCL.so.1 when a device is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace toy::gpu::opencl {

using Status = int32_t;  // cl_int
using Bits = uint64_t;   // cl_bitfield
using Platform = struct _cl_platform_id*;
using DeviceId = struct _cl_device_id*;
using Context = struct _cl_context*;
using Queue = struct _cl_command_queue*;
using Memory = struct _cl_mem*;
using Compiled = struct _cl_program*;
using KernelHandle = struct _cl_kernel*;
using Event = struct _cl_event*;

inline constexpr Status kOk = 0;
// clGetPlatformInfo, clGetDeviceInfo
inline constexpr uint32_t kPlatformVersion = 0x0901, kPlatformName = 0x0902, kDeviceType = 0x1000,
                          kMostGroupItems = 0x1004, kMostBufferBytes = 0x1010, kAddressAlignBits = 0x1019,
                          kSingleFp = 0x101b, kMemoryBytes = 0x101f, kLocalBytes = 0x1023, kLittleEndian = 0x1026,
                          kAvailable = 0x1027, kHasCompiler = 0x1028, kDeviceName = 0x102b, kDriverVersion = 0x102d,
                          kDeviceVersion = 0x102f;
inline constexpr Bits kAnyDevice = 0xffffffff, kIsGpu = 1 << 2, kRoundsToNearest = 1 << 2, kRoundsDivision = 1 << 7,
                      kReadWrite = 1 << 0, kProfiling = 1 << 1;
inline constexpr uint32_t kStarted = 0x1282, kEnded = 0x1283, kBinarySizes = 0x1165, kBinaries = 0x1166,
                          kBuildLog = 0x1183;

// Return type, name, parameters. Callbacks and properties are always nullptr here.
#define TOY_OPENCL_FUNCTIONS(F)                                                                                       \
  F(Status, clGetPlatformIDs, uint32_t room, Platform*, uint32_t* count)                                              \
  F(Status, clGetPlatformInfo, Platform, uint32_t what, size_t room, void* value, size_t* bytes)                      \
  F(Status, clGetDeviceIDs, Platform, Bits type, uint32_t room, DeviceId*, uint32_t* count)                           \
  F(Status, clGetDeviceInfo, DeviceId, uint32_t what, size_t room, void* value, size_t* bytes)                        \
  F(Context, clCreateContext, const intptr_t* properties, uint32_t count, const DeviceId*, void* notify, void* user,  \
    Status*)                                                                                                          \
  F(Status, clReleaseContext, Context)                                                                                \
  F(Queue, clCreateCommandQueue, Context, DeviceId, Bits properties, Status*)                                         \
  F(Status, clReleaseCommandQueue, Queue)                                                                             \
  F(Status, clFlush, Queue)                                                                                           \
  F(Status, clFinish, Queue)                                                                                          \
  F(Memory, clCreateBuffer, Context, Bits flags, size_t bytes, void* host, Status*)                                   \
  F(Status, clReleaseMemObject, Memory)                                                                               \
  F(Status, clEnqueueWriteBuffer, Queue, Memory, uint32_t wait, size_t offset, size_t bytes, const void* from,        \
    uint32_t after, const Event*, Event*)                                                                             \
  F(Status, clEnqueueReadBuffer, Queue, Memory, uint32_t wait, size_t offset, size_t bytes, void* to, uint32_t after, \
    const Event*, Event*)                                                                                             \
  F(Status, clEnqueueCopyBuffer, Queue, Memory from, Memory to, size_t from_offset, size_t to_offset, size_t bytes,   \
    uint32_t after, const Event*, Event*)                                                                             \
  F(Status, clEnqueueFillBuffer, Queue, Memory, const void* pattern, size_t pattern_bytes, size_t offset,             \
    size_t bytes, uint32_t after, const Event*, Event*)                                                               \
  F(Compiled, clCreateProgramWithSource, Context, uint32_t count, const char** texts, const size_t* bytes, Status*)   \
  F(Compiled, clCreateProgramWithBinary, Context, uint32_t count, const DeviceId*, const size_t* bytes,               \
    const unsigned char** binaries, Status* each, Status*)                                                            \
  F(Status, clBuildProgram, Compiled, uint32_t count, const DeviceId*, const char* options, void* notify, void* user) \
  F(Status, clGetProgramInfo, Compiled, uint32_t what, size_t room, void* value, size_t* bytes)                       \
  F(Status, clGetProgramBuildInfo, Compiled, DeviceId, uint32_t what, size_t room, void* value, size_t* bytes)        \
  F(Status, clReleaseProgram, Compiled)                                                                               \
  F(KernelHandle, clCreateKernel, Compiled, const char* name, Status*)                                                \
  F(Status, clReleaseKernel, KernelHandle)                                                                            \
  F(Status, clSetKernelArg, KernelHandle, uint32_t index, size_t bytes, const void* value)                            \
  F(Status, clEnqueueNDRangeKernel, Queue, KernelHandle, uint32_t dimensions, const size_t* offset,                   \
    const size_t* items, const size_t* group, uint32_t after, const Event*, Event*)                                   \
  F(Status, clGetEventProfilingInfo, Event, uint32_t what, size_t room, void* value, size_t* bytes)                   \
  F(Status, clReleaseEvent, Event)

/// Every function, or why there are none.
struct Functions {
#define F(type, name, ...) type (*name)(__VA_ARGS__) = nullptr;
  TOY_OPENCL_FUNCTIONS(F)
#undef F
  std::string missing;  ///< the library or a function that it lacks; "": nothing
};
/// Loads libOpenCL.so.1 once.
const Functions& functions();

/// Throws Error{failure} for a status other than kOk, with its name.
void check_status(Status status, std::string_view what);

}  // namespace toy::gpu::opencl
