#include "serve/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <set>

#include "dialog/fields.h"
#include "dialog/messages.h"
#include "serve/request_body.h"
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

void read_sampler(Fields& f, SamplerOptions& s) {
  s.temperature = 1;
  s.penalty_last_n = -1;
  f.number<double>("temperature", s.temperature, 0, 100);
  f.number<double>("top_p", s.top_p, 0, 1);
  if (s.top_p == 0) refuse("'top_p' is 0, expected above 0 and at most 1", "top_p");
  f.number<int>("top_k", s.top_k, 0, INT32_MAX);
  f.number<double>("min_p", s.min_p, 0, 1);
  f.number<double>("frequency_penalty", s.frequency_penalty, -2, 2);
  f.number<double>("presence_penalty", s.presence_penalty, -2, 2);
  f.number<double>("repeat_penalty", s.repeat_penalty, 0.01, 100);
  f.number<int64_t>("repeat_last_n", s.penalty_last_n, -1, int64_t(1) << 31);
}

std::vector<SamplerStep> sampler_steps_of(const ordered_json& names) {
  std::string all;
  if (!names.is_array()) refuse(R"('samplers' is not an array of names, such as ["top_k", "temperature"])", "samplers");
  for (const ordered_json& name : names) {
    if (!name.is_string()) refuse(R"('samplers' has an item that is not a name, such as "top_k")", "samplers");
    all += (all.empty() ? "" : ";") + name.get<std::string>();
  }
  try {
    return parse_sampler_steps(all);
  } catch (const Error& e) {
    refuse(one_line(e.what()), "samplers");
  }
}

// Names and values of llama-server.
void read_sampler_chain(Fields& f, CompletionRequest& r) {
  SamplerOptions& s = r.sampler;
  constexpr double kMost = 1e6;
  constexpr int64_t kMostTokens = int64_t(1) << 31;
  const auto above_0 = [&](const char* name, double& value, double most) {
    f.number<double>(name, value, 0, most);
    if (value == 0) refuse(fmt::format("'{}' is 0, expected above 0 and at most {:g}", name, most), name);
  };
  f.number<double>("dynatemp_range", s.dynatemp_range, 0, 100);
  above_0("dynatemp_exponent", s.dynatemp_exponent, kMost);
  above_0("typical_p", s.typical_p, 1);
  f.number<double>("top_n_sigma", s.top_n_sigma, 0, kMost);
  f.number<double>("xtc_probability", s.xtc_probability, 0, 1);
  above_0("xtc_threshold", s.xtc_threshold, 1);
  f.number<double>("dry_multiplier", s.dry_multiplier, 0, kMost);
  f.number<double>("dry_base", s.dry_base, 1, kMost);
  f.number<int64_t>("dry_allowed_length", s.dry_allowed_length, 0, kMostTokens);
  f.number<int64_t>("dry_penalty_last_n", s.dry_penalty_last_n, -1, kMostTokens);
  if (f.has("dry_sequence_breakers"))
    r.dry_breakers = stops_of(f.take("dry_sequence_breakers"), "dry_sequence_breakers");
  int mirostat = 0;
  f.number<int>("mirostat", mirostat, 0, 2);
  if (mirostat == 1) refuse("'mirostat' is 1, expected 2, or 0 to turn it off", "mirostat");
  s.mirostat = mirostat == 2;
  above_0("mirostat_tau", s.mirostat_tau, kMost);
  above_0("mirostat_eta", s.mirostat_eta, kMost);
  if (const ordered_json* names = f.take("samplers")) s.steps = sampler_steps_of(*names);
  try {
    const Sampler options_go_together(s);
  } catch (const Error& e) {
    refuse(e.what(), s.mirostat ? "mirostat" : "samplers");
  }
}

