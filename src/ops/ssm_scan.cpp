// The selective state space of Mamba-2 (Dao and Gu 2024, "Transformers are SSMs"): gated_delta_rule without its delta.
#include "toy/ops/ops.h"

namespace toy {

DeltaRule ssm_scan(Value x, Value dt, Value a, Value b, Value c, Value s, Value seq, Value pos) {
  return gated_delta_rule(c, b, x, dt * a, dt, s, seq, pos, {HeadMap::interleave, false});
}

DeltaRule ssm_scan_update(Value s, Value x, Value dt, Value a, Value b, Value c, Value seq, Value pos) {
  return gated_delta_rule_update(s, c, b, x, dt * a, dt, seq, pos, {HeadMap::interleave, false});
}

}  // namespace toy
