#include "serve/api/ollama.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <set>
#include <string>

#include "dialog/call_text.h"
#include "dialog/fields.h"
#include "dialog/messages.h"
#include "serve/api/sampler_fields.h"
#include "serve/http/request_body.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"

namespace toy::serve {
namespace {

using nlohmann::ordered_json;

// ---- Requests.

void read_options(const ordered_json& options, const UsualSampling& usual, CompletionRequest& r) {
  Fields f(options, "options");
  const auto set = [&](const char* name, auto& value, auto otherwise) {  // Ollama's, where the file says nothing
    if (!usual.says(name)) value = otherwise;
  };
  set("top_k", r.sampler.top_k, 40);
  set("top_p", r.sampler.top_p, 0.9);
  set("repeat_penalty", r.sampler.repeat_penalty, 1.1);
  set("repeat_last_n", r.sampler.penalty_last_n, 64);
  int64_t n = -1;
  f.number<int64_t>("num_predict", n, -2, kMostTokens);
  if (n == 0) refuse_at(f.path("num_predict"), "is 0, expected 1 or more, or -1 for all that fits");
  r.max_tokens = n < 0 ? kMostTokens : n;
  read_common_fields(f, r);
  f.finish();
}

// What /api/chat and /api/generate share.
void read_rest(Fields& f, const UsualSampling& usual, CompletionRequest& r) {
  r.model = f.text("model");
  r.stream = f.flag("stream", true);
  const ordered_json none = ordered_json::object();
  const ordered_json* options = f.take("options");
  read_options(options ? *options : none, usual, r);
  if (const ordered_json* format = f.take("format"); format && *format != "") {
    if (*format == "json")
      r.form = {.kind = TextForm::json_object, .schema = {}, .grammar = "", .field = "format"};
    else if (format->is_object())
      r.form = {TextForm::json_schema, *format, "", "format"};
    else
      refuse_at("format", "is not \"json\" or a JSON Schema");
  }
  if (const ordered_json* think = f.take("think")) {
    if (!think->is_boolean() && !think->is_string()) refuse_at("think", "is not true, false or a word such as \"low\"");
    if (think->is_boolean())
      set_hint(r, "enable_thinking", *think, "think");
    else
      set_effort(r, *think, "think");
  }
  std::set<std::string> names{"num_predict", "stop", "seed", "mirostat", "samplers", "logit_bias", "ignore_eos"};
  SamplerOptions::fields(r.sampler, [&](const Option& option, const auto&) { names.insert(std::string(option.name)); });
  f.holds("options", names);
  f.finish();
}

void add_call(MessageList& list, const ordered_json& call, const std::string& path) {
  Fields f(call, path);
  f.text("type");
  const std::string id = f.text("id");
  Fields function(f.needed("function"), f.path("function"));
  const std::string name = function.needed_text("name");
  const ordered_json* arguments = function.take("arguments");
  if (arguments && !arguments->is_object()) refuse_at(function.path("arguments"), "is not an object");
  function.finish(), f.finish();
  list.add_call(id, name, arguments ? json_text(*arguments) : "");
}

void add_message(MessageList& list, const ordered_json& message, const std::string& path) {
  Fields f(message, path);
  const std::string role = f.needed_text("role"), content = f.text("content");
  if (role == "tool") {
    std::string name = f.text("tool_name");
    if (name.empty()) name = f.text("name");
    list.add_result(f.text("tool_call_id"), content, name);
  } else if (role == "system" || role == "user" || role == "assistant") {
    list.add(role, content, role == "assistant" ? f.text("thinking") : "");
    const ordered_json* calls = role == "assistant" ? f.take("tool_calls") : nullptr;
    if (calls && !calls->is_array()) refuse_at(f.path("tool_calls"), "is not an array of calls");
    if (calls)
      for (size_t i = 0; i < calls->size(); ++i)
        add_call(list, (*calls)[i], fmt::format("{}[{}]", f.path("tool_calls"), i));
  } else {
    refuse_at(f.path("role"), fmt::format("is '{}', expected system, user, assistant or tool", one_line(role)));
  }
  f.finish();
}

// ---- Replies.

// Thoughts are no part of the keys that a message without them has.
void add_thought(ordered_json& j, const std::string& thought) {
  if (!thought.empty()) j["thinking"] = thought;
}

ordered_json calls_json(const std::vector<ToolCall>& calls) {
  ordered_json list = ordered_json::array();
  for (const ToolCall& call : calls) {
    std::optional<ordered_json> arguments = json_of(call.arguments);
    if (!arguments || !arguments->is_object()) arguments = ordered_json::object();  // it was cut off
    list.push_back({{"id", call.id}, {"function", {{"name", call.name}, {"arguments", *arguments}}}});
  }
  return list;
}

}  // namespace

OllamaRequest parse_ollama_chat(const std::string& body, const UsualSampling& usual) {
  const ordered_json j = parse_body(body);
  Fields f(j);
  OllamaRequest request{.completion = CompletionRequest(usual)};
  CompletionRequest& r = request.completion;
  r.chat = true, r.source = "messages";
  MessageList list;
  if (!f.has("messages") && f.has("prompt"))
    refuse_at("messages", "is missing; 'prompt' is for POST /api/generate", "missing_required_parameter");
  if (const ordered_json* messages = f.take("messages")) {
    if (!messages->is_array()) refuse_at("messages", "is not an array of messages");
    for (size_t i = 0; i < messages->size(); ++i) add_message(list, (*messages)[i], fmt::format("messages[{}]", i));
  }
  r.messages = list.messages();
  request.loads_only = r.messages.empty();
  r.continues = !request.loads_only && is_answer(r.messages.back());
  r.tools = tools_of(f.take("tools"));
  f.ignore("system");  // as in Ollama, where /api/generate alone has it
  read_rest(f, usual, r);
  return request;
}

OllamaRequest parse_ollama_generate(const std::string& body, bool has_template, const UsualSampling& usual) {
  const ordered_json j = parse_body(body);
  Fields f(j);
  OllamaRequest request{.completion = CompletionRequest(usual), .generates = true};
  CompletionRequest& r = request.completion;
  const ordered_json* messages = f.take("messages");
  if (messages && !f.has("prompt") && !(messages->is_array() && messages->empty()))
    refuse_at("messages", "is for POST /api/chat; send 'prompt'");
  if (messages) ignore_at("messages", "is for POST /api/chat; here 'prompt' is the text");  // as Ollama does
  const std::string prompt = f.text("prompt"), system = f.text("system");
  r.suffix = f.text("suffix");
  r.hole = !r.suffix.empty();
  request.loads_only = prompt.empty() && !r.hole;
  r.chat = has_template && !f.flag("raw", false) && !r.hole;
  if (r.chat) {
    MessageList list;
    if (!system.empty()) list.add("system", system);
    list.add("user", prompt);
    r.messages = list.messages();
  } else {
    r.prompts = {prompt};
  }
  if (!r.chat && !system.empty()) ignore_at("system", "has no effect: the prompt is continued as it is");
  read_rest(f, usual, r);
  return request;
}

EmbeddingsRequest parse_ollama_embeddings(const std::string& body, bool one) {
  const ordered_json j = parse_body(body);
  Fields f(j);
  EmbeddingsRequest r;
  r.form = one ? EmbeddingsRequest::ollama_one : EmbeddingsRequest::ollama;
  r.model = f.text("model");
  const char* field = one ? "prompt" : "input";
  if (one && f.has(field) && !j[field].is_string()) refuse_at(field, "is not a string");
  read_inputs(f, r, field);
  f.ignore("options");  // they are about texts
  f.finish();
  return r;
}

std::string parse_ollama_show(const std::string& body) {
  const ordered_json j = parse_body(body);
  Fields f(j);
  std::string model = f.text("model");
  if (model.empty()) model = f.text("name");  // as earlier clients say
  f.flag("verbose", false);
  f.finish();
  return model;
}

std::string ollama_error(const ApiError& e) { return json_text(ordered_json{{"error", e.what()}}); }

std::string ollama_time(int64_t seconds) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time_t(seconds)));
}