// {"ID": number to add to the logit, ...}
void read_logit_bias(Fields& f, SamplerOptions& s) {
  const ordered_json* bias = f.take("logit_bias");
  if (bias == nullptr) return;
  if (!bias->is_object()) refuse("'logit_bias' is not an object of token ids and numbers", "logit_bias");
  if (int64_t(bias->size()) > kMostBiases)
    refuse(fmt::format("'logit_bias' has {} tokens; use at most {}", bias->size(), kMostBiases), "logit_bias");
  for (const auto& [key, value] : bias->items()) {
    int32_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0)
      refuse(fmt::format("'logit_bias' has the key '{}', which is not a token id", one_line(key)), "logit_bias");
    try {
      s.logit_bias.emplace_back(id, json_number<double>(value, fmt::format("logit_bias of {}", id), -100, 100));
    } catch (const Error& e) {
      refuse(e.what(), "logit_bias");
    }
  }
}

void read_logprobs(Fields& f, CompletionRequest& r) {
  int64_t top = 0;
  if (!r.chat) {
    if (!f.has("logprobs")) return;
    f.number<int64_t>("logprobs", top, 0, kMostTopLogprobs);
    r.logprobs = int(top);
    return;
  }
  const bool wanted = f.flag("logprobs", false);
  if (f.has("top_logprobs") && !wanted) refuse("'top_logprobs' needs 'logprobs': true", "top_logprobs");
  f.number<int64_t>("top_logprobs", top, 0, kMostTopLogprobs);
  if (wanted) r.logprobs = int(top);
}

void read_stream(Fields& f, CompletionRequest& r) {
  r.stream = f.flag("stream", false);
  const ordered_json* options = f.take("stream_options");
  if (options == nullptr) return;
  if (!r.stream) refuse("'stream_options' needs 'stream': true", "stream_options");
  Fields o(*options, "stream_options");
  r.include_usage = o.flag("include_usage", false);
  o.finish();
}

// {"type": "text"}, {"type": "json_object"} or {"type": "json_schema", "json_schema": {"name", "schema", ...}}
TextForm response_format_of(const ordered_json& format) {
  constexpr const char* kField = "response_format";
  Fields f(format, kField);
  const std::string type = f.text("type");
  if (type == "json_schema") {
    const ordered_json* j = f.take("json_schema");
    if (j == nullptr) refuse_at(f.path("json_schema"), "is missing");
    Fields s(*j, f.path("json_schema"));
    s.text("name"), s.text("description"), s.flag("strict", false);  // the text always follows the schema
    const ordered_json* schema = s.take("schema");
    if (schema == nullptr) refuse_at(s.path("schema"), "is missing");
    s.finish(), f.finish();
    return {TextForm::json_schema, *schema, "", s.path("schema")};
  }
  f.finish();
  if (type == "json_object") return {.kind = TextForm::json_object, .schema = {}, .grammar = "", .field = kField};
  if (type != "text")
    refuse_at(f.path("type"), fmt::format("is '{}', expected text, json_object or json_schema", one_line(type)));
  return {};
}

void read_form(Fields& f, CompletionRequest& r) {
  const auto set = [&](TextForm form) {
    if (form.kind == TextForm::any) return;
    if (r.form.kind != TextForm::any)
      refuse(fmt::format("'{}' and '{}' both say what the text has to be; give one of them", r.form.field, form.field),
             form.field);
    r.form = std::move(form);
  };
  if (const ordered_json* format = r.chat ? f.take("response_format") : nullptr) set(response_format_of(*format));
  if (const ordered_json* schema = f.take("json_schema")) set({TextForm::json_schema, *schema, "", "json_schema"});
  if (f.has("grammar")) set({TextForm::gbnf, {}, f.text("grammar"), "grammar"});
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
  if (f.has("parallel_tool_calls") && r.tools.empty())
    refuse("'parallel_tool_calls' needs 'tools'", "parallel_tool_calls");
  r.parallel_tool_calls = f.flag("parallel_tool_calls", true);
}

}  // namespace

