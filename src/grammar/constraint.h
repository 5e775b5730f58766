// The tokens that may continue a text of a grammar.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "grammar/matcher.h"
#include "grammar/trie.h"
#include "toy/grammar/grammar.h"
#include "toy/text/constraint.h"

namespace toy::grammar {

/// A bit for each token.
using TokenBits = std::vector<uint64_t>;

/// What one rule says about the tokens, whatever it returns to.
struct RuleMask {
  TokenBits allowed;           ///< tokens that lie in the rule, or end with it
  std::vector<int32_t> exits;  ///< nodes at which the rule may end while there are longer tokens
};

/// The masks of rules, made when they are first needed and shared by all texts of a grammar, from any thread.
class RuleMasks {
 public:
  RuleMasks(std::shared_ptr<const Automaton> automaton, std::shared_ptr<const Trie> trie)
      : automaton_(std::move(automaton)), trie_(std::move(trie)), matcher_(*automaton_) {}
  const Automaton& automaton() const { return *automaton_; }
  const Trie& trie() const { return *trie_; }
  size_t bytes() const;  ///< of memory, about
  /// `work`: what was spent on the caller's mask, and is spent here.
  std::shared_ptr<const RuleMask> find(const std::vector<RulePlace>& places, size_t& work);

 private:
  static constexpr size_t kMostBytes = size_t(16) << 20, kMostStates = 50'000;
  std::shared_ptr<const Automaton> automaton_;
  std::shared_ptr<const Trie> trie_;
  mutable std::mutex mutex_;
  Matcher matcher_;
  std::map<std::vector<RulePlace>, std::shared_ptr<const RuleMask>> masks_;
};

/// Follows one text of a grammar.
class GrammarConstraint : public TokenConstraint {
 public:
  explicit GrammarConstraint(std::shared_ptr<RuleMasks> masks)
      : masks_(std::move(masks)), matcher_(masks_->automaton()), state_(matcher_.start()) {}
  std::unique_ptr<TokenConstraint> clone() const override { return copy(); }
  std::unique_ptr<GrammarConstraint> copy() const;
  void mask(std::span<uint64_t> allowed) override;
  void accept(int32_t token) override;
  bool finished() const override { return ended_ || (matcher_.done(state_) && !matcher_.goes_on(state_)); }

  const Trie& trie() const { return masks_->trie(); }
  const RuleMasks& masks() const { return *masks_; }
  /// The text continues with these bytes. False, and nothing is changed, where it may not.
  bool push(std::string_view bytes);

 private:
  static constexpr size_t kMostStates = 10'000, kMostBytes = size_t(8) << 20;
  static constexpr size_t kWorkOfByte = 1'000;  // what a byte may cost on average
  GrammarConstraint(std::shared_ptr<RuleMasks> masks, Matcher matcher, int32_t state, bool ended, size_t debt)
      : masks_(std::move(masks)), matcher_(std::move(matcher)), state_(state), ended_(ended), debt_(debt) {}
  void forget();
  const TokenBits& known_mask();
  TokenBits compute_mask();
  void add_exits(const std::vector<int32_t>& exits, int32_t after, TokenBits& result);

  std::shared_ptr<RuleMasks> masks_;
  Matcher matcher_;
  int32_t state_;
  bool ended_ = false;
  size_t debt_ = 0;               // work beyond what the text's bytes may cost
  std::vector<TokenBits> known_;  // of each state of the matcher; empty: not computed
  size_t mask_count_ = 0;
};

/// Any text, until a trigger comes; then a text of a grammar from the trigger's beginning on, then any text again.
class LazyConstraint : public TokenConstraint {
 public:
  LazyConstraint(std::shared_ptr<const GrammarConstraint> begin, std::vector<Trigger> triggers, bool once,
                 Untriggered untriggered)
      : begin_(std::move(begin)),
        triggers_(std::move(triggers)),
        once_(once),
        untriggered_(std::move(untriggered)),
        place_(untriggered_.begun          ? in_untriggered
               : untriggered_.open.empty() ? after_untriggered
                                           : before_untriggered) {}
  LazyConstraint(const LazyConstraint& other);
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<LazyConstraint>(*this); }
  void mask(std::span<uint64_t> allowed) override;
  void accept(int32_t token) override;
  bool finished() const override { return finished_; }
  const RuleMasks& masks() const { return begin_->masks(); }

 private:
  void push(char c);
  bool is_untriggered(char c);
  void leave();
  bool trigger(const Trigger& t) const;

  std::shared_ptr<const GrammarConstraint> begin_;
  std::vector<Trigger> triggers_;
  bool once_, finished_ = false;
  Untriggered untriggered_;
  enum Reading { before_untriggered, in_untriggered, after_untriggered } place_;
  std::string begun_;                          // of untriggered_: what may be its beginning, or its end
  std::string free_;                           // the end of the text outside of the grammar
  bool from_start_ = true;                     // free_ is all of the text
  std::unique_ptr<GrammarConstraint> inside_;  // none: the text is free
};

}  // namespace toy::grammar
