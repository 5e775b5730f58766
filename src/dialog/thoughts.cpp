#include "dialog/thoughts.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "dialog/call_text.h"

namespace toy::dialog {
namespace {

struct Family {
  std::string_view in_template;  // what its templates have
  ThoughtMarks marks;
};

ThoughtMarks cohere(std::string_view answer_open, std::string_view answer_close) {
  ThoughtMarks marks{.open = "<|START_THINKING|>",
                     .close = "<|END_THINKING|>",
                     .answer_open = answer_open,
                     .answer_close = answer_close};
  marks.tokens.push_back(answer_open);
  marks.tokens.push_back(answer_close);
  return marks;
}

// Templates are searched in this order.
const std::vector<Family>& families() {
  static const std::vector<Family> all{
      {"<|channel>",
       {.open = "<|channel>thought", .close = "<channel|>", .tokens = {"<|channel>", "<channel|>"}}},  // Gemma 4
      {"[THINK]", {"[THINK]", "[/THINK]"}},                                      // Magistral, Ministral 3
      {"<seed:think>", {"<seed:think>", "</seed:think>"}},                       // Seed-OSS
      {"<|START_TEXT|>", cohere("<|START_TEXT|>", "<|END_TEXT|>")},              // Command A Reasoning and later
      {"<|START_RESPONSE|>", cohere("<|START_RESPONSE|>", "<|END_RESPONSE|>")},  // Command R7B, Command A, Aya
      {"<|START_THINKING|>", {"<|START_THINKING|>", "<|END_THINKING|>"}},        // others of Cohere
      {"<|inner_prefix|>", {"<|inner_prefix|>", "<|inner_suffix|>", "<|tools_prefix|>"}},  // Apertus
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

}  // namespace

ThoughtMarks thought_marks(std::string_view chat_template) {
  const Family* family = family_of(chat_template);
  return family ? family->marks : ThoughtMarks();
}

ThoughtState thought_state(std::string_view prompt, std::string_view chat_template) {
  const Family* family = family_of(chat_template);
  if (family == nullptr) return ThoughtState::ended;
  prompt = right_trimmed(prompt);
  const ThoughtMarks& marks = family->marks;
  if (prompt.ends_with(marks.open)) return ThoughtState::begun;
  const bool answers = !marks.answer_open.empty() && prompt.ends_with(marks.answer_open);
  return answers || prompt.ends_with(marks.close) ? ThoughtState::ended : ThoughtState::possible;
}

// Takes the mark in front of the answer. False: what came may be a part of it.
bool ThoughtSplitter::take_open() {
  const std::string_view open = marks_.answer_open, rest = left_trimmed(held_);
  if (open.empty() || opened_) return true;
  if (rest.size() < open.size()) return !open.starts_with(rest);
  opened_ = rest.starts_with(open);
  if (opened_) held_.erase(0, held_.size() - rest.size() + open.size());
  return true;
}

// What has come of the answer, up to what may be the mark after it.
std::string ThoughtSplitter::take_answer() {
  const std::string_view close = marks_.answer_close;
  if (close.empty()) return std::exchange(held_, "");
  if (const size_t at = opened_ ? held_.find(close) : held_.npos; at != held_.npos) {
    held_.erase(at, close.size());
    opened_ = false;
  }
  const size_t kept = held_.ends_with(close) ? close.size() : begun_bytes(held_, close);
  std::string answer = held_.substr(0, held_.size() - kept);
  held_.erase(0, answer.size());
  return answer;
}

std::vector<ThoughtPart> ThoughtSplitter::push(std::string_view text) {
  held_ += text;
  std::vector<ThoughtPart> parts;
  if (at_ == beginning) {
    const std::string_view rest = left_trimmed(held_);
    if (marks_.open.starts_with(rest) && rest.size() < marks_.open.size()) return parts;
    const bool thinks = rest.starts_with(marks_.open);
    if (!thinks && !take_open()) return parts;
    at_ = thinks ? thinking : answering;
    if (thinks) held_ = rest.substr(marks_.open.size());
  }
  if (at_ == thinking) {
    if (!any_) held_ = left_trimmed(held_);
    const size_t close = held_.find(marks_.close), call = marks_.call.empty() ? held_.npos : held_.find(marks_.call);
    const size_t end = std::min(close, call);
    const bool ended = end != held_.npos;
    const size_t kept = std::max(begun_bytes(held_, marks_.close), begun_bytes(held_, marks_.call));
    const std::string given(right_trimmed(std::string_view(held_).substr(0, ended ? end : held_.size() - kept)));
    if (!given.empty()) parts.push_back({given, true}), any_ = true;
    held_.erase(0, ended ? end + (end == close ? marks_.close.size() : 0) : given.size());
    if (ended) at_ = before_answer;
  }
  if (at_ == before_answer) {
    held_ = left_trimmed(held_);
    if (!held_.empty() && take_open()) at_ = answering;
  }
  if (at_ == answering && !held_.empty())
    if (std::string answer = take_answer(); !answer.empty()) parts.push_back({std::move(answer), false});
  return parts;
}

std::vector<ThoughtPart> ThoughtSplitter::finish() {
  std::string rest = std::exchange(held_, "");
  if (at_ == thinking) rest = right_trimmed(rest);
  if (rest.empty() || (at_ == answering && rest == marks_.answer_close)) return {};
  return {{std::move(rest), at_ == thinking}};
}

}  // namespace toy::dialog