std::string ollama_embeddings_body(const std::vector<std::vector<float>>& embeddings, const std::string& model,
                                   EmbeddingsRequest::Form form, int64_t prompt_tokens) {
  std::string text;
  if (form == EmbeddingsRequest::ollama_one) {
    text = R"({"embedding":)";
    append_numbers(text, embeddings.front());
    return text + "}";
  }
  text = fmt::format(R"({{"model":{},"embeddings":[)", json_text(ordered_json(model)));
  for (size_t i = 0; i < embeddings.size(); ++i) {
    if (i > 0) text += ',';
    append_numbers(text, embeddings[i]);
  }
  return text + fmt::format(R"(],"total_duration":0,"load_duration":0,"prompt_eval_count":{}}})", prompt_tokens);
}

ordered_json OllamaFormat::part(const std::string& text, const std::string& thought) const {
  ordered_json j{{"model", head_.model}, {"created_at", ollama_time(head_.created)}};
  if (generates_) {
    j["response"] = text;
    add_thought(j, thought);
  } else {
    j["message"] = {{"role", "assistant"}, {"content", text}};
    add_thought(j["message"], thought);
  }
  j["done"] = false;
  return j;
}

ordered_json OllamaFormat::complete(ordered_json j, const Reply& reply) const {
  const auto nanoseconds = [](auto time) { return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count(); };
  const auto now = std::chrono::steady_clock::now(), first = reply.first.value_or(now);
  const FinishReason reason = reply.choices.front().end.generated.reason;
  const bool length = reason == FinishReason::length || reason == FinishReason::deadline;
  j["done"] = true;
  j["done_reason"] = length ? "length" : "stop";
  j["total_duration"] = nanoseconds(now - begun_);
  j["load_duration"] = 0;
  j["prompt_eval_count"] = reply.prompt_tokens;
  j["prompt_eval_duration"] = nanoseconds(first - begun_);
  j["eval_count"] = reply.tokens();
  j["eval_duration"] = nanoseconds(now - first);
  return j;
}

std::string OllamaFormat::body(const Reply& reply) {
  const Choice& c = reply.choices.front();
  ordered_json j = part(c.text, c.thought);
  if (!c.calls.empty() && !generates_) j["message"]["tool_calls"] = calls_json(c.calls);
  return json_text(complete(std::move(j), reply));
}

std::string OllamaFormat::piece(const Choice&, const Piece& piece) {
  if (piece.text.empty() && piece.thought.empty()) return "";
  return json_text(part(piece.text, piece.thought)) + "\n";
}

// Calls come as a whole.
std::string OllamaFormat::choice_end(const Choice& choice, const Piece& rest) {
  std::string lines = piece(choice, rest);
  if (choice.calls.empty() || generates_) return lines;
  ordered_json j = part("", "");
  j["message"]["tool_calls"] = calls_json(choice.calls);
  return lines + json_text(j) + "\n";
}

std::string OllamaFormat::end(const Reply& reply) { return json_text(complete(part("", ""), reply)) + "\n"; }

std::string OllamaFormat::loaded() const {
  ordered_json j = part("", "");
  j["done"] = true, j["done_reason"] = "load";
  return json_text(j);
}

}  // namespace toy::serve
