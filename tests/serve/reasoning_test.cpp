// Thoughts in all APIs. A grammar makes the random model write one.
#include <gtest/gtest.h>

#include "dialog/constraints.h"
#include "dialog/output_parser.h"
#include "loopback.h"
#include "serve/api/anthropic.h"
#include "serve/api/responses.h"

namespace toy::serve::reasoning_test {
namespace {

using nlohmann::ordered_json;

/// A template that knows thoughts, and one that begins them.
const std::string kThinkingChat = kCallingChat + "{# <think> #}", kBegunChat = kCallingChat + "{{ '<think>\\n' }}";

constexpr const char* kAsk = R"({"messages": [{"role": "user", "content": "q"}], "temperature": 0)";
std::string writes(const std::string& text) {
  return R"(, "grammar": )" + json_text(ordered_json("root ::= " + json_text(ordered_json(text))));
}

struct Streamed {
  std::string content, thought, finish;
  size_t tokens = 0;
  ordered_json usage;
};
Streamed streamed(const Answer& answer) {
  Streamed s;
  const std::string& text = answer.body;
  for (size_t at = text.find("data: "); at != text.npos; at = text.find("data: ", at + 1)) {
    const ordered_json e = parse_json<ordered_json>(text.substr(at + 6, text.find("\n\n", at) - at - 6));
    if (!e.is_object()) continue;
    if (e.contains("usage") && e["usage"].is_object()) s.usage = e["usage"];
    if (e["choices"].empty()) continue;
    const ordered_json& choice = e["choices"][0];
    s.content += choice["delta"].value("content", "");
    s.thought += choice["delta"].value("reasoning_content", "");
    if (choice["logprobs"].is_object()) s.tokens += choice["logprobs"]["content"].size();
    if (choice["finish_reason"].is_string()) s.finish = choice["finish_reason"];
  }
  return s;
}

TEST(Reasoning, IsApartFromTheContent) {
  const Loopback server;
  const std::string text = "<think>\nHm, so.\n</think>\n\nYes.", ask = kAsk + writes(text) + R"(, "logprobs": true)";
  const ordered_json j = server.post("/v1/chat/completions", ask + "}").json();
  const ordered_json& message = j["choices"][0]["message"];
  EXPECT_EQ(message["content"], "Yes.") << j;
  EXPECT_EQ(message["reasoning_content"], "Hm, so.");
  EXPECT_EQ(j["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(j["usage"]["completion_tokens"], text.size());
  // Bytes are tokens here: all but the answer with the blanks in front of it, and the mark's last but one first bytes.
  EXPECT_EQ(j["usage"]["completion_tokens_details"]["reasoning_tokens"], text.find("\n\nYes") - 6);
  EXPECT_EQ(j["choices"][0]["logprobs"]["content"].size(), text.size());  // those of thoughts, too
  const Streamed s = streamed(
      server.post("/v1/chat/completions", ask + R"(, "stream": true, "stream_options": {"include_usage": true}})"));
  EXPECT_EQ(s.content, "Yes.");
  EXPECT_EQ(s.thought, "Hm, so.");
  EXPECT_EQ(s.finish, "stop");
  EXPECT_EQ(s.tokens, text.size());
  EXPECT_EQ(s.usage, j["usage"]);
  // Elsewhere it is text.
  EXPECT_EQ(server.post("/v1/completions", R"({"prompt": "q", "max_tokens": 99)" + writes(text) + "}")
                .json()["choices"][0]["text"],
            text);
}

TEST(Reasoning, StopsLimitsAndTextsWithoutThoughts) {
  const Loopback server;
  const std::string text = "<think>Hm, so.</think>Yes. No.";
  const auto message = [&](const std::string& more, const std::string& written) {
    const ordered_json choice =
        server.post("/v1/chat/completions", kAsk + writes(written) + more + "}").json()["choices"][0];
    const Streamed s =
        streamed(server.post("/v1/chat/completions", kAsk + writes(written) + more + R"(, "stream": true})"));
    EXPECT_EQ(s.content, choice["message"]["content"]);
    EXPECT_EQ(s.thought, choice["message"].value("reasoning_content", ""));
    EXPECT_EQ(s.finish, choice["finish_reason"]);
    return s.thought + "|" + s.content + "|" + s.finish;
  };
  EXPECT_EQ(message(R"(, "stop": " No")", text), "Hm, so.|Yes.|stop");
  EXPECT_EQ(message(R"(, "stop": ", s")", text), "Hm||stop");
  EXPECT_EQ(message(R"(, "stop": "</think>")", text), "Hm, so.||stop");
  EXPECT_EQ(message(R"(, "max_tokens": 9)", text), "Hm||length");
  EXPECT_EQ(message(R"(, "max_tokens": 3)", text), "|<th|length");
  EXPECT_EQ(message("", "<think></think>\n\nYes"), "|Yes|stop");
  EXPECT_EQ(message("", "Yes <think>no</think>"), "|Yes <think>no</think>|stop");
}

TEST(Reasoning, ThatTheTemplateBegins) {
  const Loopback server({}, {}, {}, 0, kBegunChat);
  const ordered_json chat = server.post("/v1/chat/completions", std::string(kAsk) + R"(, "max_tokens": 12})").json();
  const ordered_json plain =
      server.post("/v1/completions", R"({"prompt": "<user>q<assistant><think>\n", "temperature": 0, "max_tokens": 12})")
          .json();
  const ordered_json& message = chat["choices"][0]["message"];
  ThoughtSplitter trims({}, true);
  std::string thought;
  for (const auto& p : trims.push(plain["choices"][0]["text"].get<std::string>())) thought += p.text;
  for (const auto& p : trims.finish()) thought += p.text;
  EXPECT_EQ(message["reasoning_content"], thought) << chat;
  EXPECT_EQ(message["content"], "");
  EXPECT_EQ(chat["usage"]["completion_tokens_details"]["reasoning_tokens"], 12);
  // A schema holds for the answer alone, so that it does not end the thought.
  const ordered_json formed =
      server
          .post("/v1/chat/completions",
                std::string(kAsk) + R"(, "max_tokens": 12, "response_format": {"type": "json_object"}})")
          .json();
  EXPECT_EQ(formed["choices"][0]["message"]["content"], "");
  EXPECT_NE(formed["choices"][0]["message"]["reasoning_content"], "");
  const Answer off = server.post("/v1/messages", R"({"max_tokens": 2, "messages": [{"role": "user", "content": "q"}],
                                                     "thinking": {"type": "disabled"}})");
  EXPECT_EQ(off.status, 400) << off.body;
  EXPECT_NE(off.error().find("thinking is switched off"), std::string::npos) << off.body;
}

// Which texts a constraint allows: bytes are tokens.
bool allows(const std::shared_ptr<const TokenConstraint>& constraint, const std::string& text, bool complete = true) {
  const std::unique_ptr<TokenConstraint> c = constraint->clone();
  std::vector<uint64_t> allowed(5);
  const auto may = [&](size_t id) {
    c->mask(allowed);
    return ((allowed[id / 64] >> (id % 64)) & 1) != 0;
  };
  for (const char byte : text) {
    if (!may(static_cast<unsigned char>(byte))) return false;
    c->accept(static_cast<unsigned char>(byte));
  }
  return !complete || c->finished();
}

TEST(Reasoning, ConstraintsHoldAfterIt) {
  const auto tokenizer = make_byte_tokenizer();
  const CallForm* form = call_form_of(kThinkingChat);
  ASSERT_NE(form, nullptr);
  Constraints constraints(*tokenizer, form, ThoughtMarks());
  const auto request = [](const std::string& more) { return parse_completion(kAsk + more + "}", true); };
  const std::string
      schema = R"(, "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"const": 7}}})",
      tools = R"(, "tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "required")",
      call = R"(<tool_call>{"name":"f","arguments":{}}</tool_call>)";
  for (const auto& [r, answer] : std::vector<std::pair<CompletionRequest, std::string>>{
           {request(schema), "7"}, {request(R"(, "grammar": "root ::= \"7\" # root")"), "7"}, {request(tools), call}}) {
    const auto ended = constraints.of(r, ThoughtState::ended).constraint,
               begun = constraints.of(r, ThoughtState::begun).constraint,
               possible = constraints.of(r, ThoughtState::possible).constraint;
    EXPECT_TRUE(allows(ended, answer, false));
    EXPECT_FALSE(allows(ended, "<think>a</think>" + answer, false));
    EXPECT_FALSE(allows(begun, "a", true));
    EXPECT_FALSE(allows(begun, "a</think>8", false));
    for (const std::string thought :
         {"</think>", "a</think>\n\n", "\n{<</</thin</think</think>", "\u00e4 <tool_call>x </think> "}) {
      EXPECT_TRUE(allows(begun, thought + answer, false)) << thought;
      EXPECT_TRUE(allows(possible, "<think>" + thought + answer, false)) << thought;
      EXPECT_FALSE(allows(possible, thought + answer, false)) << thought;
      EXPECT_FALSE(allows(possible, "<think>" + thought + "</think>", false)) << thought;
    }
    EXPECT_TRUE(allows(possible, answer, false));
    EXPECT_TRUE(allows(begun, "a", false));
  }
}

// A call begins after the thought; what looks like one before that is free.
TEST(Reasoning, NothingInItTriggers) {
  const auto tokenizer = make_byte_tokenizer();
  Constraints constraints(*tokenizer, call_form_of(kThinkingChat), ThoughtMarks());
  const CompletionRequest r =
      parse_completion(std::string(kAsk) + R"(, "tools": [{"type": "function", "function": {"name": "f"}}],
                                               "parallel_tool_calls": false})",
                       true);
  const std::string call = R"(<tool_call>{"name":"f","arguments":{}}</tool_call>)", no_call = "<tool_call>x";
  const auto begun = constraints.of(r, ThoughtState::begun).constraint,
             possible = constraints.of(r, ThoughtState::possible).constraint,
             ended = constraints.of(r, ThoughtState::ended).constraint;
  EXPECT_TRUE(allows(begun, no_call + "</think>\n\na" + call));
  EXPECT_FALSE(allows(begun, no_call + "</think>\n\na" + no_call, false));
  EXPECT_FALSE(allows(begun, call + "</thin"));  // the text has not ended
  EXPECT_TRUE(allows(possible, "\n<think>" + no_call + "</think>" + call));
  EXPECT_FALSE(allows(possible, "<think>" + no_call + "</think>" + no_call, false));
  EXPECT_FALSE(allows(possible, no_call, false));
  EXPECT_TRUE(allows(possible, call));
  EXPECT_FALSE(allows(possible, "a <think>" + no_call, false));
  EXPECT_FALSE(allows(ended, "<think>" + no_call, false));
}

