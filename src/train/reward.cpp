#include "toy/train/reward.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>

#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/nearest.h"
#include "toy/base/shell_word.h"
#include "toy/data/text_files.h"
#include "toy/grammar/grammar.h"
#include "train/reward_program.h"

namespace toy {
namespace {

// Bytes of a text, at most: the library's matcher recurses.
constexpr size_t kMostMatched = 20000;
constexpr const char* kNumber = R"([+-]?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?([eE][+-]?\d+)?)";

bool equals_an_answer(const OpenQuestion& q, const std::string& text) {
  const std::string normalized = normalized_answer(text, {});
  for (const std::string& a : q.answers)
    if (normalized_answer(a, {}) == normalized) return true;
  return false;
}

// One of 0 or 1 for each text by itself.
template <class F>
class Test final : public Reward {
 public:
  explicit Test(F f) : f_(std::move(f)) {}
  std::vector<std::optional<double>> judge(std::span<const Attempt> attempts) override {
    std::vector<std::optional<double>> list;
    for (const Attempt& a : attempts) list.emplace_back(f_(a) ? 1.0 : 0.0);
    return list;
  }

 private:
  F f_;
};
template <class F>
std::unique_ptr<Reward> test(F f) {
  return std::make_unique<Test<F>>(std::move(f));
}

std::unique_ptr<Reward> number_reward(const std::string& which) {
  check(which.empty() || which == "last", "reward 'number:{}': use number, or number:last for the last one of a text",
        which);
  return test([last = !which.empty()](const Attempt& a) {
    std::string text = a.text;
    if (last) {
      if (text.size() > kMostMatched) return false;
      static const std::regex number(kNumber);
      std::string found;
      for (std::sregex_iterator at(text.begin(), text.end(), number), end; at != end; ++at) found = at->str();
      text = found;
    }
    const std::optional<double> given = number_in(text);
    if (!given) return false;
    for (const std::string& right : a.question->answers)
      if (number_in(right) == given) return true;
    return false;
  });
}

std::string what_is_wrong(const std::regex_error& error) {
  namespace errors = std::regex_constants;
  const auto code = error.code();
  return code == errors::error_brack       ? "a [ has no ]; write \\[ for the character"
         : code == errors::error_paren     ? "a ( has no ), or a ) no (; write \\( or \\) for the character"
         : code == errors::error_brace     ? "a { has no }; write \\{ for the character"
         : code == errors::error_badbrace  ? "a { is not followed by numbers, as in {2,5}; write \\{ for the character"
         : code == errors::error_badrepeat ? "a *, + or ? has nothing before it; write \\* for the character"
         : code == errors::error_escape
             ? "a \\ has no character after it that it could stand for; write \\\\ for the character"
         : code == errors::error_range ? "a range ends before it begins, as in [z-a]"
         : code == errors::error_ctype || code == errors::error_collate
             ? "there is no such class of characters; use one such as [[:alpha:]] or \\d"
         : code == errors::error_backref ? "there is no group of this number; write \\\\ for the character \\"
         : code == errors::error_space   ? "it takes too much memory; use smaller numbers in { }"
                                         : error.what();
}

// Of a pattern without \1, \2, ... the time to match grows with the length of the text, not with 2 to its power, as it
// does with (\w+ ?)+\. and a text without the full stop.
std::regex compiled(const std::string& pattern) {
#ifdef __GLIBCXX__
  try {
    return std::regex(pattern, std::regex_constants::ECMAScript | std::regex_constants::__polynomial);
  } catch (const std::regex_error& e) {
    if (e.code() != std::regex_constants::error_complexity) throw;
  }
#endif
  return std::regex(pattern);
}

std::unique_ptr<Reward> regex_reward(const std::string& pattern) {
  check(!pattern.empty(), "reward 'regex:' has no pattern; write regex:R");
  std::regex regex;
  try {
    regex = compiled(pattern);
  } catch (const std::regex_error& e) {
    fail("reward 'regex:{}': {}", pattern, what_is_wrong(e));
  }
  return test([regex](const Attempt& a) {
    const std::string text = normalized_answer(a.text, {});
    std::smatch m;
    if (text.size() > kMostMatched || !std::regex_match(text, m, regex)) return false;
    return regex.mark_count() == 0 || equals_an_answer(*a.question, m.str(1));
  });
}

std::unique_ptr<Reward> json_reward(const std::string& file) {
  check(!file.empty(), "reward 'json:' has no file; write json:FILE");
  const Grammar grammar = json_schema_grammar(read_json<nlohmann::ordered_json>(file, read_text_file(file)), file);
  return test([grammar](const Attempt& a) { return grammar.matches(normalized_answer(a.text, {})); });
}

}  // namespace

std::optional<double> number_in(std::string_view text) {
  static const std::regex number(std::string(R"(\s*()") + kNumber + R"()\.?\s*)");
  std::string t(text);
  std::smatch m;
  if (t.size() > 400 || !std::regex_match(t, m, number)) return std::nullopt;
  std::string digits = m.str(1);
  std::erase(digits, ',');
  const double value = std::strtod(digits.c_str(), nullptr);
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

// How to give a program that stands where a kind is meant: "program:./reward.sh"; "" for what looks like none.
static std::string as_program(const std::string& factor, const std::string& text) {
  std::error_code error;
  const std::filesystem::path path(text.substr(0, text.find(' ')));
  const std::string ending = path.extension().string();
  if (!std::filesystem::is_regular_file(path, error) && ending != ".py" && ending != ".sh") return {};
  if (ending == ".py") return shell_quoted(factor + "program:python3 " + text);  // needs no chmod and no #! line
  const std::string command = (path.has_parent_path() ? "" : "./") + text;
  const bool is_program = !std::filesystem::exists(path, error) || access(path.c_str(), X_OK) == 0;
  return shell_quoted(factor + "program:" + command) +
         (is_program ? "" : " after chmod +x " + shell_quoted(path.string()));
}

std::pair<double, std::unique_ptr<Reward>> parse_reward(const std::string& text, double timeout) {
  double factor = 1;
  std::string rest = text;
  if (const size_t star = text.find('*'); star != text.npos && star < text.find(':')) {
    const std::string wrong = read_number(std::string_view(text).substr(0, star), {}, factor);
    check(wrong.empty() && factor != 0 && std::abs(factor) <= 1e6,
          "reward '{}': the factor before * is '{}'; use a number from -1e6 to 1e6 that is not 0", text,
          text.substr(0, star));
    rest = text.substr(star + 1);
  }
  const size_t colon = rest.find(':');
  const std::string kind = rest.substr(0, colon), argument = colon == rest.npos ? "" : rest.substr(colon + 1);
  const auto alone = [&] { check(colon == rest.npos, "reward '{}': '{}' takes no argument", text, kind); };
  if (kind == "exact")
    return alone(), std::pair(factor, test([](const Attempt& a) { return equals_an_answer(*a.question, a.text); }));
  if (kind == "finished") return alone(), std::pair(factor, test([](const Attempt& a) { return a.finished; }));
  if (kind == "number") return {factor, number_reward(argument)};
  if (kind == "regex") return {factor, regex_reward(argument)};
  if (kind == "json") return {factor, json_reward(argument)};
  if (kind == "program") return {factor, program_reward(argument, timeout)};
  const std::vector<std::string> kinds{"exact", "number", "regex", "json", "finished", "program"};
  const std::string near = nearest(kind, kinds);
  const std::string program = colon == rest.npos ? as_program(text.substr(0, text.size() - rest.size()), rest) : "";
  check(program.empty(), "reward '{}': write {}, a program that reads questions and writes rewards (toy help grpo.md)",
        text, program);
  fail("reward '{}': there is no kind '{}'; use exact, number, regex:R, json:FILE, finished or program:CMD{}", text,
       kind, near.empty() ? "" : ". Did you mean '" + near + "'?");
}

Judge::Judge(const std::vector<std::string>& rewards, double timeout) : names_(rewards) {
  check(!rewards.empty(), "reward: there is none; say what answers are worth, such as exact");
  for (const std::string& text : rewards) {
    auto [factor, reward] = parse_reward(text, timeout);
    factors_.push_back(factor), rewards_.push_back(std::move(reward));
  }
}

Judge::~Judge() = default;

std::vector<Judgement> Judge::operator()(std::span<const Attempt> attempts) {
  std::vector<Judgement> all(attempts.size(), Judgement{0, {}});
  for (size_t r = 0; r < rewards_.size(); ++r) {
    const std::vector<std::optional<double>> given = rewards_[r]->judge(attempts);
    for (size_t i = 0; i < all.size(); ++i) {
      all[i].terms.push_back(given[i]);
      if (!given[i])
        all[i].total.reset();
      else if (all[i].total)
        *all[i].total += factors_[r] * *given[i];
    }
  }
  return all;
}

}  // namespace toy
