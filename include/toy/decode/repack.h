// When repacked copies of quantized weights pay.
#pragma once

#include <cstdint>

#include "toy/models/model.h"

namespace toy {

/// Does DecoderOptions::repack save more time than making the copies takes, to generate or score so many tokens, and is
/// there memory for them?
bool repack_pays(const Model& model, int64_t generated, int64_t scored);

}  // namespace toy
