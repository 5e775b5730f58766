// What answers are worth: exact matches, numbers, patterns, JSON of a schema, or whatever a program says.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "toy/eval/open_questions.h"

namespace toy {

/// An answer to be judged.
struct Attempt {
  const OpenQuestion* question = nullptr;
  std::string text;
  int64_t tokens = 0;
  bool finished = false;  ///< it ended by itself
};

/// Gives each answer a number.
class Reward {
 public:
  virtual ~Reward() = default;
  /// One for each attempt; absent: not judged. The same for equal texts and rows.
  virtual std::vector<std::optional<double>> judge(std::span<const Attempt> attempts) = 0;
};

/// What answers were given.
struct Judgement {
  std::optional<double> total;               ///< the weighted sum; absent where a term is
  std::vector<std::optional<double>> terms;  ///< without their factors
};

/// The sum of several rewards.
class Judge {
 public:
  /// `rewards`: see parse_reward(). Starts programs. `timeout`: seconds until a program's next answer.
  Judge(const std::vector<std::string>& rewards, double timeout);
  ~Judge();
  /// Of each attempt.
  std::vector<Judgement> operator()(std::span<const Attempt> attempts);
  /// The rewards as they were written.
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::string> names_;
  std::vector<double> factors_;
  std::vector<std::unique_ptr<Reward>> rewards_;
};

/// "[FACTOR*]KIND[:ARGUMENT]". Factor and reward; throws Error{bad_input} naming what is wrong with it:
///   exact         1 if the text equals an answer as `toy eval generate` compares, else 0
///   number        1 if all of the text is a number that equals an answer; number:last takes the last one in the text
///   regex:R       1 if all of the text, without white space at its ends, fits R (ECMAScript); with a group, if the
///                 group equals an answer
///   json:FILE     1 if the text is one that the JSON Schema of the file allows, as --json-schema writes it
///   finished      1 if the answer ended by itself
///   program:CMD   what a program says, see docs/grpo.md
std::pair<double, std::unique_ptr<Reward>> parse_reward(const std::string& text, double timeout);

/// A number that is all of a text, apart from white space: sign, digits, perhaps commas between thousands, a fraction,
/// an exponent, and a full stop at its end.
std::optional<double> number_in(std::string_view text);

}  // namespace toy
