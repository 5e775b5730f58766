#include "serve/api/responses.h"

#include <fmt/format.h>

#include <utility>

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

// A string, or parts that are texts.
std::string content_of(const ordered_json& j, const std::string& path) {
  if (j.is_string()) return j.get<std::string>();
  if (!j.is_array()) refuse_at(path, "is not a string or an array of parts");
  std::string text;
  for (size_t i = 0; i < j.size(); ++i) text += text_part(j[i], fmt::format("{}[{}]", path, i));
  return text;
}

// The texts of an array of parts of this type.
std::string parts_of(const ordered_json* j, const std::string& path, const char* type) {
  std::string text;
  if (j == nullptr) return text;
  if (!j->is_array()) refuse_at(path, "is not an array of parts");
  for (size_t i = 0; i < j->size(); ++i) {
    Fields f((*j)[i], fmt::format("{}[{}]", path, i));
    if (const std::string given = f.text("type"); given != type)
      refuse_at(f.path("type"), fmt::format("is '{}', expected {}", one_line(given), type));
    text += f.text("text");
    f.finish();
  }
  return text;
}

// The text of a thought; the summary is for servers that do not show it.
std::string thought_of(Fields& f) {
  const std::string summary = parts_of(f.take("summary"), f.path("summary"), "summary_text"),
                    text = parts_of(f.take("content"), f.path("content"), "reasoning_text");
  return text.empty() ? summary : text;
}

// Items of an earlier reply: a thought belongs to the message or the calls after it.
class ItemReader {
 public:
  explicit ItemReader(MessageList& list) : list_(list) {}
  void add(const ordered_json& item, const std::string& path);
  // A thought that nothing follows: the reply was cut off.
  void end_thought() {
    if (!thought_.empty()) list_.add("assistant", "", std::exchange(thought_, ""));
  }

 private:
  void add_message(Fields& f);
  MessageList& list_;
  std::string thought_;
};

void ItemReader::add_message(Fields& f) {
  std::string role = f.text("role");
  if (role == "developer") role = "system";  // OpenAI's newer word for it
  if (role != "system" && role != "user" && role != "assistant")
    refuse_at(f.path("role"), fmt::format("is '{}', expected system, developer, user or assistant", one_line(role)));
  if (role != "assistant") end_thought();
  list_.add(role, content_of(f.needed("content"), f.path("content")), std::exchange(thought_, ""));
}

// Such as web_search_call or custom_tool_call_output.
bool is_of_a_tool(const std::string& type) {
  return type.ends_with("_call") || type.ends_with("_call_output") || type.starts_with("mcp_");
}

void ItemReader::add(const ordered_json& item, const std::string& path) {
  Fields f(item, path);
  const std::string type = f.has("type") ? f.text("type") : "message";
  f.take("id"), f.take("status");  // of items of earlier replies
  if (type == "message") {
    add_message(f);
  } else if (type == "reasoning") {
    end_thought();
    thought_ = thought_of(f);
  } else if (type == "function_call") {
    const std::string id = f.needed_text("call_id"), name = f.needed_text("name");
    end_thought();
    list_.add_call(id, name, f.text("arguments"));
  } else if (type == "function_call_output") {
    const std::string id = f.needed_text("call_id");
    end_thought();
    list_.add_result(id, content_of(f.needed("output"), f.path("output")));
  } else if (is_of_a_tool(type)) {
    return ignore_at(f.path("type"),
                     fmt::format("is '{}', which belongs to a tool that this server does not have", one_line(type)));
  } else {
    refuse_at(f.path("type"), fmt::format("is '{}', expected message, reasoning, function_call or function_call_output",
                                          one_line(type)));
  }
  f.finish();
}

ordered_json conversation(Fields& f, const std::string& instructions) {
  MessageList list;
  if (!instructions.empty()) list.add("system", instructions);
  const ordered_json& input = f.needed("input");
  if (input.is_string()) {
    list.add("user", input);
  } else {
    if (!input.is_array()) refuse_at("input", "is not a string or an array of items");
    ItemReader items(list);
    for (size_t i = 0; i < input.size(); ++i) items.add(input[i], fmt::format("input[{}]", i));
    items.end_thought();
  }
  if (list.empty()) refuse_at("input", "has no message");
  return list.messages();
}

// {"format": {"type": "text"}}, of type json_object, or {"type": "json_schema", "name", "schema", ...}
void read_text(const ordered_json& text, ResponsesRequest& r) {
  Fields f(text, "text");
  const ordered_json* format = f.take("format");
  f.finish();
  if (format == nullptr) return;
  r.settings["text"]["format"] = *format;
  r.completion.form = text_form_of(*format, f.path("format"), false);
}

