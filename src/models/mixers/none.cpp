// A layer that is only an ffn.
#include "models/mixers/mixer.h"
#include "toy/base/error.h"

namespace toy::nn {

MixerDef none_mixer() {
  return {.word = "ffn", .title = "ffn alone", .part = ModelPart::ffn, .check = [](const ModelSpec& m, size_t layer) {
            check(m.layers[layer].d_ff > 0, "model {}: layer {}: mixer is none and d_ff 0, so it has nothing", m.name,
                  layer);
          }};
}

}  // namespace toy::nn
