#include "backend/gpu/opencl/functions.h"

#include <map>

#include "backend/gpu/library.h"
#include "toy/base/error.h"

namespace toy::gpu::opencl {

const Functions& functions() {
  static const Functions loaded = [] {
    Functions f;
    Library library("libOpenCL.so.1");
#define F(type, name, ...) library.find(f.name, #name);
    TOY_OPENCL_FUNCTIONS(F)
#undef F
    f.missing = library.missing();
    return f;
  }();
  return loaded;
}

void check_status(Status status, std::string_view what) {
  if (status == kOk) return;
  // OpenCL has no function for their names.
  static const std::map<Status, const char*> names = {
      {-1, "no device"},
      {-2, "the device is not available"},
      {-3, "the driver has no compiler"},
      {-4, "no memory on the device"},
      {-5, "out of resources; a kernel may have failed"},
      {-6, "no memory on the host"},
      {-11, "the program could not be compiled"},
      {-13, "an address is not aligned"},
      {-14, "a kernel failed"},
      {-46, "no kernel has that name"},
      {-52, "an argument of the kernel is missing"},
      {-54, "work-groups cannot have that size"},
      {-61, "a buffer cannot have that size"},
  };
  const auto name = names.find(status);
  fail_internal("device 'opencl': {}: {} (error {})", what,
                name == names.end() ? "the driver reports it" : name->second, status);
}

}  // namespace toy::gpu::opencl
