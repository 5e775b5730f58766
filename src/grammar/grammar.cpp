#include "toy/grammar/grammar.h"

#include "grammar/constraint.h"
#include "toy/base/error.h"

namespace toy {
namespace grammar {
namespace {

int32_t state_after(Matcher& m, std::string_view text) {
  int32_t state = m.start();
  for (const char c : text) m.restart_work(), state = m.step(state, uint8_t(c));
  return state;
}

}  // namespace
}  // namespace grammar

void GrammarBudget::refuse(std::string_view what) {
  exceeded_ = true;
  fail(
      "{}: it is too large, together with what comes before it; use fewer or shorter patterns, names and values, or "
      "smaller counts",
      what);
}

bool Grammar::matches(std::string_view text) const {
  grammar::Matcher m(*automaton_);
  return m.done(grammar::state_after(m, text));
}

bool Grammar::begins(std::string_view text) const {
  grammar::Matcher m(*automaton_);
  return grammar::state_after(m, text) != grammar::Matcher::kDead;
}

std::shared_ptr<const TokenConstraint> Grammar::constraint(const TokenTrie& tokens) const {
  return std::make_shared<grammar::GrammarConstraint>(
      std::make_shared<grammar::RuleMasks>(automaton_, tokens.shared()));
}

std::shared_ptr<const TokenConstraint> Grammar::constraint(const TokenTrie& tokens, std::vector<Trigger> triggers,
                                                           bool once, const Untriggered& untriggered) const {
  for (const Trigger& t : triggers)
    check(!t.text.empty() && begins(t.text), "grammar: no text of it begins with the trigger '{}'", t.text);
  auto begin =
      std::make_shared<grammar::GrammarConstraint>(std::make_shared<grammar::RuleMasks>(automaton_, tokens.shared()));
  return std::make_shared<grammar::LazyConstraint>(std::move(begin), std::move(triggers), once, untriggered);
}

}  // namespace toy
