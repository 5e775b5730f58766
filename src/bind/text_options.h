// How texts are generated and scored, from JSON: what bindings and requests of programs pass.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dialog/answer_rules.h"
#include "toy/decode/scheduler.h"
#include "toy/eval/score.h"
#include "toy/models/model.h"

namespace toy::bind {

/// One text.
struct TextOptions {
  GenerateOptions generate;
  std::vector<std::string> stop;
  int64_t context = 0;
  std::optional<DType> kv = {};
  bool exact = false, bos = true, parse_special = true;
  bool length_is_given = false;  ///< max_tokens is; else as many as fit, at most that
  dialog::TextForm form = {};    ///< json_schema or grammar
  nlohmann::ordered_json tools;  ///< of chats; null: none
  std::string chat_template;     ///< of chats; "": the model's

  /// See toy/base/options.h.
  static void fields(auto& o, auto&& f) {
    f({"max_tokens", "Tokens to generate; by default 128, or as many as fit", at_least(0), "Output"},
      o.generate.max_tokens);
    f(text_option("stop", "Texts before which the answer ends", "Output", "TEXT"), o.stop);
    f({"ignore_eos", "Continue after a token that ends a text", {}, "Output"}, o.generate.ignore_eos);
    f({"logprobs", "Tokens have their log probabilities", {}, "Output"}, o.generate.logprobs);
    f({"top_logprobs", "Also the N best tokens at each position", from_to(0, 1 << 20), "Output"},
      o.generate.top_logprobs);
    f({"bos", "Begin with the tokenizer's beginning-of-sequence token", {}, "Prompt"}, o.bos);
    f({"parse_special", "Names of control tokens in the prompt are these tokens", {}, "Prompt"}, o.parse_special);
    read_fields(o, f);
  }
  /// Those of texts that are only read.
  static void read_fields(auto& o, auto&& f) {
    f({"context", "Positions of prompt and text; 0 takes the model's own", from_to(0, 1 << 24), "Machine"}, o.context);
    f(text_option("kv", "Type of keys and values; by default f32 for F32 models, else f16", "Machine", "f32|f16|q8_0"),
      o.kv);
    f({"exact", "Multiply quantized weights with activations that are not rounded (slower)", {}, "Machine"}, o.exact);
  }
};

/// What a text is, for defaults.
enum class TextKind {
  continuation,  ///< of a prompt: takes the likeliest tokens unless the model's file says otherwise, as `toy infer`
  chat,          ///< an answer to messages, as `toy chat`
};

/// Options of a text of this model, with the model's own defaults of sampling. Besides TextOptions::fields() and
/// SamplerOptions::fields() there are samplers, logit_bias, dry_sequence_breakers, json_schema and grammar, and for
/// chats tools and chat_template. Throws Error{bad_input} naming the option.
TextOptions parse_text_options(std::string_view json, const Model& model, TextKind kind);

/// How texts are scored: `toy eval`'s options.
struct ScoreTextOptions {
  ScoreOptions score;
  bool bos = true, parse_special = true, by_documents = false;
  /// See toy/base/options.h.
  static void fields(auto& o, auto&& f) {
    f({"context", "Tokens per window; 0 takes the model's context", from_to(0, 1 << 24), "Batch"}, o.score.context);
    f({"stride", "Tokens between windows; 0 takes half of a window", at_least(0), "Batch"}, o.score.stride);
    f({"bos", "Begin with the tokenizer's beginning-of-sequence token", {}, "Data"}, o.bos);
    f({"parse_special", "Names of control tokens in the text are these tokens", {}, "Data"}, o.parse_special);
    f({"by_documents", "Score documents, separated by blank lines, each from a fresh state", {}, "Data"},
      o.by_documents);
    f(text_option("kv", "Type of keys and values; by default f32 for F32 models, else f16", "Machine", "f32|f16|q8_0"),
      o.score.kv);
    f({"exact", "Multiply quantized weights with activations that are not rounded (slower)", {}, "Machine"},
      o.score.exact);
  }
};
/// From JSON. Throws Error{bad_input} naming the option.
ScoreTextOptions parse_score_options(std::string_view json);

}  // namespace toy::bind
