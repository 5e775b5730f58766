#include "toy/dialog/template_doubt.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "dialog/left_out.h"
#include "toy/base/error.h"
#include "toy/dialog/dialog_input.h"

namespace toy {

using nlohmann::ordered_json;

std::string template_doubt(const Dialog& dialog) {
  const char* question = "toyprobequestion";
  const ordered_json ask{{"role", "user"}, {"content", question}}, rule{{"role", "system"}, {"content", "Be kind."}};
  std::string refused;
  bool renders = false;
  for (const ordered_json& messages : {ordered_json::array({ask}), ordered_json::array({rule, ask})}) try {
      const std::string text = dialog.render({.messages = messages, .tools = {}, .documents = {}}).text;
      const auto same = [](char a, char b) { return std::tolower(uint8_t(a)) == b; };  // some write it in capitals
      const std::string_view wanted = question;
      if (std::search(text.begin(), text.end(), wanted.begin(), wanted.end(), same) != text.end()) return {};
      renders = true;
    } catch (const Error& e) {
      if (e.code() != ErrorCode::bad_input) throw;
      refused = e.what();
    }
  return renders ? dialog::kUserIsNotShown : fmt::format("the chat template refuses a plain question: {}", refused);
}

}  // namespace toy
