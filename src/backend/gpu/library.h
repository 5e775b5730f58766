// A shared library that is loaded when it is first needed, by name, so that the program starts without it.
#pragma once

#include <dlfcn.h>

#include <string>

namespace toy::gpu {

class Library {
 public:
  explicit Library(const char* name) : name_(name), handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
    if (!handle_) missing_ = dlerror();
  }
  template <class F>
  void find(F*& function, const char* name) {
    if (handle_) function = reinterpret_cast<F*>(dlsym(handle_, name));
    if (!function && missing_.empty()) missing_ = std::string(name_) + " has no " + name;
  }
  /// Why the library, or the first function that it lacks, was not found; "": all were.
  const std::string& missing() const { return missing_; }

 private:
  const char* name_;
  void* handle_;
  std::string missing_;
};

}  // namespace toy::gpu
