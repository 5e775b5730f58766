// libFuzzer: any model.safetensors.index.json is either refused with an Error or names files inside of its folder.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "hf/shards.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace toy;
  const std::filesystem::path folder = "/a/b/c";
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const hf::Config index(read_json<nlohmann::json>("index.json", text), "index.json");
    for (const std::string& file : hf::files_of_index(index)) {
      const std::filesystem::path path = (folder / file).lexically_normal();
      if (path.parent_path() != folder || path.filename() != file || file.find('\0') != file.npos) std::abort();
    }
    const hf::Config map = index.object("weight_map");
    for (const hf::HfModel& model : hf::models())
      for (const auto& [tensor, file] : map.values().items())
        if (hf::plain_name(tensor, model).size() > tensor.size() + 12) std::abort();
  } catch (const Error& e) {
    if (e.code() != ErrorCode::bad_input) std::abort();
  }
  return 0;
}
