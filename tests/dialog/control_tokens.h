// A tokenizer of bytes and some control tokens.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/bpe/byte_level.h"
#include "text/text_testing.h"
#include "text/vocabulary.h"

namespace toy::testing {

/// All bytes are tokens (ids 0 to 255), then come these control tokens. <|end|>, <|im_end|> and such end a generation.
inline std::shared_ptr<const Tokenizer> control_tokens(const std::vector<std::string>& names, bool add_bos = false) {
  const TemporaryGguf file([&](gguf::Writer& writer) {
    std::vector<std::string> tokens;
    std::vector<int32_t> types(256, int32_t(TokenType::normal));
    for (int byte = 0; byte < 256; ++byte) tokens.push_back(byte_level_name(uint8_t(byte)));
    for (const std::string& name : names) {
      tokens.push_back(name);
      types.push_back(int32_t(TokenType::control));
    }
    writer.set("tokenizer.ggml.model", gguf::Value(std::string("gpt2")));
    writer.set("tokenizer.ggml.pre", gguf::Value(std::string("gpt-2")));
    writer.set("tokenizer.ggml.tokens", gguf::Value(gguf::Array(tokens)));
    writer.set("tokenizer.ggml.token_type", gguf::Value(gguf::Array(types)));
    writer.set("tokenizer.ggml.merges", gguf::Value(gguf::Array(std::vector<std::string>())));
    writer.set("tokenizer.ggml.bos_token_id", gguf::Value(uint32_t(256)));
    writer.set("tokenizer.ggml.add_bos_token", gguf::Value(add_bos));
  });
  return load_tokenizer(file.open());
}

}  // namespace toy::testing
