#include "dialog/hints.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "toy/base/json_text.h"
#include "toy/chat/chat_input.h"

namespace toy::dialog {
namespace {

using nlohmann::ordered_json;

struct Row {
  std::string_view name;
  const char* word;
};

// What clients say for their provider, their own books or their cache. It cannot change what the model writes.
constexpr Row kHarmless[] = {
    // Who asks, for what, and how it is kept.
    {"user", "who asks"},
    {"safety_identifier", "who asks"},
    {"metadata", "the client's own notes"},
    {"client_metadata", "the client's own notes"},
    {"litellm_metadata", "the client's own notes"},
    {"store", "storage: nothing is stored here"},
    {"id", "the name of an earlier object"},
    {"object", "the kind of an earlier object"},
    {"created", "the time of an earlier object"},
    {"created_at", "the time of an earlier object"},
    {"status", "of an earlier object"},
    {"request_id", "the client's own name for a request"},
    {"session_id", "the client's own name for a conversation"},
    {"conversation_id", "the client's own name for a conversation"},
    {"index", "a place in a list"},
    {"title", "a name for people"},
    {"$schema", "the version of JSON Schema"},
    // Money, speed and the place in the queue of a provider.
    {"service_tier", "price and speed at a provider"},
    {"speed", "price and speed at a provider"},
    {"inference_geo", "where a provider computes"},
    {"provider", "which provider answers"},
    {"models", "other models to fall back to"},
    {"route", "which provider answers"},
    {"transforms", "what a proxy may shorten"},
    {"plugins", "what a proxy adds"},
    {"keep_alive", "how long a model stays loaded; here always"},
    {"prediction", "a guess that saves time only"},
    {"num_ctx", "the context of Ollama's models; here --ctx"},
    {"num_keep", "what to keep of a context that is full; here a text ends there"},
    {"num_batch", "how Ollama computes"},
    {"num_gpu", "how Ollama computes"},
    {"main_gpu", "how Ollama computes"},
    {"num_thread", "how Ollama computes"},
    {"numa", "how Ollama computes"},
    {"low_vram", "how Ollama computes"},
    {"f16_kv", "how Ollama computes"},
    {"use_mmap", "how Ollama computes"},
    {"use_mlock", "how Ollama computes"},
    // Caches: prefixes are found again by themselves.
    {"cache_control", "what to cache; all prefixes are, while there is room"},
    {"cache_prompt", "what to cache; all prefixes are, while there is room"},
    {"prompt_cache_key", "what to cache; all prefixes are, while there is room"},
    {"prompt_cache_retention", "what to cache; all prefixes are, while there is room"},
    {"prompt_cache_options", "what to cache; all prefixes are, while there is room"},
    {"ttl", "what to cache; all prefixes are, while there is room"},
    {"cache_salt", "what to cache; all prefixes are, while there is room"},
    {"n_keep", "what to keep of a context that is full; here a text ends there"},
    {"n_cache_reuse", "what to cache"},
    {"id_slot", "where to compute"},
    {"slot_id", "where to compute"},
    {"t_max_predict_ms", "a limit of time"},
    // How a reply is written, beside its text.
    {"include", "more parts of a reply"},
    {"include_obfuscation", "padding of a stream"},
    {"continuous_usage_stats", "usage in all parts of a stream"},
    {"timings_per_token", "times in a reply"},
    {"return_progress", "progress in a stream"},
    {"return_tokens", "ids in a reply"},
    {"response_fields", "which parts of a reply to send"},
    {"post_sampling_probs", "which probabilities a reply has"},
    {"reasoning_format", "where thoughts stand in a reply; here in reasoning_content"},
    {"reasoning_split", "where thoughts stand in a reply; here in reasoning_content"},
    {"include_reasoning", "whether a reply has thoughts; here it has"},
    {"parse_tool_calls", "whether calls are read; here they are"},
    {"display", "how much of thoughts to show; here all"},
    {"summary", "a summary of thoughts; here all of them are shown"},
    {"generate_summary", "a summary of thoughts; here all of them are shown"},
    {"verbosity", "a wish for long or short answers, which models here cannot be told"},
    {"echo_logprobs", "which probabilities a reply has"},
    // Of messages that earlier replies had.
    {"annotations", "sources of an earlier answer"},
    {"citations", "sources of an earlier answer"},
    {"logprobs", "probabilities of an earlier answer"},
    {"refusal", "of an earlier answer"},
    {"provider_specific_fields", "of an earlier answer"},
    {"provider_options", "of an earlier answer"},
    {"extra_content", "of an earlier answer"},
    {"reasoning_details", "of an earlier answer; reasoning_content has the text"},
    {"thinking_blocks", "of an earlier answer; reasoning_content has the text"},
    {"thought_signature", "of an earlier thought"},
    {"signature", "of an earlier thought"},
    {"encrypted_content", "an earlier thought that only its provider can read"},
    {"phase", "of an earlier answer"},
    {"caller", "who has called a tool"},
    {"namespace", "where a tool comes from"},
    {"usage", "of an earlier answer"},
    {"stop_reason", "of an earlier answer"},
    {"finish_reason", "of an earlier answer"},
    {"timestamp", "when a message was written"},
    // Budgets and modes that only some providers have.
    {"max_tool_calls", "a limit for tools of a provider"},
    {"context_management", "what a provider removes from long conversations"},
    {"budget_tokens", "a budget of thoughts"},
    {"thinking_budget", "a budget of thoughts"},
    {"thinking_budget_tokens", "a budget of thoughts"},
    {"reasoning_budget", "a budget of thoughts"},
    {"effort", "a wish for long or short thoughts"},
    {"web_search_options", "a tool of a provider"},
    {"enable_search", "a tool of a provider"},
    {"input_examples", "examples for a tool of a provider"},
    {"allowed_callers", "who may call a tool"},
    {"defer_loading", "when a provider shows a tool to the model; here always"},
    {"eager_input_streaming", "how arguments are streamed"},
    {"moderation", "a check of a provider"},
    {"safe_prompt", "a text that a provider adds"},
    {"truncate", "what to do with a long text; here it is refused"},
    {"truncate_prompt_tokens", "what to do with a long text; here it is refused"},
    {"name", "a name for people"},
    {"description", "a text for people"},
    {"user_id", "who asks"},
};

struct Change {
  std::string_view name;
  std::string_view harmless;  // values with which nothing changes, as JSON with '|' between them
  const char* word;
};

// What is so unless a request turns it off.
constexpr std::string_view kOn = "true";

// What would change the answer. false, 0, "" and empty lists say that it is not wanted.
constexpr Change kChanges[] = {
    {"audio", "", "asks for sound, and this server writes text only"},
    {"modalities", R"(["text"])", "asks for more than text, and this server writes text only"},
    {"images", "", "has pictures, and this server reads text only"},
    {"functions", "", "is the old form of tools, which is not supported; use 'tools'"},
    {"function_call", R"("auto"|"none")", "is the old form of calls, which is not supported; use 'tools'"},
    {"best_of", "1", "chooses among several texts, which is not supported; use 'n'"},
    {"use_beam_search", "", "searches with beams, which is not supported"},
    {"num_beams", "1", "searches with beams, which is not supported"},
    {"length_penalty", "1", "weighs beams, which are not supported"},
    {"min_tokens", "", "keeps a text from ending, which is not supported; use 'ignore_eos'"},
    {"logits_processors", "", "changes logits with code, which is not supported; use 'logit_bias'"},
    {"logits_processor", "", "changes logits with code, which is not supported; use 'logit_bias'"},
    {"bad_words", "", "forbids words, which is not supported; use 'logit_bias'"},
    {"allowed_token_ids", "", "forbids tokens, which is not supported; use 'logit_bias'"},
    {"stop_token_ids", "", "ends texts at tokens, which is not supported; use 'stop'"},
    {"include_stop_str_in_output", "", "keeps stop strings in the text, which is not supported"},
    {"skip_special_tokens", "true", "shows control tokens, which is not supported"},
    {"spaces_between_special_tokens", "true", "is about control tokens, which are not shown"},
    {"prompt_logprobs", "", "asks for scores of the prompt; use 'echo' and 'logprobs'"},
    {"guided_regex", "", "binds the text in a way that is not supported; use 'grammar'"},
    {"guided_choice", "", "binds the text in a way that is not supported; use 'grammar'"},
    {"structured_outputs", "", "binds the text in a way that is not supported; use 'response_format' or 'grammar'"},
    {"grammar_lazy", "", "binds a part of the text, which is not supported"},
    {"grammar_triggers", "", "binds a part of the text, which is not supported"},
    {"tfs_z", "1", "is a sampler that this server does not have"},
    {"epsilon_cutoff", "", "is a sampler that this server does not have"},
    {"eta_cutoff", "", "is a sampler that this server does not have"},
    {"top_a", "", "is a sampler that this server does not have"},
    {"do_sample", "true", "turns sampling off; use \"temperature\": 0"},
    {"random_seed", "-1", "is unknown here; use 'seed'"},
    {"mm_processor_kwargs", "", "is about pictures, and this server reads text only"},
    {"chat_template", "", "replaces the model's chat template, which is not supported; start with --chat-template"},
    {"context", "", "is an old form of conversations; use /api/chat"},
    {"template", "", "replaces the model's chat template, which is not supported; start with --chat-template"},
    {"image_data", "", "has pictures, and this server reads text only"},
    {"documents", "", "is a part of some chat templates, which is not supported"},
    {"mcp_servers", "", "needs other servers, which this one does not call"},
    {"container", "", "needs a machine of a provider, which this server does not have"},
    {"prompt_template", "", "names a prompt that a provider stores"},
    {"multi_item_delimiter", "", "is not supported"},
    // Fields of one API in another.
    {"messages", "", "is for chats: POST /v1/chat/completions"},
    {"prompt", "", "is for texts: POST /v1/completions"},
    {"input", "", "is for POST /v1/responses and /v1/embeddings"},
    {"system_prompt", "",
     "is unknown here; a system message is one with the role system, or 'system' where it is known"},
    {"system", "", "is for POST /v1/messages; here it is a message with the role system"},
    {"instructions", "", "is for POST /v1/responses; here it is a message with the role system"},
    {"stop", "", "is not known to this API"},
    {"max_tokens", "-1", "is not known to this API"},
    {"max_completion_tokens", "-1", "is not known to this API"},
    {"format", "", "binds the text in Ollama's API; use 'response_format'"},
    {"stop_sequences", "", "is not known to this API"},
    {"n", "1", "asks for several answers, which this API does not have"},
    {"seed", "-1", "is not known to this API; use /v1/chat/completions"},
    {"echo", "", "is for POST /v1/completions"},
    {"suffix", "", "is for POST /v1/completions"},
    {"tools", "", "is for chats"},
    {"tool_choice", R"("auto"|"none"|{"type":"auto"}|{"type":"none"})", "is for chats"},
    {"response_format", R"({"type":"text"})", "is for chats: POST /v1/chat/completions"},
    {"text", R"({"format":{"type":"text"}})", "is for POST /v1/responses"},
    {"output_config", "", "is for POST /v1/messages"},
    {"grammar", "", "is not known to this API; use /v1/chat/completions"},
    {"json_schema", "", "is not known to this API"},
    {"logit_bias", "", "is not known to this API; use /v1/chat/completions"},
    {"frequency_penalty", "", "is not known to this API; use /v1/chat/completions"},
    {"presence_penalty", "", "is not known to this API; use /v1/chat/completions"},
    {"top_logprobs", "", "asks for probabilities, which this API does not have"},
};

struct OtherName {
  std::string_view name;
  std::string_view here;  // names in other APIs with '|' between them
};

constexpr std::string_view kLengths = "max_tokens|max_output_tokens|num_predict|options.num_predict";

// What means the same under another name.
constexpr OtherName kOtherNames[] = {
    {"max_tokens", kLengths},
    {"max_completion_tokens", kLengths},
    {"max_new_tokens", kLengths},
    {"max_tokens_to_sample", kLengths},
    {"max_length", kLengths},
    {"n_predict", kLengths},
    {"num_predict", kLengths},
    {"system_prompt", "system|instructions"},
    {"temp", "temperature|options.temperature"},
    {"repetition_penalty", "repeat_penalty|options.repeat_penalty"},
    {"stop", "stop_sequences"},
    {"stop_sequences", "stop|options.stop"},
    {"response_format", "text.format|output_config.format"},
    {"ids", "tokens"},
    {"input_ids", "tokens"},
    {"token_ids", "tokens"},
    {"parameters", "input_schema"},
    {"input_schema", "parameters"},
};

constexpr OtherName kExamples[] = {
    {"messages", R"([{"role": "user", "content": "Hi"}])"},
    {"tokens", "[1, 2]"},
};

bool is_nothing(const ordered_json& v) {
  return v == false || v == "" || (v.is_number() && v == 0) || (v.is_structured() && v.empty());
}

bool is_one_of(const ordered_json& value, std::string_view values) {
  while (!values.empty()) {
    const size_t end = std::min(values.find('|'), values.size());
    if (parse_json<ordered_json>(values.substr(0, end)) == value) return true;
    values.remove_prefix(std::min(end + 1, values.size()));
  }
  return false;
}

// Does the value say that it is not wanted?
bool is_off(const ordered_json& value, std::string_view harmless) {
  return (is_nothing(value) && harmless != kOn) || is_one_of(value, harmless);
}

}  // namespace

std::string other_name(const std::string& name, const std::set<std::string>& known) {
  const auto* row = std::ranges::find(kOtherNames, name, &OtherName::name);
  if (row == std::end(kOtherNames)) return "";
  for (std::string_view rest = row->here; !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find('|'));
    const bool is_inside = one.starts_with("text.") || one.starts_with("output_config.");
    if (known.contains(std::string(is_inside ? one.substr(0, one.find('.')) : one))) return std::string(one);
    rest.remove_prefix(std::min(one.size() + 1, rest.size()));
  }
  return "";
}

std::string_view example_of(const std::string& name) {
  const auto* row = std::ranges::find(kExamples, name, &OtherName::name);
  return row == std::end(kExamples) ? std::string_view() : row->here;
}

Hint hint_of(const std::string& name, const ordered_json& value) {
  if (const auto* row = std::ranges::find(kChanges, name, &Change::name); row != std::end(kChanges))
    return {is_off(value, row->harmless) ? Hint::harmless : Hint::changes, row->word};
  if (const auto* row = std::ranges::find(kHarmless, name, &Row::name); row != std::end(kHarmless))
    return {Hint::harmless, row->word};
  return {};
}

}  // namespace toy::dialog
