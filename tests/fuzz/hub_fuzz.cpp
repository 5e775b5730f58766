// libFuzzer: any answer of a server is either refused with an Error or names files inside of a folder.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "fetch/hub.h"
#include "toy/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace toy;
  const std::filesystem::path folder = "/a/b/c";
  try {
    const fetch::Repo repo = fetch::parse_repo({reinterpret_cast<const char*>(data), size}, "fuzz");
    for (const fetch::RepoFile& f : repo.files)
      if (!(folder / f.path).lexically_normal().string().starts_with("/a/b/c/") || f.sum.size() < 40) std::abort();
    fetch::choose_files(repo, "", "fuzz");
  } catch (const Error& e) {
    if (e.code() != ErrorCode::bad_input) std::abort();
  }
  return 0;
}
