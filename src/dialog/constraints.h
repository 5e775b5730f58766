// What the texts of requests have to be: schemas, grammars and forced calls.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dialog/answer_rules.h"
#include "dialog/call_forms.h"
#include "dialog/fields.h"
#include "dialog/thoughts.h"
#include "toy/grammar/grammar.h"
#include "toy/text/constraint.h"

namespace toy::dialog {

/// There is no room for one more constraint beside those of other requests: later there will be.
class ConstraintsBusy : public Error {
 public:
  explicit ConstraintsBusy(const std::string& text) : Error(ErrorCode::failure, text) {}
};

/// How much memory constraints take.
struct ConstraintLimits {
  size_t source = size_t(1) << 20;   ///< bytes of what one follows from: schema, grammar and tools
  size_t bytes = size_t(256) << 20;  ///< of all that are in use or kept
  size_t kept = 16;                  ///< that nobody uses
};

/// What an answer has to be. Equal requests share both.
struct Bound {
  std::shared_ptr<const TokenConstraint> constraint;  ///< nullptr: none
  std::shared_ptr<const std::vector<Tool>> tools;     ///< that may be called, without their `json`; nullptr: none
};

/// Makes the constraints of requests. Equal requests share one, as long as some request uses it; the latest are kept
/// beyond that. All share one tree of the vocabulary, which is made when it is first needed. Any thread may ask.
class Constraints {
 public:
  /// `form`: how the model writes calls; nullptr: in no known way. `thoughts`: around its thoughts. The tokenizer must
  /// outlive it.
  Constraints(const Tokenizer& tokenizer, const CallForm* form, const ThoughtMarks& thoughts,
              const ConstraintLimits& limits = {});
  /// A constraint holds after the thought of a text, whose beginning is in this state. Throws ApiError
  /// for what cannot be expressed, and for tools that the model cannot call, and ConstraintsBusy.
  Bound of(const AnswerRules& r, ThoughtState state);
  /// Control tokens that are marks of thoughts, and with `calls` those of calls.
  const std::vector<int32_t>& marks(bool calls) const { return calls ? marks_ : thought_marks_; }

 private:
  // What is shared: it lives while one of both is in use.
  struct Shared {
    std::shared_ptr<const TokenConstraint> constraint;
    std::vector<Tool> tools;
    size_t bytes = 0;  // of memory, about, but those of the constraint, which grow
  };
  using Known = std::shared_ptr<const Shared>;
  const TokenTrie& tokens(bool with_marks);
  Known find(const std::string& key);
  Known keep(const std::string& key, Known made);
  bool make_room(size_t bytes);
  std::shared_ptr<const TokenConstraint> make(const AnswerRules& r, ThoughtState state);
  std::shared_ptr<const TokenConstraint> make_calls(const AnswerRules& r, ThoughtState state);
  std::shared_ptr<const TokenConstraint> make_form(const AnswerRules& r, ThoughtState state);
  std::shared_ptr<const TokenConstraint> after_thought(const std::string& gbnf, const std::string& name,
                                                       const std::vector<SchemaRule>& rules, ThoughtState state);

  Untriggered untriggered(ThoughtState state) const;

  const Tokenizer& tokenizer_;
  const CallForm* form_;
  const ThoughtMarks thoughts_;
  const ConstraintLimits limits_;
  std::vector<int32_t> thought_marks_, marks_;  // the second ones are all
  std::mutex mutex_;                            // of what follows
  std::optional<TokenTrie> plain_, marked_;
  std::map<std::string, std::weak_ptr<const Shared>> known_;  // by what it follows from
  std::list<Known> kept_;                                     // the latest first
};

}  // namespace toy::dialog
