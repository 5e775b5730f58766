#include "decode/row_plan.h"

#include <algorithm>
#include <optional>

namespace toy {

bool RowPlan::begin_texts() {
  std::vector<Slot*> starting;
  for (Slot& slot : slots_) {
    slot.pause = slot.rows = 0;
    if (slot.job && !slot.begun) starting.push_back(&slot);
  }
  // The earliest first: a later one would clear what an earlier one has waited for, again and again.
  std::ranges::sort(starting, {}, [](const Slot* slot) { return slot->job->number; });
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
// at once had better wait.
bool RowPlan::has_room(const Slot& slot) const {
  const DecodeState& state = decoder_.state();
  const std::optional<size_t> pool = state.shared_pool();
  if (!pool || state.shape().shared_pages == 0) return true;
  const auto pages = [](int64_t positions) { return (positions + kPagePositions - 1) / kPagePositions; };
  int64_t used = 0;
  bool alone = true;
  for (const Slot& s : slots_)
    if (s.busy()) alone = false, used += pages(int64_t(s.job->history.size()));
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
Slot* RowPlan::youngest_text() {
  Slot* youngest = nullptr;
  for (Slot& s : slots_)
    if (s.busy() && s.known && (youngest == nullptr || s.job->number > youngest->job->number)) youngest = &s;
  return youngest;
}

// Gives back pages of what no text uses. False: there are none.
bool RowPlan::forget_prefix() {
  Slot* oldest = oldest_prefix();
  if (oldest == nullptr) return prefixes_.evict();
  prefixes_.remember(*oldest);
  oldest->forget(decoder_.state());
  return true;
}

// Frees pages for the rows of a slot: of prefixes that no text uses, then of the youngest text. False: it is the
// youngest and gets no rows in this call.
bool RowPlan::make_room(Slot& slot) {
  while (missing_pages() > 0) {
    if (forget_prefix()) continue;
    Slot* victim = youngest_text();
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

// One row for each text that is being written; the room that is left is for prompts, the earliest text first.
void RowPlan::plan() {
  std::vector<Slot*> begun;
  int64_t writing = 0;
  for (Slot& slot : slots_) {
    slot.rows = 0;
    if (!slot.busy()) continue;
    begun.push_back(&slot);
    if (slot.job->writing()) writing += int64_t(slot.job->left());
  }
  std::ranges::sort(begun, {}, [](const Slot* slot) { return slot->job->number; });
  size_t room = size_t(std::max<int64_t>(decoder_.max_rows() - writing, 1));
  for (Slot* slot : begun) {
    if (!slot->begun) continue;  // preempted by an earlier one
    const Job& job = *slot->job;
    const size_t left = job.left();
    size_t until = slot->pause > job.fed ? std::min(left, slot->pause - job.fed) : left;
    const auto snapshot = std::ranges::upper_bound(job.snapshots, job.fed);
    if (decoder_.state().recurrent() && snapshot != job.snapshots.end()) until = std::min(until, *snapshot - job.fed);
    slot->rows = job.writing() ? left : std::min(until, room);
    const bool reads = !job.writing();
    if (make_room(*slot) && reads) room -= slot->rows;
  }
}

}  // namespace toy
