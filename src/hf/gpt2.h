// GPT2LMHeadModel of transformers.
#pragma once

#include "hf/models.h"

namespace toy::hf {

void read_gpt2(const Config& c, Reading& r);
void write_gpt2(nlohmann::ordered_json& c, const ModelSpec& m);

}  // namespace toy::hf
