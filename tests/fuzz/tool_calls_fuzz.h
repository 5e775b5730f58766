// What fuzz_tool_calls requires, and a unit test of its inputs.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "dialog/call_parser.h"

namespace toy::dialog::fuzz {

inline void require(bool so) {
  if (!so) std::abort();
}

struct Parsed {
  std::string text, thought;
  std::vector<ToolCall> calls;
};

inline Parsed parse(const CallForm& form, const std::shared_ptr<const std::vector<Tool>>& tools, std::string_view all,
                    size_t step) {
  CallParser parser(form, tools, "salt");
  Parsed p;
  const auto add = [&](const Piece& piece) {
    p.text += piece.text, p.thought += piece.thought;
    for (const auto& [index, part] : piece.calls) {
      require(index <= p.calls.size() && part.id.empty() == (index < p.calls.size()));
      if (index == p.calls.size()) p.calls.emplace_back();
      p.calls[index].id += part.id, p.calls[index].name += part.name, p.calls[index].arguments += part.arguments;
    }
  };
  for (size_t at = 0; at < all.size(); at += step) add(parser.push(all.substr(at, step)));
  add(parser.finish());
  return p;
}

/// The first byte says which form, the second how long the pieces are.
inline void tool_calls(const uint8_t* data, size_t size) {
  if (size < 2) return;
  static const char* const kMarks[] = {"<tool_call> <parameter=",
                                       "<tool_call>",
                                       "[TOOL_CALLS] [ARGS]",
                                       "[TOOL_CALLS]",
                                       "<|tool_call|>",
                                       "<TOOLCALL>",
                                       R"(<|python_tag|> {"name": function name, "parameters": )",
                                       "<|tool_calls_section_begin|> <|tool_call_argument_begin|>",
                                       "<｜tool▁calls▁begin｜> ```json",
                                       "<｜tool▁calls▁begin｜> <｜tool▁sep｜>",
                                       "<|tool_call_start|>",
                                       "<|tool_call> call:",
                                       "<|channel|> <|message|>",
                                       "<tool_call> </arg_key>\n<arg_value>",
                                       "<tool_call> </arg_key><arg_value>",
                                       "<seed:tool_call> <parameter=",
                                       "<minimax:tool_call> <invoke name=",
                                       "｜DSML｜ function_calls>",
                                       "<tool_calls> </tool_calls>",
                                       R"(<tool_calls>\n{"name": )",
                                       R"(<|START_ACTION|> "tool_name": )",
                                       R"(Action: "tool_name": )",
                                       "<|tools_prefix|> <|tools_suffix|>",
                                       "<|role_sep|> 'function call'",
                                       ">>>${recipient}",
                                       "<function=example_function_name>{"};
  static const auto tools = std::make_shared<std::vector<Tool>>(std::vector<Tool>{
      make_tool("f", "", {{"properties", {{"a", {{"type", "string"}}}, {"b", {{"type", "integer"}}}}}}, false),
      make_tool("g", "", nullptr, false)});
  const CallForm& form = *call_form_of(std::string("tools ") + kMarks[data[0] % std::size(kMarks)]);
  const std::string_view text(reinterpret_cast<const char*>(data + 2), size - 2);
  const Parsed whole = parse(form, tools, text, text.size() + 1), parts = parse(form, tools, text, 1 + data[1] % 16);
  require(whole.text == parts.text && whole.thought == parts.thought && whole.calls.size() == parts.calls.size());
  for (size_t i = 0; i < whole.calls.size(); ++i) {
    require(whole.calls[i].arguments == parts.calls[i].arguments && whole.calls[i].id == parts.calls[i].id);
    require(whole.calls[i].name == "f" || whole.calls[i].name == "g");
  }
  if (form.kind == CallForm::channels) {  // headers are not shown, and each message is a paragraph
    size_t marks = 0;
    for (size_t at = 0; (at = text.find("<|", at)) != text.npos; ++at) ++marks;
    require(whole.text.size() + whole.thought.size() <= text.size() + 2 * marks);
  } else if (form.addressed() || form.own_message) {  // who it is for, ends of messages
    require(whole.text.size() <= text.size());
  } else if (whole.calls.empty()) {
    require(whole.text == text && whole.thought.empty());
  }
}

}  // namespace toy::dialog::fuzz
