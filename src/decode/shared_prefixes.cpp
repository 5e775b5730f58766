#include "decode/shared_prefixes.h"

#include <algorithm>

namespace toy {
namespace {

// Tokens at the beginning that two texts share.
size_t common_prefix(std::span<const int32_t> a, std::span<const int32_t> b) {
  return size_t(std::mismatch(a.begin(), a.begin() + int64_t(std::min(a.size(), b.size())), b.begin()).first -
                a.begin());
}

constexpr size_t kWorthSharing = size_t(kPagePositions);
// Tokens between the snapshots of a prompt: at least, and in long messages.
constexpr size_t kNearSnapshots = 2 * size_t(kPagePositions), kFarSnapshots = 8 * size_t(kPagePositions);

PrefixSpace space_of(const Job& job) { return {job.request.adapters, job.request.owner}; }

// Where a prompt is worth a snapshot, in order: after its messages, which these tokens end, before its last token, and
// at intervals. No more than about `most`, which the ends of messages have first.
std::vector<size_t> snapshot_positions(std::span<const int32_t> prompt, std::span<const int32_t> eos, size_t most) {
  const size_t end = prompt.size() - 1, near = std::max(kNearSnapshots, prompt.size() / std::max<size_t>(most, 1)),
               far = std::max(kFarSnapshots, near / size_t(kPagePositions) * size_t(kPagePositions));
  std::vector<size_t> ends;  // of messages, from the last to the first
  for (size_t i = end; i >= kWorthSharing; --i)
    if (std::ranges::find(eos, prompt[i - 1]) != eos.end() && (ends.empty() || ends.back() - i >= near))
      ends.push_back(i);
  if (end >= kWorthSharing && (ends.empty() || end - ends.front() >= kWorthSharing)) ends.insert(ends.begin(), end);
  std::vector<size_t> positions;
  for (size_t at = 0; !ends.empty(); ends.pop_back()) {
    for (size_t next = at / far * far + far; next + near <= ends.back(); next += far)
      if (next - at >= near) positions.push_back(next);
    positions.push_back(at = ends.back());
  }
  return positions;
}

}  // namespace

SharedPrefixes::SharedPrefixes(Decoder& decoder, std::vector<Slot>& slots) : decoder_(decoder), slots_(slots) {
  if (const DecodeShape& shape = decoder.state().shape(); shape.shared_pages > 0 || shape.snapshots > 0)
    tree_ = std::make_unique<PrefixTree>(decoder.state());
}

// The sequence that holds most of a prompt, and the text that is about to compute more of it.
struct SharedPrefixes::Source {
  size_t length = 0, promised = 0;
  const Slot* slot = nullptr;
  Slot* reader = nullptr;
};

SharedPrefixes::Source SharedPrefixes::find_source(const Job& job, std::span<const int32_t> prompt) {
  const DecodeState& state = decoder_.state();
  Source source;
  for (Slot& s : slots_) {
    if (!s.known || s.space != space_of(job)) continue;
    const size_t computed = size_t(state.length(s.sequence));  // the last rows may still be on their way
    const size_t here = std::min(common_prefix(s.held, prompt), computed);
    // Layers with a window forget what was before: only the latest prefixes can be taken over.
    const bool holds =
        job.request.on_state ? state.can_keep(s.sequence, int64_t(here)) : int64_t(here) >= state.shortest(s.sequence);
    if (here > source.length && holds) source.length = here, source.slot = &s;
    // Who comes first does not wait for one of a later priority, which may have to wait itself.
    if (!s.busy() || s.job->request.priority > job.request.priority) continue;
    const size_t to_come = common_prefix(s.job->request.prompt, prompt);
    if (to_come > computed && to_come > source.promised) source.promised = to_come, source.reader = &s;
  }
  return source;
}

void SharedPrefixes::plan_snapshots(Job& job, size_t shared, size_t known) const {
  if (decoder_.state().shape().snapshots == 0 || !job.snapshots.empty()) return;
  const size_t share = size_t(decoder_.state().shape().snapshots) / 2;  // the others are for other texts
  job.snapshots = snapshot_positions(job.request.prompt, job.request.eos, share);
  // Where this text leaves an earlier one, others may leave it, too.
  const auto next = std::ranges::lower_bound(job.snapshots, known);
  if (known >= shared + kNearSnapshots && (next == job.snapshots.end() || *next > known))
    job.snapshots.insert(next, known);
}

void SharedPrefixes::use_space(Slot& slot) {
  slot.space = space_of(*slot.job);
  decoder_.use_adapters(slot.sequence, slot.space.adapters);
}

void SharedPrefixes::restore(Slot& slot) {
  decoder_.state().restore(slot.sequence, *slot.job->request.state);
  slot.held = slot.job->history;
  slot.known = slot.begun = true;
  slot.job->fed = slot.held.size();
  use_space(slot);
  remember(slot);
}

bool SharedPrefixes::begin(Slot& slot) {
  Job& job = *slot.job;
  DecodeState& state = decoder_.state();
  const PrefixSpace space = space_of(job);
  if (!slot.used && state.length(slot.sequence) > 0) {  // continued, whatever it is
    slot.used = slot.begun = true;
    use_space(slot);
    return true;
  }
  slot.used = true;
  // The last one's logits are wanted, and what scores and on_hidden need.
  size_t most = job.history.size() - (job.request.on_state ? 0 : 1);
  if (job.request.score_prompt) most = std::min(most, job.result.prompt.size());
  if (job.request.on_hidden) most = std::min(most, job.next_hidden());
  const std::span<const int32_t> prompt(job.history.data(), most);
  const auto [held, promised, source, reader] = find_source(job, prompt);
  PrefixTree::Found found = tree_ ? tree_->find(prompt, space) : PrefixTree::Found();
  const bool kept = found.length > held;
  size_t best = std::max(held, found.length);
  if (promised >= worth_sharing_ && promised > best) {
    // A recurrent state can be taken over where it is exactly that prefix.
    if (state.recurrent()) reader->pause = reader->pause > 0 ? std::min(reader->pause, promised) : promised;
    return false;
  }
  if (best < worth_sharing_) best = 0;
  if (source != &slot || kept || int64_t(best) < state.length(slot.sequence)) remember(slot);
  if (kept || best == 0) state.reset(slot.sequence);
  if (best > 0 && kept) {
    found = tree_->find(prompt, space);  // the snapshot of what the sequence held may have taken its place
    best = found.length;
    if (best > 0) state.adopt(slot.sequence, int64_t(best), found.pages, found.state);
  } else if (best > 0) {
    if (source != &slot) state.fork(source->sequence, slot.sequence);
    state.truncate(slot.sequence, int64_t(best));
  }
  slot.held.assign(prompt.begin(), prompt.begin() + int64_t(best));
  slot.known = slot.begun = true;
  use_space(slot);
  job.fed = best;
  shared_tokens_ += int64_t(best);
  if (job.result.tokens.empty()) job.result.shared = int64_t(best);
  plan_snapshots(job, best, found.known);
  return true;
}

void SharedPrefixes::remember(const Slot& slot) {
  if (tree_ && slot.known && slot.held.size() >= kWorthSharing) tree_->insert(slot.held, slot.space, slot.sequence);
}

void SharedPrefixes::remember_snapshots() {
  if (!tree_ || decoder_.state().only_pages()) return;
  for (const Slot& slot : slots_) {
    if (!slot.known || slot.rows == 0) continue;
    for (const size_t at : slot.job->snapshots)
      if (at > slot.held.size() - slot.rows && at <= slot.held.size())
        tree_->insert(std::span(slot.held).first(at), slot.space, slot.sequence);
  }
}

void SharedPrefixes::remember_pages() {
  if (!tree_ || !decoder_.state().only_pages()) return;
  const auto full = [](size_t tokens) { return tokens / size_t(kPagePositions); };
  for (const Slot& slot : slots_)
    if (slot.known && slot.rows > 0 && full(slot.held.size()) > full(slot.held.size() - slot.rows))
      tree_->insert_pages(slot.held, slot.space, slot.sequence);
}

}  // namespace toy