TEST(Reasoning, CallsComeAfterIt) {
  const CallForm* form = call_form_of(kThinkingChat);
  const auto tools = std::make_shared<std::vector<Tool>>(std::vector<Tool>{make_tool("f", "", nullptr, false)});
  const std::string call = R"(<tool_call>{"name":"f","arguments":{}}</tool_call>)",
                    text = "\nI " + call + "\n</think>\nSo: " + call;
  for (size_t step = 1; step < 20; ++step) {
    OutputParser parser(ThoughtSplitter({}, true), std::make_unique<CallParser>(*form, tools, "salt"));
    Piece all;
    for (size_t at = 0; at < text.size(); at += step) all.append(parser.push(text.substr(at, step)));
    all.append(parser.finish());
    EXPECT_EQ(all.thought, "I " + call);
    EXPECT_EQ(all.text, "So:");
    ASSERT_FALSE(all.calls.empty());
    EXPECT_EQ(all.calls.front().added.name, "f");
    EXPECT_EQ(all.calls.back().index, 0u);
  }
}

TEST(Reasoning, OfEarlierTurnsReachesTheTemplate) {
  const ordered_json assistant{{"role", "assistant"}, {"content", "t"}, {"reasoning_content", "hm"}},
      user{{"role", "user"}, {"content", "q"}}, list = ordered_json::array({user, assistant, user});
  const std::string turns = R"({"role": "user", "content": "q"}, )", q = R"({"role": "user", "content": "q"}]})";
  EXPECT_EQ(parse_completion(R"({"messages": [)" + turns +
                                 R"({"role": "assistant", "content": "t", "reasoning_content": "hm"}, )" + q,
                             true)
                .messages,
            list);
  EXPECT_EQ(parse_messages(R"({"max_tokens": 1, "messages": [)" + turns +
                           R"({"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": ""},
                                                                {"type": "text", "text": "t"}]}, )" +
                           q)
                .messages,
            list);
  EXPECT_EQ(parse_responses(R"({"input": [)" + turns +
                            R"({"type": "reasoning", "id": "rs_1", "status": "completed", "summary": [],
                                "content": [{"type": "reasoning_text", "text": "hm"}]},
                               {"role": "assistant", "content": "t"}, )" +
                            q)
                .completion.messages,
            list);
  const ordered_json calls =
      parse_responses(R"({"input": [)" + turns +
                      R"({"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}]},
                         {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
                         {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "cut"}]}, )" +
                      q)
          .completion.messages;
  ASSERT_EQ(calls.size(), 4u);
  EXPECT_EQ(calls[1]["reasoning_content"], "s");
  EXPECT_EQ(calls[1]["tool_calls"].size(), 1u);
  EXPECT_EQ(calls[2], (ordered_json{{"role", "assistant"}, {"content", ""}, {"reasoning_content", "cut"}}));
  const auto refused = [&](const std::string& item, const std::string& param) {
    try {
      parse_responses(R"({"input": [)" + item + "]}");
      ADD_FAILURE() << item;
    } catch (const FieldError& e) {
      EXPECT_EQ(e.field, param) << e.what();
    }
  };
  refused(R"({"type": "reasoning", "summary": 1})", "input[0].summary");
  refused(R"({"type": "reasoning", "content": [{"type": "text"}]})", "input[0].content[0].type");
  refused(R"({"type": "reasoning", "encrypted_content": "x"})", "input[0].encrypted_content");

  const std::string shows =
      "{% for m in messages %}{% if m.reasoning_content %}({{ m.reasoning_content }}){% endif %}"
      "{{ m.content }}{% endfor %}";
  const Loopback server({}, {}, {}, 0, shows);
  EXPECT_EQ(server.post("/apply-template", ordered_json{{"messages", list}}.dump()).json()["prompt"], "q(hm)tq");
}

