#include "talk/plain_screen.h"

#include <fmt/format.h>

#include <cstdio>
#include <iostream>

#include "talk/tools.h"
#include "toy/base/utf8.h"

namespace toy::talk {

LineRead PlainScreen::read(const std::string&, const std::string&) {
  LineRead read;
  if (!std::getline(std::cin, read.line)) read.kind = LineRead::end;
  return read;
}

void PlainScreen::show(const ReplyPart& part) {
  if (!part.thought) print(std::string(part.text));
}

void PlainScreen::end_reply(const Reply* reply, bool) {
  if (reply == nullptr) return;
  const std::vector<std::string> calls = shown_calls(reply->message);
  if (calls.empty() || reply->message.at("content") != "") print("\n");
  for (const std::string& call : calls) print(call + "\n");
}

void PlainScreen::print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void PlainScreen::note(const std::string& text) {
  const std::string line = fmt::format("toy: {}\n", one_line(text));
  std::fwrite(line.data(), 1, line.size(), stderr);
}

// Nobody reads on.
bool PlainScreen::interrupted() { return std::ferror(stdout) != 0; }

}  // namespace toy::talk
