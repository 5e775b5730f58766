#include "serve/anthropic.h"

#include <fmt/format.h>

#include "serve/fields.h"
#include "serve/messages.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"

namespace toy::serve {
namespace {

using nlohmann::ordered_json;

// ---- Requests.

// Prefixes are kept without being asked; the only kind says so.
void take_cache_control(Fields& f) {
  const ordered_json* j = f.take("cache_control");
  if (j != nullptr && *j != ordered_json{{"type", "ephemeral"}})
    refuse(R"('cache_control' is not {"type": "ephemeral"}; prefixes are kept while the cache has room)",
           "cache_control");
}

// A block of type text, as text.
std::string text_block(const ordered_json& block, const std::string& where) {
  if (!block.is_object()) refuse(fmt::format("{} has a block that is not an object", where), "messages");
  Fields f(block);
  if (const std::string type = f.text("type"); type != "text")
    refuse(fmt::format("{} has a block of type '{}', which is not supported here", where, one_line(type)), "messages");
  if (!f.has("text")) refuse(fmt::format("{} has a block without 'text'", where), "messages");
  std::string text = f.text("text");
  take_cache_control(f);
  f.finish();
  return text;
}

void add_line(std::string& text, const std::string& line) {
  if (!text.empty()) text += '\n';
  text += line;
}

// A string, or blocks of type text, a line each.
std::string texts_of(const ordered_json& j, const std::string& where) {
  if (j.is_string()) return j.get<std::string>();
  if (!j.is_array()) refuse(fmt::format("{} is not a string or an array of blocks", where), "messages");
  std::string text;
  for (const auto& block : j) add_line(text, text_block(block, where));
  return text;
}

ordered_json tool_result(const ordered_json& block, const std::string& where) {
  Fields f(block);
  f.take("type");
  const std::string id = f.text("tool_use_id");
  if (id.empty()) refuse(fmt::format("{} has a tool_result without 'tool_use_id'", where), "messages");
  const ordered_json* content = f.take("content");
  std::string text = content ? texts_of(*content, where) : "";
  if (f.flag("is_error", false)) text = "Error: " + text;
  take_cache_control(f);
  f.finish();
  return {{"role", "tool"}, {"tool_call_id", id}, {"content", text}};
}

ordered_json tool_use(const ordered_json& block, const std::string& where) {
  Fields f(block);
  f.take("type");
  const std::string id = f.text("id"), name = f.text("name");
  const ordered_json* input = f.take("input");
  if (id.empty() || name.empty() || input == nullptr || !input->is_object())
    refuse(fmt::format("{} has a tool_use without 'id', 'name' or 'input', which is an object", where), "messages");
  take_cache_control(f);
  f.finish();
  return {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", json_text(*input)}}}};
}

// Adds a message in OpenAI's format: results of tools become messages of their own.
void add_message(ordered_json& list, const ordered_json& message, const std::string& where) {
  if (!message.is_object()) refuse(fmt::format("{} is not an object", where), "messages");
  Fields f(message);
  const std::string role = f.text("role");
  if (role != "user" && role != "assistant")
    refuse(fmt::format("{}: the role '{}' is not user or assistant; the field 'system' has the system's text", where,
                       one_line(role)),
           "messages");
  const ordered_json* content = f.take("content");
  f.finish();
  if (content == nullptr) refuse(fmt::format("{}: 'content' is missing", where), "messages");
  if (!content->is_array()) {
    list.push_back({{"role", role}, {"content", texts_of(*content, where)}});
    return;
  }
  std::string text;
  bool has_text = false;
  ordered_json calls = ordered_json::array();
  for (const auto& block : *content) {
    const std::string type = block.is_object() && block.contains("type") && block["type"].is_string()
                                 ? block["type"].get<std::string>()
                                 : "";
    if (type == "tool_result" && role == "user") {
      if (has_text) refuse(fmt::format("{} has a tool_result after a text; put it before", where), "messages");
      list.push_back(tool_result(block, where));
    } else if (type == "tool_use" && role == "assistant") {
      calls.push_back(tool_use(block, where));
    } else {
      add_line(text, text_block(block, where));
      has_text = true;
    }
  }
  if (!has_text && role == "user" && !content->empty()) return;  // only results
  ordered_json result{{"role", role}, {"content", text}};
  if (!calls.empty()) result["tool_calls"] = calls;
  list.push_back(std::move(result));
}

ordered_json conversation(Fields& f) {
  ordered_json list = ordered_json::array();
  if (const ordered_json* system = f.take("system"))
    list.push_back({{"role", "system"}, {"content", texts_of(*system, "'system'")}});
  const ordered_json* messages = f.take("messages");
  if (messages == nullptr) refuse("'messages' is missing", "messages");
  if (!messages->is_array() || messages->empty()) refuse("'messages' is not an array of messages", "messages");
  for (size_t i = 0; i < messages->size(); ++i) add_message(list, (*messages)[i], fmt::format("messages[{}]", i));
  if (list.back()["role"] == "assistant")
    refuse("the last message is of the assistant; continuing it is not supported, so end with one of the user",
           "messages");
  return messages_of(&list);
}

std::vector<Tool> read_tools(const ordered_json* j) {
  std::vector<Tool> tools;
  if (j == nullptr) return tools;
  if (!j->is_array()) refuse("'tools' is not an array of tools", "tools");
  if (j->size() > kMostTools)
    refuse(fmt::format("'tools' has {} tools; use at most {}", j->size(), kMostTools), "tools");
  for (const auto& item : *j) {
    if (!item.is_object()) refuse("'tools' has an item that is not an object", "tools");
    Fields f(item);
    if (const std::string type = f.text("type"); !type.empty() && type != "custom")
      refuse(fmt::format("'tools' has the type '{}'; only custom tools are supported", one_line(type)), "tools");
    const std::string name = f.text("name"), description = f.text("description");
    const ordered_json* schema = f.take("input_schema");
    if (schema == nullptr) refuse(fmt::format("'tools': {} has no 'input_schema'", one_line(name)), "tools");
    tools.push_back(make_tool(name, description, *schema, f.flag("strict", false)));
    take_cache_control(f);
    f.finish();
  }
  return tools;
}

void read_tool_choice(const ordered_json* j, CompletionRequest& r) {
  if (j == nullptr) return;
  if (!j->is_object()) refuse("'tool_choice' is not an object", "tool_choice");
  Fields f(*j);
  const std::string type = f.text("type");
  ordered_json choice = type;
  if (type == "any") choice = "required";
  if (type == "tool") choice = {{"type", "function"}, {"function", {{"name", f.text("name")}}}};
  if (type != "auto" && type != "any" && type != "tool" && type != "none")
    refuse(fmt::format("'tool_choice' has the type '{}', expected auto, any, tool or none", one_line(type)),
           "tool_choice");
  r.tool_choice = tool_choice_of(&choice, r.tools);
  r.parallel_tool_calls = !f.flag("disable_parallel_tool_use", false);
  f.finish();
}

// {"format": {"type": "json_schema", "schema": {...}}}
TextForm output_config_of(const ordered_json& config) {
  constexpr const char* kField = "output_config";
  if (!config.is_object()) refuse("'output_config' is not an object", kField);
  Fields f(config);
  const ordered_json* format = f.take("format");
  f.finish();
  if (format == nullptr) return {};
  if (!format->is_object()) refuse("'output_config': 'format' is not an object", kField);
  Fields g(*format);
  const std::string type = g.text("type");
  const ordered_json* schema = g.take("schema");
  g.finish();
  if (type != "json_schema" || schema == nullptr)
    refuse(R"('output_config': 'format' is not {"type": "json_schema", "schema": {...}})", kField);
  return {TextForm::json_schema, *schema, "", kField};
}

// ---- Replies.

std::string event(const std::string& type, ordered_json rest) {
  ordered_json j{{"type", type}};
  j.update(rest);
  return fmt::format("event: {}\ndata: {}\n\n", type, json_text(j));
}

ordered_json text_json(const std::string& text) { return {{"type", "text"}, {"text", text}}; }

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

ordered_json message_json(const ReplyHead& head, ordered_json content, const ordered_json& stop, int64_t input,
                          int64_t output) {
  ordered_json j{{"id", head.id},
                 {"type", "message"},
                 {"role", "assistant"},
                 {"model", head.model},
                 {"content", std::move(content)}};
  j.update(stop);
  j["usage"] = {{"input_tokens", input}, {"output_tokens", output}};
  return j;
}

}  // namespace

void require_anthropic_version(const std::string& version) {
  // The second one removes fields, among them temperature, and changes nothing else that is supported here.
  if (!version.empty() && version != "2023-06-01" && version != "2026-10-21")
    throw ApiError(
        400, fmt::format("anthropic-version is '{}'; this server has 2023-06-01 and 2026-10-21", one_line(version)));
}

CompletionRequest parse_messages(const std::string& body, bool counts) {
  const ordered_json j = parse_body(body);
  Fields f(j);
  CompletionRequest r;
  r.chat = true;
  r.model = f.text("model");
  r.messages = conversation(f);
  r.tools = read_tools(f.take("tools"));
  read_tool_choice(f.take("tool_choice"), r);
  if (const ordered_json* thinking = f.take("thinking"); thinking && *thinking != ordered_json{{"type", "disabled"}})
    refuse(R"('thinking' is not {"type": "disabled"}, the only one that this server supports)", "thinking");
  take_cache_control(f);
  if (!counts) {
    if (const ordered_json* config = f.take("output_config")) r.form = output_config_of(*config);
    int64_t n = 0;
    if (!f.has("max_tokens")) refuse("'max_tokens' is missing", "max_tokens");
    f.number<int64_t>("max_tokens", n, 1, int64_t(1) << 31);
    r.max_tokens = n;
    r.stops = stops_of(f.take("stop_sequences"), "stop_sequences");
    r.sampler.temperature = 1;
    f.number<double>("temperature", r.sampler.temperature, 0, 1);
    f.number<double>("top_p", r.sampler.top_p, 0, 1);
    if (r.sampler.top_p == 0) refuse("'top_p' is 0, expected above 0 and at most 1", "top_p");
    f.number<int>("top_k", r.sampler.top_k, 0, INT32_MAX);
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
  if (!c.text.empty() || c.calls.empty()) content.push_back(text_json(c.text));
  for (const ToolCall& call : c.calls) content.push_back(call_json(call));
  return json_text(message_json(head_, std::move(content), stop_of(c), reply.prompt_tokens, reply.tokens()));
}

std::string MessagesFormat::begin(const Reply& reply) {
  const ordered_json stop{{"stop_reason", nullptr}, {"stop_sequence", nullptr}};
  return event("message_start",
               {{"message", message_json(head_, ordered_json::array(), stop, reply.prompt_tokens, 0)}});
}

std::string MessagesFormat::open_block(ordered_json block) {
  return event("content_block_start", {{"index", blocks_++}, {"content_block", std::move(block)}});
}

std::string MessagesFormat::close_block() {
  if (open_ == Block::none) return "";
  open_ = Block::none;
  return event("content_block_stop", {{"index", blocks_ - 1}});
}

std::string MessagesFormat::piece(const Choice&, const Piece& piece) {
  std::string events;
  const auto delta = [&](ordered_json j) {
    events += event("content_block_delta", {{"index", blocks_ - 1}, {"delta", std::move(j)}});
  };
  if (!piece.text.empty()) {
    if (open_ != Block::text) {
      events += close_block();
      events += open_block(text_json(""));
    }
    open_ = Block::text;
    delta({{"type", "text_delta"}, {"text", piece.text}});
  }
  for (const auto& [index, added] : piece.calls) {
    if (!added.id.empty()) {
      events += close_block();
      events += open_block(call_json({added.id, added.name, ""}));
      open_ = Block::call;
    }
    if (!added.arguments.empty()) delta({{"type", "input_json_delta"}, {"partial_json", added.arguments}});
  }
  return events;
}

std::string MessagesFormat::choice_end(const Choice& choice, const Piece& rest) {
  std::string events = piece(choice, rest);
  if (blocks_ == 0) {
    events += open_block(text_json(""));
    open_ = Block::text;
  }
  return events += close_block();
}

std::string MessagesFormat::end(const Reply& reply) {
  return event("message_delta",
               {{"delta", stop_of(reply.choices.front())}, {"usage", {{"output_tokens", reply.tokens()}}}}) +
         event("message_stop", ordered_json::object());
}

std::string MessagesFormat::error(const ApiError& e) { return "event: error\ndata: " + anthropic_error(e) + "\n\n"; }

}  // namespace toy::serve