TEST(Reasoning, IsABlockOrAnItem) {
  Reply reply{.choices = {{}}, .prompt_tokens = 5};
  Choice& c = reply.choices[0];
  c.thought = "hm", c.text = "so", c.thought_tokens = 4;
  c.end.generated.tokens.resize(9);
  c.end.generated.reason = FinishReason::eos;
  const auto stream = [&](ReplyFormat& format) {
    Choice empty;
    std::string all = format.begin({.choices = {empty}, .prompt_tokens = 5});
    all += format.piece(c, {.text = "", .thought = "h"});
    all += format.piece(c, {.text = "", .thought = "m"});
    all += format.piece(c, {.text = "so"});
    all += format.choice_end(c, {});
    all += format.end(reply);
    std::vector<ordered_json> events;
    for (size_t at = all.find("data: "); at != all.npos; at = all.find("data: ", at + 1))
      events.push_back(parse_json<ordered_json>(all.substr(at + 6, all.find("\n\n", at) - at - 6)));
    return events;
  };
  const auto types = [](const std::vector<ordered_json>& events) {
    std::vector<std::string> list;
    for (const ordered_json& e : events) list.push_back(e["type"]);
    return list;
  };

  const ordered_json thinking{{"type", "thinking"}, {"thinking", "hm"}, {"signature", ""}};
  MessagesFormat messages({.id = "msg_1", .model = "m", .created = 0});
  const ordered_json body = parse_json<ordered_json>(messages.body(reply));
  EXPECT_EQ(body["content"], (ordered_json{thinking, {{"type", "text"}, {"text", "so"}}}));
  EXPECT_EQ(body["usage"]["output_tokens_details"]["thinking_tokens"], 4);
  const std::vector<ordered_json> blocks = stream(messages);
  EXPECT_EQ(types(blocks), (std::vector<std::string>{"message_start", "content_block_start", "content_block_delta",
                                                     "content_block_delta", "content_block_delta", "content_block_stop",
                                                     "content_block_start", "content_block_delta", "content_block_stop",
                                                     "message_delta", "message_stop"}));
  EXPECT_EQ(blocks[1]["content_block"]["type"], "thinking");
  EXPECT_EQ(blocks[2]["delta"], (ordered_json{{"type", "thinking_delta"}, {"thinking", "h"}}));
  EXPECT_EQ(blocks[4]["delta"], (ordered_json{{"type", "signature_delta"}, {"signature", ""}}));
  EXPECT_EQ(blocks[6]["index"], 1);

  const ordered_json settings = parse_responses(R"({"input": "q"})").settings;
  ResponsesFormat format({.id = "1", .model = "m", .created = 0}, settings), whole({.id = "1", .model = "m"}, settings);
  const std::vector<ordered_json> items = stream(format);
  EXPECT_EQ(types(items),
            (std::vector<std::string>{
                "response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
                "response.reasoning_text.delta", "response.reasoning_text.delta", "response.reasoning_text.done",
                "response.content_part.done", "response.output_item.done", "response.output_item.added",
                "response.content_part.added", "response.output_text.delta", "response.output_text.done",
                "response.content_part.done", "response.output_item.done", "response.completed"}));
  EXPECT_EQ(items[6]["text"], "hm");
  EXPECT_EQ(items[6]["content_index"], 0);
  const ordered_json last = items.back()["response"];
  EXPECT_EQ(last["output"][0]["content"], (ordered_json{{{"type", "reasoning_text"}, {"text", "hm"}}}));
  EXPECT_EQ(last["output"][0]["summary"], ordered_json::array());
  EXPECT_EQ(last["output"][1]["content"][0]["text"], "so");
  EXPECT_EQ(last["usage"]["output_tokens_details"]["reasoning_tokens"], 4);
  EXPECT_EQ(parse_json<ordered_json>(whole.body(reply)), last);
}

