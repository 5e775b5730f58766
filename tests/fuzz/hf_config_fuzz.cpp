// libFuzzer: any config.json is either refused with an Error or gives dimensions whose tensors have names, and which
// the config that we write states again.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "hf/models.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"

namespace {

void require_alike(const toy::ModelSpec& a, const toy::ModelSpec& b) {
  if (a.layers.size() != b.layers.size() || a.d_model != b.d_model || a.vocab != b.vocab) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace toy;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    hf::Config config(read_json<nlohmann::json>("config.json", text), "config.json");
    const hf::HfModel& model = hf::model_of(config);
    const hf::Reading reading = hf::read_config(model, config);
    if (reading.spec.layers.size() > 16) return 0;  // the same over and over
    for (const FileTensor& t : file_tensors(reading.spec))
      for (const TensorSpec& part : t.parts)
        if (hf::hf_name(model, part.name).empty()) std::abort();
    hf::Config again(nlohmann::json(hf::write_config(hf::model_of(reading.spec), reading.spec)), "config.json");
    require_alike(hf::read_config(hf::model_of(again), again).spec, reading.spec);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::bad_input) {
      std::fprintf(stderr, "not an error of the input: %s\n", e.what());
      std::abort();
    }
  }
  return 0;
}
