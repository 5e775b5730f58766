// The files of a tokenizer as one JSON object, by name; tests/fuzz/make_hf_corpus.py writes such.
#pragma once

#include "hf/tokenizer_files.h"

namespace toy::testing {

inline hf::TokenizerFiles files_in_json(const hf::Config& all) {
  hf::TokenizerFiles files;
  files.folder = "folder";
  files.config = all.object("config.json");
  files.tokenizer_config = all.object("tokenizer_config.json");
  files.special_tokens_map = all.object("special_tokens_map.json");
  files.added_tokens = all.object("added_tokens.json");
  files.generation_config = all.object("generation_config.json");
  if (all.has("tokenizer.json")) files.tokenizer_json = all.object("tokenizer.json");
  files.tokenizer_model = all.text("tokenizer.model", "");
  return files;
}

}  // namespace toy::testing
