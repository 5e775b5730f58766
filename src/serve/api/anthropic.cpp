#include "serve/api/anthropic.h"

#include <fmt/format.h>

#include "dialog/fields.h"
#include "dialog/messages.h"
#include "dialog/normalized.h"
#include "serve/api/sampler_fields.h"
#include "serve/http/request_body.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"

namespace toy::serve {
namespace {

using nlohmann::ordered_json;

// ---- Requests.

std::string at(const std::string& path, size_t i) { return fmt::format("{}[{}]", path, i); }

// A document that is a text; its title and what surrounds it come first.
std::string document_text(Fields& f) {
  const std::string title = f.text("title"), context = f.text("context");
  Fields source(f.needed("source"), f.path("source"));
  if (const std::string type = source.text("type"); type != "text")
    refuse_at(source.path("type"),
              fmt::format("is '{}', and only documents of type text are supported", one_line(type)));
  source.ignore("media_type");
  const std::string data = source.needed_text("data");
  source.finish(), f.finish();
  std::string text = title;
  for (const std::string& part : {context, data}) text += (text.empty() || part.empty() ? "" : "\n") + part;
  return text;
}

// A block of type text, as text. `expected`: the types of blocks that may stand here.
std::string text_block(const ordered_json& block, const std::string& path, const char* expected = "text") {
  Fields f(block, path);
  const std::string type = f.text("type");
  if (type == "document") return document_text(f);
  if (type != "text")
    refuse_at(f.path("type"),
              fmt::format("is '{}', which is not supported here; expected {}", one_line(type), expected));
  const ordered_json& text = f.needed("text");
  if (!text.is_string()) refuse_at(f.path("text"), "is not a string");
  f.finish();
  return text.get<std::string>();
}

void add_line(std::string& text, const std::string& line) {
  if (!text.empty()) text += '\n';
  text += line;
}

// A string, or blocks of type text, a line each.
std::string texts_of(const ordered_json& j, const std::string& path) {
  if (j.is_string()) return j.get<std::string>();
  if (!j.is_array()) refuse_at(path, "is not a string or an array of blocks");
  std::string text;
  for (size_t i = 0; i < j.size(); ++i) add_line(text, text_block(j[i], at(path, i)));
  return text;
}

void add_tool_result(MessageList& list, const ordered_json& block, const std::string& path) {
  Fields f(block, path);
  f.take("type");
  const std::string id = f.needed_text("tool_use_id");
  const ordered_json* content = f.take("content");
  std::string text = content ? texts_of(*content, f.path("content")) : "";
  if (f.flag("is_error", false)) text = "Error: " + text;
  f.finish();
  list.add_result(id, text);
}

std::string thinking(const ordered_json& block, const std::string& path) {
  Fields f(block, path);
  f.take("type");
  f.text("signature");  // of ours it is empty
  const ordered_json& text = f.needed("thinking");
  if (!text.is_string()) refuse_at(f.path("thinking"), "is not a string");
  f.finish();
  return text.get<std::string>();
}

// Id, name and arguments.
ToolCall tool_use(const ordered_json& block, const std::string& path) {
  Fields f(block, path);
  f.take("type");
  const std::string id = f.needed_text("id"), name = f.needed_text("name");
  const ordered_json& input = f.needed("input");
  if (!input.is_object()) refuse_at(f.path("input"), "is not an object");
  f.finish();
  return {id, name, json_text(input)};
}

// A block that only the server which wrote it can use.
bool is_of_a_provider(const std::string& type) {
  return type == "redacted_thinking" || type == "server_tool_use" || type.starts_with("mcp_tool_") ||
         type.ends_with("_tool_result");  // such as web_search_tool_result
}

// Results of tools become messages of their own, in front of the text.
void add_message(MessageList& list, const ordered_json& message, const std::string& path) {
  Fields f(message, path);
  const std::string role = f.needed_text("role");
  if (role != "user" && role != "assistant" && role != "system")
    refuse_at(f.path("role"), fmt::format("is '{}', expected user or assistant", one_line(role)));
  const ordered_json& content = f.needed("content");
  const std::string where = f.path("content");
  f.finish();
  if (!content.is_array()) return list.add(role, texts_of(content, where));
  std::string text, thought;
  bool has_text = false;
  std::vector<ToolCall> calls;
  for (size_t i = 0; i < content.size(); ++i) {
    const ordered_json& block = content[i];
    const std::string type = block.is_object() && block.contains("type") && block["type"].is_string()
                                 ? block["type"].get<std::string>()
                                 : "";
    if (type == "tool_result" && role == "user") {
      add_tool_result(list, block, at(where, i));
    } else if (type == "thinking" && role == "assistant") {
      add_line(thought, thinking(block, at(where, i)));
    } else if (is_of_a_provider(type)) {
      ignore_at(at(where, i) + ".type", fmt::format("is '{}', which only its provider can read", one_line(type)));
    } else if (type == "tool_use" && role == "assistant") {
      calls.push_back(tool_use(block, at(where, i)));
    } else {
      add_line(text,
               text_block(block, at(where, i), role == "user" ? "text or tool_result" : "text, thinking or tool_use"));
      has_text = true;
    }
  }
  if (!has_text && role == "user" && !content.empty()) return;  // only results
  list.add(role, text, thought);
  for (const ToolCall& call : calls) list.add_call(call.id, call.name, call.arguments);
}

ordered_json conversation(Fields& f) {
  MessageList list;
  if (const ordered_json* system = f.take("system"))
    if (const std::string text = texts_of(*system, "system"); !text.empty()) list.add("system", text);
  const ordered_json& messages = f.needed("messages");
  require_messages(messages);
  for (size_t i = 0; i < messages.size(); ++i) add_message(list, messages[i], at("messages", i));
  return list.messages();
}

void read_tool(std::vector<Tool>& tools, Fields& f) {
  const std::string type = f.text("type");
  if (type == "function" || f.has("function"))
    refuse_at(f.path("type"), R"(is OpenAI's; a tool is {"name": ..., "input_schema": {"type": "object", ...}} here)");
  if (!type.empty() && type != "custom") return ignore_tool(f, type);
  if (!f.has("input_schema")) f.needed("input_schema");
  add_tool(tools, f, "input_schema");
  f.finish();
}

void read_tool_choice(const ordered_json* j, CompletionRequest& r) {
  if (j == nullptr) return;
  Fields f(*j, "tool_choice");
  const std::string type = f.text("type");
  if (type != "auto" && type != "any" && type != "tool" && type != "none")
    refuse_at(f.path("type"), fmt::format("is '{}', expected auto, any, tool or none", one_line(type)));
  if (r.tools.empty() && (type == "any" || type == "tool")) refuse_at("tool_choice", "needs 'tools'");
  if (type == "none") r.tool_choice = {ToolChoice::none, ""};
  if (type == "any") r.tool_choice = {ToolChoice::required, ""};
  if (type == "tool") {
    r.tool_choice = {ToolChoice::required, f.needed_text("name")};
    require_tool(r.tools, r.tool_choice.name, f.path("name"));
  }
  r.parallel_tool_calls = !f.flag("disable_parallel_tool_use", false);
  f.finish();
}

// {"format": {"type": "json_schema", "schema": {...}}, "effort": "low"}
TextForm read_output_config(const ordered_json& config, CompletionRequest& r) {
  Fields f(config, "output_config");
  const ordered_json* format = f.take("format");
  if (const std::string effort = f.text("effort"); !effort.empty()) set_effort(r, effort, f.path("effort"));
  f.finish();
  if (format == nullptr) return {};
  Fields g(*format, f.path("format"));
  const std::string type = g.text("type");
  if (type != "json_schema") refuse_at(g.path("type"), fmt::format("is '{}', expected json_schema", one_line(type)));
  const ordered_json& schema = g.needed("schema");
  g.finish();
  return {TextForm::json_schema, schema, "", g.path("schema")};
}

// ---- Replies.

std::string event(const std::string& type, ordered_json rest) {
  ordered_json j{{"type", type}};
  j.update(rest);
  return fmt::format("event: {}\ndata: {}\n\n", type, json_text(j));
}

ordered_json text_json(const std::string& text) { return {{"type", "text"}, {"text", text}}; }

// Nothing is signed here: the client sends back the text itself.
ordered_json thought_json(const std::string& text) {
  return {{"type", "thinking"}, {"thinking", text}, {"signature", ""}};
}

ordered_json call_json(const ToolCall& call) {
  ordered_json input = call.arguments.empty() ? ordered_json() : parse_json<ordered_json>(call.arguments);
  if (!input.is_object()) input = ordered_json::object();  // it was cut off, as the stop reason says
  return {{"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", input}};
}

ordered_json stop_of(const Choice& c) {
  const FinishReason reason = c.end.generated.reason;
  const char* name = reason == FinishReason::length ? "max_tokens"
                     : !c.end.stop.empty()          ? "stop_sequence"
                     : !c.calls.empty()             ? "tool_use"
                                                    : "end_turn";
  return {{"stop_reason", name}, {"stop_sequence", c.end.stop.empty() ? ordered_json() : ordered_json(c.end.stop)}};
}

// Tokens of the prompt that were not computed again are counted apart, as Anthropic does.
ordered_json usage_json(const Reply& reply) {
  const int64_t cached = reply.cached_tokens();
  ordered_json j{{"input_tokens", reply.prompt_tokens - cached},
                 {"cache_creation_input_tokens", 0},
                 {"cache_read_input_tokens", cached},
                 {"output_tokens", reply.tokens()}};
  if (const int64_t thoughts = reply.thought_tokens(); thoughts > 0)
    j["output_tokens_details"] = {{"thinking_tokens", thoughts}};
  return j;
}

ordered_json message_json(const ReplyHead& head, ordered_json content, const ordered_json& stop, ordered_json usage) {
  ordered_json j{{"id", head.id},
                 {"type", "message"},
                 {"role", "assistant"},
                 {"model", head.model},
                 {"content", std::move(content)}};
  j.update(stop);
  j["usage"] = std::move(usage);
  return j;
}

}  // namespace

void require_anthropic_version(const std::string& version) {
  // The second one removes fields, among them temperature, and changes nothing else that is supported here.
  if (!version.empty() && version != "2023-06-01" && version != "2026-10-21")
    throw ApiError(
        400, fmt::format("anthropic-version is '{}'; this server has 2023-06-01 and 2026-10-21", one_line(version)));
}

CompletionRequest parse_messages(const std::string& body, bool counts, const UsualSampling& usual) {
  const ordered_json j = parse_body(body);
  Fields f(j);
  CompletionRequest r(usual);
  r.chat = true, r.source = "messages";
  r.model = f.text("model");
  r.messages = conversation(f);
  r.continues = is_answer(r.messages.back());
  r.tools = tools_of(f.take("tools"), read_tool);
  read_tool_choice(f.take("tool_choice"), r);
  if (const ordered_json* thinking = f.take("thinking")) read_thinking(*thinking, "thinking", r);
  if (const ordered_json* config = f.take("output_config")) r.form = read_output_config(*config, r);
  for (const char* name : {"max_tokens", "stop_sequences", "temperature", "top_p", "top_k", "stream"})
    if (counts) f.ignore(name);
  if (!counts) {
    int64_t n = 0;
    if (!f.has("max_tokens")) f.needed("max_tokens");
    f.number<int64_t>("max_tokens", n, -1, kMostTokens);
    if (n == 0) refuse("'max_tokens' is 0, expected 1 or more, or -1 for all that fits", "max_tokens");
    r.max_tokens = n == -1 ? kMostTokens : n;
    r.stops = stops_of(f.take("stop_sequences"), "stop_sequences");
    read_sampler_numbers(f, r.sampler, {"temperature", "top_p", "top_k"});
    r.stream = f.flag("stream", false);
  }
  f.finish();
  return r;
}

std::string anthropic_error(const ApiError& e) {
  const char* type = e.status == 401   ? "authentication_error"
                     : e.status == 404 ? "not_found_error"
                     : e.status == 413 ? "request_too_large"
                     : e.status == 429 ? "rate_limit_error"
                     : e.status == 503 ? "overloaded_error"
                     : e.status >= 500 ? "api_error"
                                       : "invalid_request_error";
  return json_text(ordered_json{{"type", "error"}, {"error", {{"type", type}, {"message", e.what()}}}});
}

std::string MessagesFormat::body(const Reply& reply) {
  const Choice& c = reply.choices.front();
  ordered_json content = ordered_json::array();
  if (!c.thought.empty()) content.push_back(thought_json(c.thought));
  if (!c.text.empty() || (c.calls.empty() && c.thought.empty())) content.push_back(text_json(c.text));
  for (const ToolCall& call : c.calls) content.push_back(call_json(call));
  return json_text(message_json(head_, std::move(content), stop_of(c), usage_json(reply)));
}

std::string MessagesFormat::begin(const Reply& reply) {
  const ordered_json stop{{"stop_reason", nullptr}, {"stop_sequence", nullptr}};
  return event("message_start", {{"message", message_json(head_, ordered_json::array(), stop, usage_json(reply))}});
}

std::string MessagesFormat::begin_part(const ToolCall& call) {
  return event("content_block_start", {{"index", parts_ - 1},
                                       {"content_block", open_ == Part::thought ? thought_json("")
                                                         : open_ == Part::text  ? text_json("")
                                                                               : call_json({call.id, call.name, ""})}});
}

std::string MessagesFormat::delta(const char* type, const char* name, const std::string& added) const {
  return event("content_block_delta", {{"index", parts_ - 1}, {"delta", {{"type", type}, {name, added}}}});
}

std::string MessagesFormat::add(const std::string& added) {
  return open_ == Part::thought ? delta("thinking_delta", "thinking", added)
         : open_ == Part::text  ? delta("text_delta", "text", added)
                                : delta("input_json_delta", "partial_json", added);
}

std::string MessagesFormat::end_part(bool) {
  return (open_ == Part::thought ? delta("signature_delta", "signature", "") : "") +
         event("content_block_stop", {{"index", parts_ - 1}});
}

std::string MessagesFormat::end(const Reply& reply) {
  return event("message_delta", {{"delta", stop_of(reply.choices.front())}, {"usage", usage_json(reply)}}) +
         event("message_stop", ordered_json::object());
}

std::string MessagesFormat::error(const ApiError& e) { return "event: error\ndata: " + anthropic_error(e) + "\n\n"; }

}  // namespace toy::serve
