#include "dialog/thoughts.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace toy::dialog {
namespace {

constexpr std::string_view kBlanks = " \n\r\t";

struct Family {
  std::string_view in_template;  // what its templates have
  ThoughtMarks marks;
};

// Templates are searched in this order.
const std::vector<Family>& families() {
  static const std::vector<Family> all{
      {"<|channel>", {"<|channel>thought", "<channel|>", {"<|channel>", "<channel|>"}}},  // Gemma 4
      {"[THINK]", {"[THINK]", "[/THINK]"}},                                               // Magistral, Ministral 3
      {"<seed:think>", {"<seed:think>", "</seed:think>"}},                                // Seed-OSS
      {"<|START_THINKING|>", {"<|START_THINKING|>", "<|END_THINKING|>"}},                 // Command A
      {"think>", {"<think>", "</think>"}},  // DeepSeek R1, Qwen 3, SmolLM3, GLM, Nemotron, and most others
  };
  return all;
}

// nullptr: the template has no marks.
const Family* family_of(std::string_view chat_template) {
  const auto found = std::ranges::find_if(
      families(), [&](const Family& f) { return chat_template.find(f.in_template) != chat_template.npos; });
  return found == families().end() ? nullptr : &*found;
}

size_t blanks_in_front(std::string_view text) { return std::min(text.find_first_not_of(kBlanks), text.size()); }

// Up to the last character that is no blank.
std::string_view without_blanks_behind(std::string_view text) {
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

// The longest end of the text that may begin the mark.
size_t begun_bytes(std::string_view text, std::string_view mark) {
  size_t n = std::min(mark.size() - 1, text.size());
  while (n > 0 && !mark.starts_with(text.substr(text.size() - n))) --n;
  return n;
}

}  // namespace

ThoughtMarks thought_marks(std::string_view chat_template) {
  const Family* family = family_of(chat_template);
  return family ? family->marks : ThoughtMarks();
}

ThoughtState thought_state(std::string_view prompt, std::string_view chat_template) {
  const Family* family = family_of(chat_template);
  if (family == nullptr) return ThoughtState::ended;
  prompt = without_blanks_behind(prompt);
  return prompt.ends_with(family->marks.open)    ? ThoughtState::begun
         : prompt.ends_with(family->marks.close) ? ThoughtState::ended
                                                 : ThoughtState::possible;
}

std::vector<ThoughtPart> ThoughtSplitter::push(std::string_view text) {
  held_ += text;
  std::vector<ThoughtPart> parts;
  if (at_ == beginning) {
    const size_t begin = blanks_in_front(held_);
    const std::string_view rest = std::string_view(held_).substr(begin);
    if (marks_.open.starts_with(rest) && rest.size() < marks_.open.size()) return parts;
    at_ = rest.starts_with(marks_.open) ? thinking : answering;
    if (at_ == thinking) held_.erase(0, begin + marks_.open.size());
  }
  if (at_ == thinking) {
    if (!any_) held_.erase(0, blanks_in_front(held_));
    const size_t end = held_.find(marks_.close);
    const bool ended = end != held_.npos;
    const std::string_view thought =
        std::string_view(held_).substr(0, ended ? end : held_.size() - begun_bytes(held_, marks_.close));
    const std::string given(without_blanks_behind(thought));
    if (!given.empty()) parts.push_back({given, true}), any_ = true;
    held_.erase(0, ended ? end + marks_.close.size() : given.size());
    if (ended) at_ = before_answer;
  }
  if (at_ == before_answer) {
    held_.erase(0, blanks_in_front(held_));
    if (!held_.empty()) at_ = answering;
  }
  if (at_ == answering && !held_.empty()) parts.push_back({std::exchange(held_, ""), false});
  return parts;
}

std::vector<ThoughtPart> ThoughtSplitter::finish() {
  std::string rest = std::exchange(held_, "");
  if (at_ == thinking) rest = without_blanks_behind(rest);
  if (rest.empty()) return {};
  return {{std::move(rest), at_ == thinking}};
}

}  // namespace toy::dialog
