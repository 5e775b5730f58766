// What the texts of requests have to be: schemas, grammars and forced calls.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "serve/api.h"
#include "serve/call_forms.h"
#include "toy/grammar/grammar.h"
#include "toy/text/constraint.h"

namespace toy::serve {

/// Makes the constraints of requests, and remembers the latest. All share one tree of the vocabulary, which is made
/// when it is first needed. One thread at a time.
class Constraints {
 public:
  /// `form`: how the model writes calls; nullptr: in no known way. The tokenizer must outlive it.
  Constraints(const Tokenizer& tokenizer, const CallForm* form);
  /// nullptr: none. Throws ApiError for what cannot be expressed, and for tools that the model cannot call.
  std::shared_ptr<const TokenConstraint> of(const CompletionRequest& r);
  /// Control tokens that are marks of calls.
  const std::vector<int32_t>& marks() const { return marks_; }

 private:
  static constexpr size_t kMostKept = 16;
  const TokenTrie& tokens(bool with_marks);
  std::shared_ptr<const TokenConstraint> make(const CompletionRequest& r);
  std::shared_ptr<const TokenConstraint> make_calls(const CompletionRequest& r);
  std::shared_ptr<const TokenConstraint> make_form(const CompletionRequest& r);

  const Tokenizer& tokenizer_;
  const CallForm* form_;
  std::vector<int32_t> marks_;
  std::optional<TokenTrie> plain_, marked_;
  std::list<std::pair<std::string, std::shared_ptr<const TokenConstraint>>> kept_;  // the latest first
};

/// May the model call the tools of a request?
bool calls_tools(const CompletionRequest& r);

}  // namespace toy::serve
