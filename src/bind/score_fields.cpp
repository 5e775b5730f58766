#include "bind/score_fields.h"

#include <nlohmann/json.hpp>

#include "toy/base/json_text.h"

namespace toy::bind {

using nlohmann::ordered_json;

ordered_json score_fields(const TextScore& s) {
  return {{"tokens", s.tokens},
          {"bytes", s.bytes},
          {"nats_per_token", s.nats_per_token()},
          {"nats_per_token_error", s.standard_error},
          {"perplexity", s.perplexity()},
          {"perplexity_error", s.perplexity_error()},
          {"nats_per_byte", s.nats_per_byte()},
          {"bits_per_byte", s.bits_per_byte()},
          {"bits_per_byte_error", s.bits_per_byte_error()}};
}

std::string score_json(const TextScore& s) { return json_text(score_fields(s)); }

}  // namespace toy::bind
