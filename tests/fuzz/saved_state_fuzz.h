// What fuzz_saved_state requires, and a unit test of its inputs.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "testing/aligned.h"
#include "testing/models.h"
#include "toy/backend/devices.h"
#include "toy/base/error.h"
#include "toy/decode/saved_state.h"

namespace toy::fuzz {

/// Of the smallest model, with a window in one of its two layers.
inline DecodeState& small_state() {
  static const std::unique_ptr<Device> device = make_reference_device();
  static DecodeState state = [] {
    ModelSpec spec = testing::small_model(
        "tiny",
        {.vocab = 8, .d_model = 2, .context = 200, .layers = 2, .heads = 1, .kv_heads = 1, .d_head = 2, .d_ff = 2});
    spec.layers[1].window = 70;
    return DecodeState(spec, *device, {.sequences = 1, .context = 200});
  }();
  return state;
}

/// Any bytes are refused with an Error{bad_input}, or are a state that the sequence takes. Returns whether they are.
inline bool saved_state(std::string_view bytes) {
  DecodeState& state = small_state();
  const testing::Aligned aligned(bytes);
  try {
    const SavedState saved = read_state(gguf::File::parse(aligned.span(), "fuzz.state"), state);
    state.restore(0, saved.snapshot);
    if (state.length(0) != int64_t(saved.tokens.size()) || saved.card.tokens != state.length(0)) std::abort();
    return true;
  } catch (const Error& e) {
    if (e.code() != ErrorCode::bad_input) std::abort();
    return false;
  }
}

}  // namespace toy::fuzz