std::vector<PromptSource> sources_of(const ordered_json* j, const std::string& name) {
  const auto forms = [&]() {
    refuse(fmt::format("'{}' is not a string, an array of strings, of token ids, or of arrays of them", name), name);
  };
  if (j == nullptr) refuse(fmt::format("'{}' is missing", name), name, "missing_required_parameter");
  if (j->is_string()) return {j->get<std::string>()};
  if (!j->is_array() || j->empty()) forms();
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
    if (!item.is_string() || item.get_ref<const std::string&>().empty())
      refuse(fmt::format("'{}' is not a string, or an array of strings that are not empty", name), name);
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

CompletionRequest parse_completion(const std::string& body, bool chat) {
  const ordered_json j = parse_body(body);
  Fields f(j);
  CompletionRequest r;
  r.chat = chat;
  r.model = f.text("model");
  const auto tokens = [&](const char* name) {
    int64_t n = 0;
    if (!f.has(name)) return;
    if (r.max_tokens) refuse("'max_tokens' and 'max_completion_tokens' are the same; give one of them", name);
    f.number<int64_t>(name, n, chat ? 1 : 0, int64_t(1) << 31);
    r.max_tokens = n;
  };
  tokens("max_tokens");
  if (chat) {
    tokens("max_completion_tokens");
    r.source = "messages";
    r.messages = messages_of(f.take("messages"));
    read_tools(f, r);
    if (const ordered_json* variables = f.take("chat_template_kwargs")) {
      if (!variables->is_object()) refuse_at("chat_template_kwargs", "is not an object of variables");
      for (const char* own : {"messages", "tools", "documents", "add_generation_prompt"})
        if (variables->contains(own))
          refuse_at(fmt::format("chat_template_kwargs.{}", own), "is set by the server; remove it");
      r.variables = *variables;
    }
  } else {
    r.prompts = sources_of(f.take("prompt"), "prompt");
    r.parse_special = f.flag("parse_special", true);
    r.echo = f.flag("echo", false);
  }
  read_form(f, r);
  f.number<int64_t>("n", r.n, 1, kMostChoices);
  if (int64_t(r.prompts.size()) > kMostChoices / r.n)
    refuse(fmt::format("{} prompts with n = {} are more than {} choices", r.prompts.size(), r.n, kMostChoices), "n");
  if (f.has("seed")) {
    int64_t seed = 0;
    f.number<int64_t>("seed", seed, INT64_MIN, INT64_MAX);
    r.seed = uint64_t(seed);
  }
  read_order(f, r);
  read_sampler(f, r.sampler);
  read_logit_bias(f, r.sampler);
  read_sampler_chain(f, r);
  r.lora = lora_of(f.take("lora"));
  r.stops = stops_of(f.take("stop"), "stop");
  r.ignore_eos = f.flag("ignore_eos", false);
  read_stream(f, r);
  read_logprobs(f, r);
  r.token_ids = f.flag("return_token_ids", false);
  if (r.token_ids && !r.logprobs) refuse("'return_token_ids' needs 'logprobs'", "return_token_ids");
  if (r.echo && r.stream) refuse("'echo' with 'stream' is not supported; use one of them", "echo");
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
  if (!f.has("content")) refuse("'content' is missing", "content", "missing_required_parameter");
  r.content = f.text("content");
  r.add_special = f.flag("add_special", false);
  r.parse_special = f.flag("parse_special", true);
  f.finish();
  return r;
}

TemplateRequest parse_apply_template(const std::string& body) {
  const ordered_json j = parse_body(body);
  Fields f(j);
  TemplateRequest r{messages_of(f.take("messages")), tools_of(f.take("tools"))};
  f.finish();
  return r;
}

std::vector<int32_t> parse_detokenize(const std::string& body) {
  const ordered_json j = parse_body(body);
  Fields f(j);
  const ordered_json* tokens = f.take("tokens");
  if (tokens == nullptr) refuse("'tokens' is missing", "tokens", "missing_required_parameter");
  if (!tokens->is_array()) refuse("'tokens' is not an array of token ids", "tokens");
  f.finish();
  return ids_of(*tokens, "tokens");
}

std::string token_text(const std::string& bytes) {
  if (is_utf8(bytes)) return bytes;
  std::string text = "bytes:";
  for (const char c : bytes) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return text;
}

}  // namespace toy::serve