TEST(Reasoning, CanBeSwitchedOff) {
  const std::string jinja =
      kChat + "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}";
  const Loopback server({}, {}, {}, 0, jinja);
  const auto tokens = [&](const std::string& more) {
    return server.post("/v1/messages/count_tokens", R"({"messages": [{"role": "user", "content": "q"}])" + more + "}")
        .json()["input_tokens"]
        .get<int64_t>();
  };
  EXPECT_EQ(tokens(R"(, "thinking": {"type": "disabled"})"), tokens("") + 15);
  EXPECT_EQ(tokens(R"(, "thinking": {"type": "adaptive"})"), tokens(""));
  const auto chat = [&](const std::string& more) {
    return server.post("/v1/chat/completions", kAsk + more + R"(, "max_tokens": 1})").json();
  };
  const ordered_json on = chat(R"(, "chat_template_kwargs": {"enable_thinking": true})"),
                     off = chat(R"(, "chat_template_kwargs": {"enable_thinking": false, "other": [1]})");
  EXPECT_EQ(off["usage"]["prompt_tokens"].get<int>(), on["usage"]["prompt_tokens"].get<int>() + 15);
  const Answer told = server.post(
      "/v1/chat/completions",
      std::string(kAsk) + R"(, "max_tokens": 1, "chat_template_kwargs": {"enable_thinking": false, "x": 1}})");
  EXPECT_NE(told.header.find("X-Toy-Ignored: chat_template_kwargs.x\r\n"), std::string::npos) << told.header;
  EXPECT_EQ(chat(R"(, "chat_template_kwargs": [1])")["error"]["param"], "chat_template_kwargs");
  EXPECT_EQ(chat(R"(, "chat_template_kwargs": {"messages": []})")["error"]["param"], "chat_template_kwargs.messages");
}

}  // namespace
}  // namespace toy::serve::reasoning_test
