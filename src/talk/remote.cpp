#include "talk/remote.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fetch/http.h"
#include "talk/tools.h"
#include "toy/base/clock.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"

namespace toy::talk {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMostBytes = size_t(64) << 20;  // of a line, an error, or an answer

// The text of a member, "" where there is none.
std::string text_of(const ordered_json& object, const char* key) {
  return object.is_object() && object.contains(key) && object.at(key).is_string() ? object.at(key).get<std::string>()
                                                                                  : "";
}

// The address in front of "/chat/completions".
std::string base_of(std::string url) {
  check(url.starts_with("http://") || url.starts_with("https://"), "--url is '{}'; write http://{}", one_line(url),
        url.find("://") == url.npos ? one_line(url) : "127.0.0.1:8080");
  while (url.ends_with('/')) url.pop_back();
  for (const std::string_view endpoint : {"/chat/completions", "/completions", "/models", "/responses"})
    if (url.ends_with(endpoint)) url.resize(url.size() - endpoint.size());
  return url.ends_with("/v1") ? url : url + "/v1";
}

// An answer that is arriving.
struct Arriving {
  std::string text, thoughts, error, body;
  std::string unread;  // the first event that is not JSON
  std::string finish;
  std::vector<dialog::ToolCall> calls;
  std::map<int64_t, size_t> places;  // of calls, by the server's numbers
  size_t bytes = 0;
  int64_t chunks = 0;
  std::optional<int64_t> tokens, prompt_tokens, cached;
  double first = 0, last = 0;

  void take(std::string_view data, const std::function<void(const ReplyPart&)>& on_part) {
    const auto j = parse_json<ordered_json>(data);
    if (!j.is_object()) {
      if (!data.empty() && data != "[DONE]" && unread.empty()) unread = one_line(data.substr(0, 100));
      return;
    }
    if (j.contains("error")) error = error_text(0, data);
    if (j.contains("usage") && j.at("usage").is_object()) take_usage(j.at("usage"));
    if (!j.contains("choices") || !j.at("choices").is_array() || j.at("choices").empty()) return;
    const ordered_json& choice = j.at("choices")[0];
    if (const std::string why = text_of(choice, "finish_reason"); !why.empty()) finish = why;
    const ordered_json delta = choice.is_object() && choice.contains("delta") ? choice.at("delta") : ordered_json();
    std::string thought = text_of(delta, "reasoning_content");
    if (thought.empty()) thought = text_of(delta, "reasoning");
    const std::string part = text_of(delta, "content");
    const bool has_calls = delta.is_object() && delta.contains("tool_calls") && delta.at("tool_calls").is_array();
    if (thought.empty() && part.empty() && !has_calls) return;
    bytes += data.size();
    check(bytes < kMostBytes, "the server's answer is longer than {} bytes", kMostBytes);
    last = steady_seconds();
    if (chunks++ == 0) first = last;
    thoughts += thought;
    text += part;
    if (!thought.empty()) on_part({.text = thought, .thought = true});
    if (!part.empty()) on_part({.text = part});
    if (has_calls)
      for (const ordered_json& call : delta.at("tool_calls")) take_call(call);
  }

  // Some servers give all calls the same number, or none.
  void take_call(const ordered_json& part) {
    if (!part.is_object()) return;
    const ordered_json function = part.contains("function") ? part.at("function") : ordered_json();
    const std::string id = text_of(part, "id"), name = text_of(function, "name");
    const bool numbered = part.contains("index") && part.at("index").is_number_integer();
    const int64_t number = numbered ? part.at("index").get<int64_t>() : -1;
    const auto known = places.find(number);
    const bool goes_on =
        known != places.end() && (id.empty() ? numbered || name.empty() : calls[known->second].id == id);
    if (!goes_on) {
      places[number] = calls.size();
      calls.push_back({.id = id, .name = name, .arguments = ""});
    }
    dialog::ToolCall& call = calls[places.at(number)];
    if (call.name.empty()) call.name = name;
    const bool is_object =
        function.is_object() && function.contains("arguments") && function.at("arguments").is_object();
    call.arguments += is_object ? json_text(function.at("arguments")) : text_of(function, "arguments");
  }