void read_tool(std::vector<Tool>& tools, Fields& f) {
  if (const std::string type = f.needed_text("type"); type != "function") return ignore_tool(f, type);
  if (!f.has("name") && f.has("function"))
    refuse_at(f.path("name"),
              "is missing; here 'name', 'description' and 'parameters' stand next to 'type', without "
              "'function'");
  add_tool(tools, f, "parameters");
  f.finish();
}

void read_tools(Fields& f, ResponsesRequest& r) {
  if (const ordered_json* tools = f.take("tools")) {
    r.completion.tools = tools_of(tools, read_tool);
    r.settings["tools"] = *tools;
  }
  if (const ordered_json* choice = f.take("tool_choice")) {
    r.completion.tool_choice = tool_choice_of(choice, r.completion.tools);
    r.settings["tool_choice"] = *choice;
  }
  r.completion.parallel_tool_calls = f.flag("parallel_tool_calls", true);
  r.settings["parallel_tool_calls"] = r.completion.parallel_tool_calls;
}

void read_reasoning(const ordered_json& reasoning, ResponsesRequest& r) {
  Fields f(reasoning, "reasoning");
  const std::string effort = f.text("effort");
  f.finish();
  if (!effort.empty()) set_effort(r.completion, effort, f.path("effort"));
  r.settings["reasoning"] = {{"effort", effort.empty() ? ordered_json() : ordered_json(effort)}, {"summary", nullptr}};
}

// What only servers that store can do.
void refuse_store(Fields& f) {
  constexpr const char* kNothing = "this server stores no responses";
  if (f.has("store") && f.flag("store", false))
    ignore_at("store", fmt::format("is true, but {}; send false", kNothing));
  for (const char* name : {"previous_response_id", "conversation"})
    if (f.take(name) != nullptr)
      refuse(fmt::format("'{}' is given, but {}; send all items of the conversation as 'input'", name, kNothing), name,
             "unsupported_parameter");
  if (f.flag("background", false))
    refuse(fmt::format("'background' is true, but {}; wait for the reply, or stream it", kNothing), "background");
}

// ---- Replies.

ordered_json text_part(const std::string& text) {
  return {{"type", "output_text"},
          {"text", text},
          {"annotations", ordered_json::array()},
          {"logprobs", ordered_json::array()}};
}

ordered_json thought_part(const std::string& text) { return {{"type", "reasoning_text"}, {"text", text}}; }

}  // namespace

ResponsesRequest parse_responses(const std::string& body, const UsualSampling& usual) {
  const ordered_json j = parse_body(body);
  Fields f(j);
  ResponsesRequest r{.completion = CompletionRequest(usual), .settings = {}};
  CompletionRequest& c = r.completion;
  c.chat = true, c.source = "input";
  c.model = f.text("model");
  refuse_store(f);
  const std::string instructions = f.text("instructions");
  r.settings = {{"instructions", instructions.empty() ? ordered_json() : ordered_json(instructions)},
                {"max_output_tokens", nullptr},
                {"text", {{"format", {{"type", "text"}}}}},
                {"tools", ordered_json::array()},
                {"tool_choice", "auto"}};
  c.messages = conversation(f, instructions);
  if (f.has("max_output_tokens")) {
    int64_t n = 0;
    f.number<int64_t>("max_output_tokens", n, -1, kMostTokens);
    if (n == 0) refuse("'max_output_tokens' is 0, expected 1 or more, or -1 for all that fits", "max_output_tokens");
    if (n > 0) c.max_tokens = n, r.settings["max_output_tokens"] = n;
  }
  read_sampler_numbers(f, c.sampler, {"temperature", "top_p", "top_k"});
  r.settings["temperature"] = c.sampler.temperature, r.settings["top_p"] = c.sampler.top_p;
  if (const ordered_json* text = f.take("text")) read_text(*text, r);
  read_tools(f, r);
  if (const std::string truncation = f.text("truncation"); !truncation.empty() && truncation != "disabled")
    ignore_at("truncation", fmt::format("is '{}'; only disabled is supported", one_line(truncation)));
  r.settings["truncation"] = "disabled";
  c.stream = f.flag("stream", false);
  if (const ordered_json* options = f.take("stream_options")) Fields(*options, "stream_options").finish();
  if (const ordered_json* reasoning = f.take("reasoning")) read_reasoning(*reasoning, r);
  c.continues = is_answer(c.messages.back());
  f.finish();
  return r;
}

std::string ResponsesFormat::event(const std::string& type, const ordered_json& rest) {
  ordered_json j{{"type", type}, {"sequence_number", events_++}};
  j.update(rest);
  return fmt::format("event: {}\ndata: {}\n\n", type, json_text(j));
}

// Of the item that is open.
std::string ResponsesFormat::item_event(const std::string& type, const ordered_json& rest) {
  ordered_json j{{"item_id", items_.back()["id"]}, {"output_index", items_.size() - 1}};
  if (open_ != Part::call) j["content_index"] = 0;
  j.update(rest);
  return event("response." + type, j);
}

