// Forms of calls, and tools to call.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "dialog/call_forms.h"
#include "dialog/call_parser.h"
#include "dialog/messages.h"

namespace toy::dialog {

inline std::shared_ptr<const std::vector<Tool>> tools() {
  return std::make_shared<std::vector<Tool>>(std::vector<Tool>{
      make_tool("weather", "",
                {{"type", "object"},
                 {"properties",
                  {{"city", {{"type", "string"}}}, {"days", {{"type", "integer"}}}, {"unit", {{"enum", {"C", "F"}}}}}},
                 {"required", {"city"}}},
                false),
      make_tool("now", "", nullptr, false)});
}

inline const CallForm& form(const std::string& mark) {
  const CallForm* f = call_form_of("{{ tools }} " + mark);
  EXPECT_NE(f, nullptr) << mark;
  return *f;
}

struct Parsed {
  std::string text, thought;
  std::vector<ToolCall> calls;
};

// All of the text, in pieces of this many bytes.
inline Parsed parse(const CallForm& f, const std::string& all, size_t step) {
  CallParser p(f, tools(), "salt");
  Parsed r;
  const auto add = [&](const Piece& piece) {
    r.text += piece.text, r.thought += piece.thought;
    for (const auto& [index, part] : piece.calls) {
      EXPECT_LE(index, r.calls.size());
      if (index == r.calls.size()) {
        EXPECT_FALSE(part.id.empty() || part.name.empty());
        r.calls.emplace_back();
      } else {
        EXPECT_TRUE(part.id.empty() && part.name.empty());
      }
      ToolCall& c = r.calls[index];
      c.id += part.id, c.name += part.name, c.arguments += part.arguments;
    }
  };
  for (size_t at = 0; at < all.size(); at += step) add(p.push(std::string_view(all).substr(at, step)));
  add(p.finish());
  return r;
}

}  // namespace toy::dialog