  void take_usage(const ordered_json& usage) {
    const std::optional<int64_t> none;
    const auto number = [&none](const ordered_json& object, const char* key) {
      constexpr uint64_t kMost = uint64_t(1) << 53;  // no server counts that far
      if (!object.is_object() || !object.contains(key) || !object.at(key).is_number_unsigned()) return none;
      const uint64_t n = object.at(key).get<uint64_t>();
      return n <= kMost ? std::optional(int64_t(n)) : none;
    };
    tokens = number(usage, "completion_tokens");
    prompt_tokens = number(usage, "prompt_tokens");
    if (usage.contains("prompt_tokens_details")) cached = number(usage.at("prompt_tokens_details"), "cached_tokens");
  }
};

// OpenAI's form, where calls have ids, and their arguments are a text.
ordered_json messages_for_server(const ordered_json& messages) {
  ordered_json list = ordered_json::array();
  size_t latest_user = messages.size(), calls = 0;
  for (size_t i = 0; i < messages.size(); ++i)
    if (messages[i].at("role") == "user") latest_user = i;
  std::deque<std::string> open;  // ids of calls without results
  for (size_t i = 0; i < messages.size(); ++i) {
    const ordered_json& m = messages[i];
    list.push_back({{"role", m.at("role")}, {"content", m.at("content")}});
    ordered_json& out = list.back();
    if (m.at("role") == "tool") {
      const std::string id = text_of(m, "tool_call_id");
      out["tool_call_id"] = id.empty() && !open.empty() ? open.front() : id;
      if (!open.empty()) open.pop_front();
    }
    if (!m.contains("tool_calls")) continue;
    if (i > latest_user && m.contains("reasoning_content")) out["reasoning_content"] = m.at("reasoning_content");
    open.clear();
    for (const ordered_json& call : m.at("tool_calls")) {
      const std::string id = text_of(call, "id");
      open.push_back(id.empty() ? fmt::format("call_{}", calls) : id);
      ++calls;
      const ordered_json& f = call.at("function");
      const std::string arguments =
          f.at("arguments").is_string() ? text_of(f, "arguments") : json_text(f.at("arguments"));
      out["tool_calls"].push_back({{"id", open.back()},
                                   {"type", "function"},
                                   {"function", {{"name", f.at("name")}, {"arguments", arguments}}}});
    }
  }
  return list;
}

}  // namespace

// As the WHATWG's HTML Standard says (9.2.6): a line ends with CR, LF or both; an empty line ends the event.
void EventReader::push(std::string_view bytes) {
  for (const char c : bytes) {
    if (std::exchange(after_return_, false) && c == '\n') continue;
    if (c != '\n' && c != '\r') {
      line_ += c;
      continue;
    }
    after_return_ = c == '\r';
    take_line();
    line_.clear();
  }
  check(line_.size() + data_.size() <= kMostBytes, "the server sends an event of more than {} bytes", kMostBytes);
}

void EventReader::take_line() {
  constexpr std::string_view kMark = "\xef\xbb\xbf";  // of the byte order, at the beginning of a stream
  std::string_view line = line_;
  if (std::exchange(first_, false) && line.starts_with(kMark)) line.remove_prefix(kMark.size());
  if (line.empty()) return finish();
  constexpr std::string_view kField = "data";
  if (!line.starts_with(kField)) return;
  line.remove_prefix(kField.size());
  if (!line.empty() && line.front() != ':') return;  // another field
  if (line.starts_with(':')) line.remove_prefix(1);
  if (line.starts_with(' ')) line.remove_prefix(1);
  if (has_data_) data_ += '\n';
  data_ += line;
  has_data_ = true;
}

void EventReader::finish() {
  if (!line_.empty()) {
    take_line();
    line_.clear();
  }
  if (!std::exchange(has_data_, false)) return;
  const std::string data = std::exchange(data_, "");
  on_data_(data);
}

std::string error_text(long status, std::string_view body) {
  constexpr size_t kShown = 300;
  constexpr long kNotFound = 404, kNotAllowed = 405;
  const auto j = parse_json<ordered_json>(body);
  std::string text;
  if (j.is_object() && j.contains("error"))
    text = j.at("error").is_string() ? j.at("error").get<std::string>() : text_of(j.at("error"), "message");
  if (text.empty() && j.is_object()) text = text_of(j, "message");
  if (text.empty()) text = std::string(body.substr(0, kShown));
  if (j.is_discarded() &&
      std::string_view(text).substr(std::min(text.find_first_not_of(" \t\r\n"), text.size())).starts_with('<'))
    text = fmt::format("the answer is a web page, {}", status == kNotFound || status == kNotAllowed
                                                           ? "so no server of a model listens there"
                                                           : "perhaps of a proxy in front of the server");
  if (constexpr size_t kMost = 2000; text.size() > kMost) text.resize(kMost);  // one_line() repairs its end
  text = one_line(text);
  if (status == 0) return text;
  constexpr long kUnauthorized = 401;
  if (status == kUnauthorized) {
    if (text.starts_with("the API key is missing")) text.clear();  // our own server's words
    text += "; the API key is missing or refused: put it into TOY_API_KEY";
  }
  if (text.starts_with("; ")) text.erase(0, 2);
  return text.empty() ? fmt::format("status {}", status) : fmt::format("status {}: {}", status, text);
}

