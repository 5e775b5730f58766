#include "toy/chat/builtin.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "toy/base/error.h"
#include "toy/base/nearest.h"

namespace toy {
namespace {

/// The forms are public: those of ChatML, Llama 3 and Zephyr in their models' cards.
struct Builtin {
  std::string_view name;
  std::vector<std::string_view> tokens;  ///< that must be one token each
  bool needs_eos;                        ///< it ends answers with eos_token
  std::string_view source;
};
const std::vector<Builtin>& builtins() {
  static const std::vector<Builtin> kAll = {
      {"chatml",
       {"<|im_start|>", "<|im_end|>"},
       false,
       "{%- for message in messages -%}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + "
       "'<|im_end|>\\n' }}{%- endfor -%}{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}"},
      {"llama3",
       {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
       false,
       "{{- bos_token }}{%- for message in messages -%}{{ '<|start_header_id|>' + message['role'] + "
       "'<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}{%- endfor -%}"
       "{%- if add_generation_prompt -%}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif -%}"},
      {"plain",
       {},
       true,
       "{%- for message in messages -%}{%- if message['role'] == 'assistant' -%}{{ 'Assistant:\\n' + "
       "message['content'] + eos_token + '\\n\\n' }}{%- else -%}{{ message['role'] | capitalize + ':\\n' + "
       "message['content'] + '\\n\\n' }}{%- endif -%}{%- endfor -%}{%- if add_generation_prompt -%}"
       "{{ 'Assistant:\\n' }}{%- endif -%}"},
      {"zephyr",
       {},
       true,
       "{%- for message in messages -%}{{ '<|' + message['role'] + '|>\\n' + message['content'] + eos_token + '\\n' }}"
       "{%- endfor -%}{%- if add_generation_prompt -%}{{ '<|assistant|>\\n' }}{%- endif -%}"},
  };
  return kAll;
}

}  // namespace

std::vector<std::string> builtin_chat_templates() {
  std::vector<std::string> names;
  for (const Builtin& b : builtins()) names.emplace_back(b.name);
  return names;
}

namespace {

std::vector<std::string> missing_tokens(const Builtin& b, const Tokenizer& tokenizer) {
  std::vector<std::string> missing;
  for (const std::string_view token : b.tokens)
    if (tokenizer.encode(token, {.parse_special = true}).size() != 1) missing.emplace_back(token);
  return missing;
}

bool has_end(const Tokenizer& tokenizer) { return tokenizer.eos() && !tokenizer.written(*tokenizer.eos()).empty(); }

const Builtin* find(std::string_view name) {
  const auto found = std::ranges::find(builtins(), name, &Builtin::name);
  return found == builtins().end() ? nullptr : &*found;
}

// "plain (or zephyr)"
std::string first_or_others(const std::vector<std::string>& names, const char* none) {
  if (names.empty()) return none;
  const auto others = fmt::format("{}", fmt::join(names.begin() + 1, names.end(), ", "));
  return fmt::format("{}{}", names[0], others.empty() ? "" : " (or " + others + ")");
}

ChatTemplate template_of(const Builtin& b) {
  return ChatTemplate(std::string(b.source), fmt::format("chat template {}", b.name));
}

}  // namespace

std::optional<ChatTemplate> builtin_chat_template(std::string_view name, const Tokenizer& tokenizer) {
  const Builtin* found = find(name);
  if (!found) return std::nullopt;
  const std::vector<std::string> missing = missing_tokens(*found, tokenizer);
  check(missing.empty(), "the chat template {} needs tokens that the vocabulary lacks: {}; use {}", name,
        fmt::join(missing, ", "), first_or_others(usable_chat_templates(tokenizer), "a file"));
  check(!found->needs_eos || has_end(tokenizer),
        "the chat template {} ends answers with an end-of-sequence token, which the vocabulary lacks; use {}", name,
        first_or_others(usable_chat_templates(tokenizer), "a file"));
  return template_of(*found);
}

std::vector<std::string> usable_chat_templates(const Tokenizer& tokenizer) {
  std::vector<std::string> names;
  for (const Builtin& b : builtins())
    if (missing_tokens(b, tokenizer).empty() && (!b.needs_eos || has_end(tokenizer))) names.emplace_back(b.name);
  return names;
}

std::string chat_template_option(const Tokenizer& tokenizer) {
  return "--chat-template " + first_or_others(usable_chat_templates(tokenizer), "FILE");
}

ChatTemplate chat_template_named(const std::string& name_or_file, const Tokenizer& tokenizer) {
  if (auto builtin = builtin_chat_template(name_or_file, tokenizer)) return *builtin;
  return chat_template_named(name_or_file);
}

ChatTemplate chat_template_named(const std::string& name_or_file) {
  if (const Builtin* builtin = find(name_or_file)) return template_of(*builtin);
  std::error_code error;
  const std::string near = nearest(name_or_file, builtin_chat_templates());
  check(std::filesystem::exists(name_or_file, error), "chat-template: '{}' is no file and none of {}{}", name_or_file,
        fmt::join(builtin_chat_templates(), ", "), near.empty() ? "" : fmt::format("; did you mean '{}'?", near));
  return load_chat_template_file(name_or_file);
}

}  // namespace toy
