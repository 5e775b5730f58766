// The selective state space of Mamba-2 (Dao and Gu 2024, "Transformers are SSMs"): gated_delta_rule without its delta.
// Mamba-1 (Gu and Dao 2023) has a decay for each channel and state. With a gate for each channel of a key and heads of
// V=1 the same op computes that, but with one lane of each vector.
#include "toy/ops/ops.h"

namespace toy {

DeltaRule ssm_scan(Value x, Value dt, Value a, Value b, Value c, Value s, Value seq, Value pos) {
  return gated_delta_rule(c, b, x, dt * a, dt, s, seq, pos, {HeadMap::interleave, false});
}

DeltaRule ssm_scan_update(Value s, Value x, Value dt, Value a, Value b, Value c, Value seq, Value pos) {
  return gated_delta_rule_update(s, c, b, x, dt * a, dt, seq, pos, {HeadMap::interleave, false});
}

}  // namespace toy
