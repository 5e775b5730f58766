// Renders conversations for a comparison: each line of standard input is a JSON object with "template" and what a
// template sees; each line of the output one with "text" and "generated" (offsets in bytes), or "error".
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "toy/base/error.h"
#include "toy/chat/chat_input.h"
#include "toy/chat/chat_template.h"

int main() {
  using nlohmann::ordered_json;
  for (std::string line; std::getline(std::cin, line);) {
    const ordered_json job = ordered_json::parse(line);
    ordered_json result;
    try {
      toy::ChatInput input{.messages = job.at("messages"),
                           .tools = job.value("tools", ordered_json()),
                           .documents = job.value("documents", ordered_json()),
                           .add_generation_prompt = job.value("add_generation_prompt", false),
                           .variables = job.value("variables", ordered_json::object())};
      if (job.contains("now")) input.now = job["now"].get<int64_t>();
      const toy::RenderedChat chat = toy::ChatTemplate(job.at("template").get<std::string>()).render(input);
      result["text"] = chat.text;
      result["generated"] = ordered_json::array();
      for (const toy::TextSpan& span : chat.generated) result["generated"].push_back({span.begin, span.end});
    } catch (const toy::Error& e) {
      result["error"] = e.what();
    }
    std::cout << result.dump() << '\n';
  }
}
