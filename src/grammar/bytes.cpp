// How much memory compiled grammars take.
#include "grammar/constraint.h"
#include "toy/grammar/grammar.h"

namespace toy {
namespace grammar {
namespace {

size_t bytes_of_automaton(const Automaton& a) {
  size_t bytes = a.states.size() * sizeof(NfaState);
  for (const NfaState& s : a.states)
    bytes += s.bytes.capacity() * sizeof(ByteEdge) + s.free.capacity() * sizeof(int32_t) + (s.bytes.empty() ? 0 : 16) +
             (s.free.empty() ? 0 : 16);  // and what the allocator adds
  for (const std::string& name : a.names) bytes += sizeof(std::string) + name.capacity();
  return bytes + (a.starts.size() + a.order.size()) * sizeof(int32_t);
}

}  // namespace

size_t RuleMasks::bytes() const {
  const std::lock_guard lock(mutex_);
  constexpr size_t kOfEntry = 16;  // of a matcher
  return bytes_of_automaton(*automaton_) + masks_.size() * (trie_->words() * sizeof(uint64_t) + 256) +
         matcher_.size() * kOfEntry;
}

}  // namespace grammar

size_t bytes_of(const TokenConstraint& constraint) {
  if (const auto* c = dynamic_cast<const grammar::GrammarConstraint*>(&constraint)) return c->masks().bytes();
  if (const auto* c = dynamic_cast<const grammar::LazyConstraint*>(&constraint)) return c->masks().bytes();
  return 0;
}

}  // namespace toy
