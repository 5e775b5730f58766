#include "talk/conversation.h"

#include <fmt/format.h>

#include <filesystem>

#include "dialog/normalized.h"
#include "toy/base/atomic_file.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"
#include "toy/formats/mapped_file.h"

namespace toy::talk {
namespace {

bool is(const ordered_json& message, const char* role) { return message.at("role") == role; }

// The only line of a text that is not blank.
std::string_view only_line(std::string_view text, const std::string& path) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlank);
  check(begin != text.npos, "{}: no conversation found; it holds nothing", path);
  text = text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
  check(text[0] == '{' || text[0] == '[', "{}: it is no saved chat; give a file that /save wrote", path);
  check(text.find('\n') == text.npos,
        "{}: it has several lines, and a saved chat has one; give a file that /save wrote", path);
  return text;
}

}  // namespace

Conversation Conversation::parse(std::string_view where, std::string_view line) {
  const auto row = read_json<ordered_json>(where, line);
  check(row.is_object() && row.contains("messages") && row.at("messages").is_array(),
        "{}: no conversation; expected {{\"messages\": [...]}}", where);
  for (const auto& [key, value] : row.items())
    check(key == "messages" || key == "tools", "{}: '{}' is not supported in a chat; remove it", where, one_line(key));
  Conversation c;
  try {
    if (!row.at("messages").empty()) c.messages_ = dialog::normalized_messages(row.at("messages"));
    if (row.contains("tools")) c.tools_ = dialog::normalized_tools(row.at("tools"));
  } catch (const Error& e) {
    fail("{}: {}", where, e.what());
  }
  return c;
}

std::string Conversation::line() const {
  ordered_json row{{"messages", messages_}};
  if (!tools_.is_null()) row["tools"] = tools_;
  return json_text(row);
}

void Conversation::set_system(const std::string& text) {
  if (!messages_.empty() && is(messages_[0], "system")) messages_.erase(0);
  if (!text.empty()) messages_.insert(messages_.begin(), ordered_json{{"role", "system"}, {"content", text}});
}

void Conversation::add_user(const std::string& text) {
  messages_.push_back(ordered_json{{"role", "user"}, {"content", text}});
}

size_t Conversation::begin_of_turn(size_t turn) const {
  for (size_t i = 0; i < messages_.size(); ++i)
    if (is(messages_[i], "user") && turn-- == 0) return i;
  return messages_.size();
}

size_t Conversation::turns() const {
  size_t count = 0;
  for (const ordered_json& m : messages_) count += is(m, "user");
  return count;
}

std::optional<std::string> Conversation::last_user() const {
  if (turns() == 0) return std::nullopt;
  return messages_[begin_of_turn(turns() - 1)].at("content").get<std::string>();
}

bool Conversation::waits() const {
  return !messages_.empty() && (is(messages_.back(), "user") || is(messages_.back(), "tool"));
}

ordered_json Conversation::open_calls() const {
  const bool calls = !messages_.empty() && is(messages_.back(), "assistant") && messages_.back().contains("tool_calls");
  return calls ? messages_.back().at("tool_calls") : ordered_json::array();
}

void Conversation::drop_answer() {
  if (turns() == 0) return;
  const size_t begin = begin_of_turn(turns() - 1) + 1;
  messages_.erase(messages_.begin() + std::ptrdiff_t(begin), messages_.end());
}

bool Conversation::undo() {
  if (turns() == 0) return false;
  drop_answer();
  messages_.erase(messages_.size() - 1);
  return true;
}

void Conversation::drop_oldest(size_t count) {
  const size_t begin = !messages_.empty() && is(messages_[0], "system") ? 1 : 0;
  const size_t end = begin_of_turn(count);
  if (end > begin) messages_.erase(messages_.begin() + std::ptrdiff_t(begin), messages_.begin() + std::ptrdiff_t(end));
}

Conversation load_conversation(const std::string& path) {
  const MappedFile file = MappedFile::open(path);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  return Conversation::parse(path, only_line(text, path));
}

bool is_taken(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return false;
  return !std::filesystem::is_regular_file(path, error) || std::filesystem::file_size(path, error) > 0;
}

bool is_another_file(const std::string& path) {
  if (!is_taken(path)) return false;
  try {
    load_conversation(path);
    return false;
  } catch (const Error& e) {
    if (e.code() != ErrorCode::bad_input) throw;
    return true;
  }
}

void save_conversation(const std::string& path, const Conversation& conversation) {
  check(!path.empty(), "/save needs the name of a file");
  check(!is_another_file(path), "{} exists and is no saved chat, so it stays as it is; use another name",
        one_line(path));
  AtomicFile file(path);
  file.write(conversation.line() + "\n");
  file.commit();
}

}  // namespace toy::talk