ordered_json request_body(const std::string& model, const ordered_json& messages, const ReplySettings& settings,
                          uint64_t again) {
  ordered_json body{{"model", model}, {"messages", messages_for_server(messages)}, {"stream", true}};
  if (!settings.tools.is_null()) body["tools"] = settings.tools;
  body["stream_options"] = {{"include_usage", true}};
  body.update(settings.fields);
  if (again > 0) body["seed"] = settings.generate.sampler.seed + again;
  return body;
}

struct RemoteModel::State {
  std::string base, model;
  const std::function<bool()>* stop = nullptr;
  fetch::Http http;

  State(const std::string& url, std::string name, const std::string& key)
      : base(base_of(url)), model(std::move(name)), http(key, [this] { return stop && (*stop)(); }) {}

  std::vector<std::string> models() {
    const std::string where = base + "/models";
    std::string text;
    const fetch::Answer answer = http.get_text(where, text);
    check(answer.status == 200, "{}: {}", where, error_text(answer.status, text));
    const auto j = parse_json<ordered_json>(text);
    std::vector<std::string> names;
    if (j.is_object() && j.contains("data") && j.at("data").is_array())
      for (const ordered_json& m : j.at("data")) names.push_back(text_of(m, "id"));
    return names;
  }
};

std::vector<std::string> RemoteModel::models(const std::string& url, const std::string& api_key) {
  return State(url, "", api_key).models();
}

RemoteModel::RemoteModel(const std::string& url, std::string model, const std::string& api_key)
    : state_(std::make_unique<State>(url, std::move(model), api_key)) {
  State& s = *state_;
  if (!s.model.empty()) return;
  const std::vector<std::string> models = s.models();
  if (!models.empty()) s.model = models[0];
  check(!s.model.empty(), "{}/models: the server names no model; name one: toy chat MODEL --url {}", s.base, url);
}

RemoteModel::~RemoteModel() = default;

const std::string& RemoteModel::model() const { return state_->model; }

Reply RemoteModel::reply(const ordered_json& messages, const ReplySettings& settings, uint64_t again,
                         const std::function<void(const ReplyPart&)>& on_part, const std::function<bool()>& stop) {
  State& s = *state_;
  const ordered_json body = request_body(s.model, messages, settings, again);
  const std::string where = s.base + "/chat/completions";
  Arriving a;
  EventReader events([&](std::string_view data) { a.take(data, on_part); });
  s.stop = &stop;
  bool stopped = false;
  fetch::Answer answer;
  try {
    answer = s.http.post_json(where, json_text(body), [&](const fetch::Answer& head, std::span<const std::byte> bytes) {
      const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      if (head.status == 200)
        events.push(text);
      else if (a.body.size() < kMostBytes)
        a.body += text;
    });
    check(answer.status == 200, "{}: {}", where, error_text(answer.status, a.body));
    events.finish();
  } catch (const fetch::Stopped&) {
    stopped = true;
  } catch (...) {
    s.stop = nullptr;
    throw;
  }
  s.stop = nullptr;
  check(a.error.empty(), "{}: {}", where, a.error);
  check(stopped || a.chunks > 0 || a.unread.empty(), "{}: an event of the answer is not JSON: {}", where, a.unread);
  check(stopped || a.chunks > 0 || !a.finish.empty(), "{}: the answer is no stream of OpenAI's API", where);
  for (size_t i = 0; i < a.calls.size(); ++i)
    if (a.calls[i].id.empty()) a.calls[i].id = fmt::format("call_{}_{}", messages.size(), i);
  return {.message = answer_message(a.text, a.thoughts, a.calls),
          .end = stopped                ? ReplyEnd::stopped
                 : a.finish == "length" ? ReplyEnd::length
                                        : ReplyEnd::done,
          .tokens = a.tokens.value_or(a.chunks),
          .prompt_tokens = a.prompt_tokens.value_or(0),
          .computed = a.prompt_tokens && a.cached ? std::max<int64_t>(*a.prompt_tokens - *a.cached, 0) : -1,
          .seconds = a.last - a.first};
}

}  // namespace toy::talk
