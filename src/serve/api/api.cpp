#include "serve/api/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "dialog/fields.h"
#include "dialog/messages.h"
#include "dialog/normalized.h"
#include "serve/api/sampler_fields.h"
#include "serve/http/request_body.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"

namespace toy::serve {
namespace {

using nlohmann::ordered_json;

std::vector<int32_t> ids_of(const ordered_json& j, const std::string& name) {
  std::vector<int32_t> ids;
  for (const auto& id : j) {
    if (!id.is_number_integer() || id < 0 || id > INT32_MAX)
      refuse(fmt::format("'{}' has an item that is not a token id, a whole number from 0", name), name);
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

void read_logprobs(Fields& f, CompletionRequest& r) {
  int64_t top = 0;
  if (!r.chat) {
    const ordered_json* wanted = f.take("logprobs");
    if (wanted == nullptr || *wanted == false) return;
    try {
      r.logprobs = int(json_number<int64_t>(*wanted, "logprobs", 0, kMostTopLogprobs));
    } catch (const Error& e) {
      refuse(e.what(), "logprobs");
    }
    return;
  }
  const ordered_json* given = f.take("logprobs");
  if (given && !given->is_boolean())
    refuse("'logprobs' is not true or false; 'top_logprobs' says how many alternatives", "logprobs");
  const bool wanted = given && given->get<bool>();
  f.number<int64_t>("top_logprobs", top, 0, kMostTopLogprobs);
  if (top > 0 && !wanted) refuse("'top_logprobs' needs 'logprobs': true", "top_logprobs");
  if (wanted) r.logprobs = int(top);
}

void read_stream(Fields& f, CompletionRequest& r) {
  r.stream = f.flag("stream", false);
  const ordered_json* options = f.take("stream_options");
  if (options == nullptr) return;
  Fields o(*options, "stream_options");  // without a stream there is nothing to change
  r.include_usage = o.flag("include_usage", false);
  o.finish();
}

// None, and -1: any.
std::optional<uint64_t> seed_of(Fields& f) {
  if (!f.has("seed")) return std::nullopt;
  int64_t seed = 0;
  f.number<int64_t>("seed", seed, INT64_MIN, INT64_MAX);
  if (seed == -1) return std::nullopt;  // any
  return uint64_t(seed);
}

void read_form(Fields& f, CompletionRequest& r) {
  const auto set = [&](TextForm form) {
    if (form.kind == TextForm::any) return;
    if (r.form.kind != TextForm::any)
      refuse(fmt::format("'{}' and '{}' both say what the text has to be; give one of them", r.form.field, form.field),
             form.field);
    r.form = std::move(form);
  };
  if (const ordered_json* format = r.chat ? f.take("response_format") : nullptr)
    set(text_form_of(*format, "response_format", true));
  for (const char* name : {"json_schema", "guided_json"})  // the second one is vLLM's
    if (const ordered_json* schema = f.take(name)) set({TextForm::json_schema, *schema, "", name});
  for (const char* name : {"grammar", "guided_grammar"})
    if (const std::string grammar = f.text(name); !grammar.empty()) set({TextForm::gbnf, {}, grammar, name});
}

void read_order(Fields& f, CompletionRequest& r) {
  f.number<int>("priority", r.priority, INT32_MIN, INT32_MAX);
  if (!f.has("timeout")) return;
  double seconds = 0;
  f.number<double>("timeout", seconds, 0, 1e6);
  if (seconds == 0) refuse("'timeout' is 0, expected seconds above 0", "timeout");
  r.timeout = seconds;
}

void read_tools(Fields& f, CompletionRequest& r) {
  r.tools = tools_of(f.take("tools"));
  r.tool_choice = tool_choice_of(f.take("tool_choice"), r.tools);
  r.parallel_tool_calls = f.flag("parallel_tool_calls", true);
}

// Variables of the chat template, under the names that clients have for them.
void read_variables(Fields& f, CompletionRequest& r) {
  if (f.has("enable_thinking")) r.variables["enable_thinking"] = f.flag("enable_thinking", true);
  if (const ordered_json* thinking = f.take("thinking")) read_thinking(*thinking, "thinking", r);
  std::string effort;
  if (const ordered_json* reasoning = f.take("reasoning")) {
    Fields o(*reasoning, "reasoning");
    effort = o.text("effort");
    if (o.has("enabled") && !o.flag("enabled", true)) r.variables["enable_thinking"] = false;
    o.ignore("exclude"), o.ignore("max_tokens");
    o.finish();
    if (!effort.empty()) set_effort(r, effort, "reasoning.effort");
  }
  effort = f.text("reasoning_effort");
  if (!effort.empty()) set_effort(r, effort, "reasoning_effort");
  if (const ordered_json* given = f.take("chat_template_kwargs")) {
    const ordered_json variables = dialog::template_variables(*given);
    for (const auto& [name, value] : variables.items()) {
      r.variables[name] = value;
      r.hints[name] = "chat_template_kwargs." + name;
    }
  }
}

// An answer at the end is continued, as vLLM's continue_final_message does.
void read_continuation(Fields& f, CompletionRequest& r) {
  const bool answered = is_answer(r.messages.back());
  r.continues = f.flag("continue_final_message", answered);
  if (r.continues && !answered)
    refuse("'continue_final_message' needs an answer of the assistant at the end of 'messages'",
           "continue_final_message");
  if (!f.flag("add_generation_prompt", !r.continues) && !r.continues)
    refuse("'add_generation_prompt' is false, but an answer begins after these messages", "add_generation_prompt");
}

}  // namespace

std::vector<PromptSource> sources_of(const ordered_json* j, const std::string& name) {
  const auto forms = [&]() {
    refuse(fmt::format("'{}' is not a string, an array of strings, of token ids, or of arrays of them", name), name);
  };
  if (j == nullptr) refuse(fmt::format("'{}' is missing", name), name, "missing_required_parameter");
  if (j->is_string()) return {j->get<std::string>()};
  if (!j->is_array()) forms();
  if (j->empty()) refuse_at(name, "is an empty array; send one text or more");
  if (j->front().is_number()) return {ids_of(*j, name)};
  std::vector<PromptSource> sources;
  for (const auto& item : *j)
    if (item.is_string())
      sources.emplace_back(item.get<std::string>());
    else if (item.is_array())
      sources.emplace_back(ids_of(item, name));
    else
      forms();
  return sources;
}

std::vector<std::string> stops_of(const ordered_json* j, const std::string& name) {
  std::vector<std::string> stops;
  if (j == nullptr) return stops;
  const auto add = [&](const ordered_json& item) {
    if (!item.is_string()) refuse(fmt::format("'{}' is not a string, or an array of strings", name), name);
    if (item.get_ref<const std::string&>().empty()) return;  // it ends no text
    stops.push_back(item.get<std::string>());
    if (stops.back().size() > kMostStopBytes)
      refuse(fmt::format("'{}' has a string of {} bytes; use at most {}", name, stops.back().size(), kMostStopBytes),
             name);
  };
  if (j->is_array() && int64_t(j->size()) > kMostStops)
    refuse(fmt::format("'{}' has {} strings; use at most {}", name, j->size(), kMostStops), name);
  if (j->is_array())
    for (const auto& item : *j) add(item);
  else
    add(*j);
  return stops;
}

std::string shortened(std::string text) {
  constexpr size_t kBegin = 600, kEnd = 390;
  if (text.size() <= 1000) return text;
  const auto begins_character = [&](size_t i) { return (static_cast<unsigned char>(text[i]) & 0xc0) != 0x80; };
  size_t begin = kBegin, end = text.size() - kEnd;
  while (begin > 0 && !begins_character(begin)) --begin;
  while (end < text.size() && !begins_character(end)) ++end;
  return text.substr(0, begin) + " ... " + text.substr(end);
}

std::string error_body(const ApiError& e) {
  const char* type = e.status == 401   ? "authentication_error"
                     : e.status == 429 ? "rate_limit_error"
                     : e.status >= 500 ? "server_error"
                                       : "invalid_request_error";
  const auto or_null = [](const std::string& s) { return s.empty() ? ordered_json() : ordered_json(s); };
  return json_text(ordered_json{
      {"error", {{"message", e.what()}, {"type", type}, {"param", or_null(e.param)}, {"code", or_null(e.code)}}}});
}

TextForm text_form_of(const ordered_json& format, const std::string& path, bool is_nested) {
  if (!format.is_object()) refuse_at(path, R"(is not an object, such as {"type": "json_object"})");
  Fields f(format, path);
  const std::string type = f.text("type");
  TextForm form{.kind = TextForm::any, .schema = {}, .grammar = "", .field = path};
  if (type == "json_schema") {
    std::optional<Fields> inner;
    if (is_nested && !f.has("json_schema") && f.has("schema"))
      refuse_at(f.path("json_schema"),
                R"(is missing; 'schema' belongs in it: "json_schema": {"name": ..., "schema": ...})");
    if (is_nested) inner.emplace(f.needed("json_schema"), f.path("json_schema"));
    Fields& s = inner ? *inner : f;
    s.text("name"), s.text("description"), s.flag("strict", false);  // the text always follows the schema
    form.kind = TextForm::json_schema, form.schema = s.needed("schema"), form.field = s.path("schema");
    s.finish();
  } else if (type == "json_object") {
    const ordered_json* schema = is_nested ? f.take("schema") : nullptr;  // as in llama-server
    form.kind = TextForm::json_object;
    if (schema) form.kind = TextForm::json_schema, form.schema = *schema, form.field = f.path("schema");
  }
  f.finish();
  if (type != "text" && form.kind == TextForm::any)
    refuse_at(f.path("type"), fmt::format("is '{}', expected text, json_object or json_schema", one_line(type)));
  return form;
}

void set_effort(CompletionRequest& r, const std::string& effort, const std::string& field) {
  if (effort == "none") return set_hint(r, "enable_thinking", false, field);
  set_hint(r, "reasoning_effort", effort, field);
}

bool is_answer(const ordered_json& message) {
  return message.value("role", "") == "assistant" && !message.contains("tool_calls");
}

void set_hint(CompletionRequest& r, const std::string& variable, ordered_json value, const std::string& field) {
  r.variables[variable] = std::move(value);
  r.hints[variable] = field;
}

void read_thinking(const ordered_json& thinking, const std::string& path, CompletionRequest& r) {
  if (thinking.is_boolean()) return set_hint(r, "enable_thinking", thinking, path);
  Fields f(thinking, path);
  const std::string type = f.needed_text("type");
  if (type != "disabled" && type != "adaptive" && type != "enabled" && type != "auto")
    refuse_at(f.path("type"), fmt::format("is '{}', expected disabled, enabled or adaptive", one_line(type)));
  if (type == "disabled") r.variables["enable_thinking"] = false;
  if (type == "enabled") set_hint(r, "enable_thinking", true, f.path("type"));
  f.finish();
}

void read_max_tokens(Fields& f, CompletionRequest& r) {
  for (const char* name : {"max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens", "n_predict"}) {
    if (!f.has(name)) continue;
    int64_t n = 0;
    f.number<int64_t>(name, n, INT64_MIN, kMostTokens);
    const int64_t least = r.chat ? 1 : 0;
    if (n < least && n != -1)
      refuse(fmt::format("'{}' is {}, expected {} or more, or -1 for as many as fit", name, n, least), name);
    if (n == -1) n = kMostTokens;
    r.max_tokens = std::min(r.max_tokens.value_or(n), n);
  }
}

void read_common_fields(Fields& f, CompletionRequest& r) {
  read_form(f, r);
  r.seed = seed_of(f);
  read_order(f, r);
  read_sampler_fields(f, r);
  r.lora = lora_of(f.take("lora"));
  r.stops = stops_of(f.take("stop"), "stop");
  r.ignore_eos = f.flag("ignore_eos", false);
}

CompletionRequest parse_completion(const std::string& body, bool chat, const UsualSampling& usual) {
  const ordered_json j = parse_body(body);
  Fields f(j);
  CompletionRequest r(usual);
  r.chat = chat;
  r.model = f.text("model");
  read_max_tokens(f, r);
  const char *needed = chat ? "messages" : "prompt", *other = chat ? "prompt" : "messages";
  if (!f.has(needed) && f.has(other))
    refuse_at(needed, fmt::format("is missing; '{}' is for POST /v1/{}completions", other, chat ? "" : "chat/"),
              "missing_required_parameter");
  if (chat) {
    r.source = "messages";
    r.messages = normalized_messages(f.needed("messages"), OtherFields::noted);
    read_tools(f, r);
    read_variables(f, r);
    read_continuation(f, r);
  } else {
    r.prompts = sources_of(&f.needed("prompt"), "prompt");
    r.suffix = f.text("suffix");
    r.hole = !r.suffix.empty();
    r.parse_special = f.flag("parse_special", true);
    r.echo = f.flag("echo", false);
  }
  read_common_fields(f, r);
  f.number<int64_t>("n", r.n, 1, kMostChoices);
  if (int64_t(r.prompts.size()) > kMostChoices / r.n)
    refuse(fmt::format("{} prompts with n = {} are more than {} choices", r.prompts.size(), r.n, kMostChoices), "n");
  read_stream(f, r);
  read_logprobs(f, r);
  r.token_ids = f.flag("return_token_ids", false);
  if (r.token_ids && !r.logprobs) refuse("'return_token_ids' needs 'logprobs'", "return_token_ids");
  if (r.echo && r.stream) refuse("'echo' with 'stream' is not supported; use one of them", "echo");
  if (r.echo && r.hole) refuse("'echo' with 'suffix' is not supported; use one of them", "echo");
  f.finish();
  return r;
}

std::optional<std::map<int64_t, double>> lora_of(const ordered_json* j) {
  if (j == nullptr) return std::nullopt;
  if (!j->is_array() || int64_t(j->size()) > kMostBiases)
    refuse(R"('lora' is not an array of objects, {"id": 0, "scale": 1})", "lora");
  std::map<int64_t, double> factors;
  for (size_t i = 0; i < j->size(); ++i) {
    Fields o((*j)[i], fmt::format("lora[{}]", i));
    for (const char* name : {"id", "scale"})
      if (!o.has(name)) refuse_at(o.path(name), R"(is missing, expected {"id": NUMBER, "scale": FACTOR})");
    int64_t id = 0;
    double scale = 0;
    o.number<int64_t>("id", id, 0, INT32_MAX);
    o.number<double>("scale", scale, -1e6, 1e6);
    o.finish();
    if (!factors.emplace(id, scale).second) refuse(fmt::format("'lora' has the id {} twice", id), "lora");
  }
  return factors;
}

TokenizeRequest parse_tokenize(const std::string& body) {
  const ordered_json j = parse_body(body);
  Fields f(j);
  TokenizeRequest r;
  const ordered_json& content = f.needed("content");
  if (!content.is_string()) refuse_at("content", "is not a string");
  r.content = content.get<std::string>();
  r.with_pieces = f.flag("with_pieces", false);
  r.add_special = f.flag("add_special", false);
  r.parse_special = f.flag("parse_special", true);
  f.finish();
  return r;
}

TemplateRequest parse_apply_template(const std::string& body) {
  const ordered_json j = parse_body(body);
  Fields f(j);
  TemplateRequest r{normalized_messages(f.needed("messages"), OtherFields::noted), tools_of(f.take("tools"))};
  if (const ordered_json* variables = f.take("chat_template_kwargs"))
    r.variables = dialog::template_variables(*variables);
  r.add_generation_prompt = f.flag("add_generation_prompt", true);
  f.finish();
  return r;
}

namespace {

std::vector<int32_t> tokens_of(Fields& f) {
  const ordered_json& tokens = f.needed("tokens");
  if (!tokens.is_array()) refuse("'tokens' is not an array of token ids", "tokens");
  return ids_of(tokens, "tokens");
}

}  // namespace

std::vector<int32_t> parse_detokenize(const std::string& body) {
  const ordered_json j = parse_body(body);
  Fields f(j);
  std::vector<int32_t> ids = tokens_of(f);
  f.finish();
  return ids;
}

LookRequest parse_look(const std::string& body) {
  const ordered_json j = parse_body(body);
  Fields f(j);
  LookRequest r;
  r.model = f.text("model");
  if (!f.has("tokens") && (f.has("text") || f.has("prompt") || f.has("content")))
    refuse("'tokens' is missing; POST /tokenize gives those of a text", "tokens", "missing_required_parameter");
  r.tokens = tokens_of(f);
  f.finish();
  return r;
}

std::string token_text(const std::string& bytes) {
  if (is_utf8(bytes)) return bytes;
  std::string text = "bytes:";
  for (const char c : bytes) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return text;
}

}  // namespace toy::serve