std::string ResponsesFormat::begin_part(const ToolCall& call) {
  const bool is_call = open_ == Part::call, is_thought = open_ == Part::thought;
  const char *prefix = is_call      ? "fc"
                       : is_thought ? "rs"
                                    : "msg",
             *type = is_call      ? "function_call"
                     : is_thought ? "reasoning"
                                  : "message";
  ordered_json item{
      {"id", fmt::format("{}_{}_{}", prefix, head_.id, items_.size())}, {"type", type}, {"status", "in_progress"}};
  if (is_call)
    item["call_id"] = call.id, item["name"] = call.name, item["arguments"] = "";
  else if (is_thought)
    item["summary"] = ordered_json::array();
  else
    item["role"] = "assistant";
  if (!is_call) item["content"] = ordered_json::array();
  items_.push_back(item);
  std::string events =
      event("response.output_item.added", {{"output_index", items_.size() - 1}, {"item", std::move(item)}});
  if (is_call) return events;
  items_.back()["content"].push_back(is_thought ? thought_part("") : text_part(""));
  return events += item_event("content_part.added", {{"part", items_.back()["content"][0]}});
}

std::string ResponsesFormat::add(const std::string& added) {
  ordered_json& item = items_.back();
  ordered_json& text = open_ == Part::call ? item["arguments"] : item["content"][0]["text"];
  text = text.get<std::string>() + added;
  ordered_json j{{"delta", added}};
  if (open_ == Part::text) j["logprobs"] = ordered_json::array();
  return item_event(open_ == Part::call      ? "function_call_arguments.delta"
                    : open_ == Part::thought ? "reasoning_text.delta"
                                             : "output_text.delta",
                    j);
}

std::string ResponsesFormat::end_part(bool complete) {
  ordered_json& item = items_.back();
  item["status"] = complete ? "completed" : "incomplete";
  std::string events;
  if (open_ == Part::call) {
    events = item_event("function_call_arguments.done", {{"name", item["name"]}, {"arguments", item["arguments"]}});
  } else {
    const ordered_json& part = item["content"][0];
    events = open_ == Part::thought
                 ? item_event("reasoning_text.done", {{"text", part["text"]}})
                 : item_event("output_text.done", {{"text", part["text"]}, {"logprobs", ordered_json::array()}});
    events += item_event("content_part.done", {{"part", part}});
  }
  return events += event("response.output_item.done", {{"output_index", items_.size() - 1}, {"item", item}});
}

const char* ResponsesFormat::status(const Reply& reply) const {
  return reply.choices.front().end.generated.reason == FinishReason::length ? "incomplete" : "completed";
}

ordered_json ResponsesFormat::response(const Reply& reply, const char* status) const {
  const bool incomplete = std::string_view(status) == "incomplete";
  ordered_json j{{"id", "resp_" + head_.id},
                 {"object", "response"},
                 {"created_at", head_.created},
                 {"status", status},
                 {"error", nullptr},
                 {"incomplete_details", incomplete ? ordered_json{{"reason", "max_output_tokens"}} : ordered_json()},
                 {"model", head_.model},
                 {"output", items_}};
  j.update(parse_json<ordered_json>(settings_));
  j["store"] = false, j["background"] = false;
  j["previous_response_id"] = nullptr;
  j["metadata"] = ordered_json::object();
  j["usage"] = nullptr;
  if (std::string_view(status) == "in_progress") return j;
  const int64_t prompt = reply.prompt_tokens, tokens = reply.tokens();
  j["usage"] = {{"input_tokens", prompt},
                {"input_tokens_details", {{"cached_tokens", reply.cached_tokens()}}},
                {"output_tokens", tokens},
                {"output_tokens_details", {{"reasoning_tokens", reply.thought_tokens()}}},
                {"total_tokens", prompt + tokens}};
  return j;
}

ResponsesFormat::ResponsesFormat(ReplyHead head, const ordered_json& settings)
    : head_(std::move(head)), settings_(json_text(settings)) {}

std::string ResponsesFormat::body(const Reply& reply) {
  const Choice& c = reply.choices.front();
  Piece all{.text = c.text, .thought = c.thought};
  for (size_t i = 0; i < c.calls.size(); ++i) all.calls.push_back({i, c.calls[i]});
  choice_end(c, all);
  return json_text(response(reply, status(reply)));
}

std::string ResponsesFormat::begin(const Reply& reply) {
  const ordered_json j{{"response", response(reply, "in_progress")}};
  std::string events = event("response.created", j);
  return events += event("response.in_progress", j);
}

std::string ResponsesFormat::end(const Reply& reply) {
  const std::string how = status(reply);
  return event("response." + how, {{"response", response(reply, how.c_str())}});
}

std::string ResponsesFormat::error(const ApiError& e) {
  return event("error", {{"code", "server_error"}, {"message", e.what()}, {"param", nullptr}});
}

}  // namespace toy::serve
