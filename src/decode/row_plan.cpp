#include "decode/row_plan.h"

#include <algorithm>
#include <optional>
#include <tuple>

namespace toy {

bool RowPlan::begin_texts() {
  std::vector<Slot*> starting;
  for (Slot& slot : slots_) {
    slot.pause = slot.rows = 0;
    if (slot.job && !slot.begun) starting.push_back(&slot);
  }
  // The first in order first: a later one would clear what it has waited for, again and again.
  std::ranges::sort(starting, {}, [](const Slot* slot) { return slot->job->order(); });
  bool failed = false;
  for (Slot* slot : starting) {
    if (!has_room(*slot)) break;  // nor do later ones begin, or it might never
    if (slot->job->request.state)
      failed = !restore(*slot) || failed;
    else
      prefixes_.begin(*slot);
  }
  return failed;
}

// All pages of a state are needed at once, and no text is preempted for them. False: it has ended with an error.
bool RowPlan::restore(Slot& slot) {
  prefixes_.remember(slot);
  slot.forget(decoder_.state());
  slot.rows = slot.job->history.size();
  while (missing_pages() > 0 && forget_prefix()) {
  }
  const bool fits = missing_pages() == 0;
  slot.rows = 0;
  if (!fits && std::ranges::any_of(slots_, &Slot::busy)) return true;  // later
  try {
    prefixes_.restore(slot);
  } catch (...) {
    const std::unique_ptr<Job> ended = std::move(slot.job);
    slot.forget(decoder_.state());
    if (!ended->request.on_error) throw;
    ended->request.on_error(std::current_exception());
    return false;
  }
  return true;
}

// Is there room in the cache for all of a text so far, beside those that have begun? A text that would be preempted
// at once had better wait. Those of later priorities make room for it, but not for a state, which comes whole.
bool RowPlan::has_room(const Slot& slot) const {
  const DecodeState& state = decoder_.state();
  const std::optional<size_t> pool = state.shared_pool();
  if (!pool || state.shape().shared_pages == 0) return true;
  const auto pages = [](int64_t positions) { return (positions + kPagePositions - 1) / kPagePositions; };
  int64_t used = 0;
  bool alone = true;
  for (const Slot& s : slots_)
    if (s.busy() && (!s.known || slot.job->request.state || s.job->request.priority <= slot.job->request.priority))
      alone = false, used += pages(int64_t(s.job->history.size()));
  return alone || used + pages(int64_t(slot.job->history.size()) + 1) <= state.pools()[*pool].pages;
}

int64_t RowPlan::missing_pages() const {
  const DecodeState& state = decoder_.state();
  const std::optional<size_t> pool = state.shared_pool();
  if (!pool || state.shape().shared_pages == 0) return 0;
  std::vector<int64_t> more(static_cast<size_t>(state.sequences()));
  for (const Slot& slot : slots_) more[size_t(slot.sequence)] = int64_t(slot.rows);
  return std::max<int64_t>(0, state.pages_needed(more) - state.free_pages(*pool));
}

// The one that no text uses and that was not used for the longest time.
Slot* RowPlan::oldest_prefix() {
  Slot* oldest = nullptr;
  for (Slot& s : slots_)
    if (!s.busy() && s.used && decoder_.state().length(s.sequence) > 0 &&
        (oldest == nullptr || s.used_at < oldest->used_at))
      oldest = &s;
  return oldest;
}

// One that continues what the sequence held cannot be computed again, and is none.
Slot* RowPlan::last_text() {
  Slot* last = nullptr;
  for (Slot& s : slots_)
    if (s.busy() && s.known && (last == nullptr || s.job->order() > last->job->order())) last = &s;
  return last;
}

// Gives back pages of what no text uses. False: there are none.
bool RowPlan::forget_prefix() {
  Slot* oldest = oldest_prefix();
  if (oldest == nullptr) return prefixes_.evict();
  prefixes_.remember(*oldest);
  oldest->forget(decoder_.state());
  return true;
}

// Frees pages for the rows of a slot: of prefixes that no text uses, of what it computed although the tree holds it,
// then of the last text in order. False: it is the last and gets no rows in this call.
bool RowPlan::make_room(Slot& slot) {
  while (missing_pages() > 0) {
    if (forget_prefix() || prefixes_.exchange(slot)) continue;
    Slot* victim = last_text();
    if (victim == nullptr) return true;  // decode() says what is missing
    if (victim == &slot) {
      slot.rows = 0;
      return false;
    }
    victim->begun = false;
    victim->job->fed = 0, victim->job->in_progress = false;
    ++preemptions_;
    victim->forget(decoder_.state());
  }
  return true;
}

// Rows for prompts, beside those of texts that are being written.
size_t RowPlan::room() const {
  size_t writing = 0;
  bool streams = false;
  for (const Slot& slot : slots_) {
    if (!slot.busy()) continue;
    if (slot.job->writing()) writing += slot.job->left();
    streams = streams || slot.job->in_progress;
  }
  const size_t most = size_t(decoder_.max_rows());
  const size_t free = most > writing ? most - writing : 1;
  return piece_ && streams ? std::min(free, std::max(piece_->rows(), writing)) : free;
}

// Tokens of a prompt up to the next place where a call must end.
size_t RowPlan::readable(const Slot& slot) const {
  const Job& job = *slot.job;
  size_t n = job.left();
  if (slot.pause > job.fed) n = std::min(n, slot.pause - job.fed);
  const auto snapshot = std::ranges::upper_bound(job.snapshots, job.fed);
  if (decoder_.state().recurrent() && snapshot != job.snapshots.end()) n = std::min(n, *snapshot - job.fed);
  return n;
}

// The first prompt has half of the room, so that it does not starve; the shortest ones of its priority have the other
// half. What they leave is for the first, and then for those of later priorities. `rows`: by slot.
void RowPlan::share_room(std::vector<Slot*> reading, std::vector<size_t>& rows) const {
  if (reading.empty()) return;
  size_t left = room();
  const auto give = [&](const Slot* slot, size_t most) {
    size_t& n = rows[size_t(slot - slots_.data())];
    const size_t more = std::min({readable(*slot) - n, most, left});
    n += more;
    left -= more;
  };
  const Slot* first = reading.front();
  const int priority = first->job->request.priority;
  std::sort(reading.begin() + 1, reading.end(), [](const Slot* a, const Slot* b) {
    const auto key = [](const Job& job) { return std::tuple(job.request.priority, job.left(), job.number); };
    return key(*a->job) < key(*b->job);
  });
  give(first, left - left / 2);
  for (const Slot* slot : reading)
    if (slot != first && slot->job->request.priority == priority) give(slot, left);
  for (const Slot* slot : reading) give(slot, left);
}

// One row for each text that is being written; the room that is left is for prompts.
void RowPlan::plan() {
  std::vector<Slot*> begun, reading;
  for (Slot& slot : slots_) {
    slot.rows = 0;
    if (slot.busy()) begun.push_back(&slot);
  }
  std::ranges::sort(begun, {}, [](const Slot* slot) { return slot->job->order(); });
  for (Slot* slot : begun)
    if (!slot->job->writing()) reading.push_back(slot);
  std::vector<size_t> rows(slots_.size());
  share_room(reading, rows);
  read_ = 0;
  for (Slot* slot : begun) {
    if (!slot->begun) continue;  // preempted by an earlier one
    const bool writes = slot->job->writing();
    slot->rows = writes ? slot->job->left() : rows[size_t(slot - slots_.data())];
    if (make_room(*slot) && !writes) read_ += slot->rows;
  }
}

void RowPlan::learn(double seconds) {
  if (piece_) piece_->learn(read_, seconds);
}

void RowPlan::limit_pause(double seconds) { piece_.emplace(seconds, size_t(decoder_.max_rows())); }

}  // namespace toy
