#include "decode/speculator.h"

#include <algorithm>

#include "toy/base/error.h"

namespace toy {

Speculator::Speculator(Decoder& decoder, std::vector<Slot>& slots, const SpeculationOptions& options)
    : decoder_(decoder), slots_(slots), options_(options) {
  options.validate();
  if (options.draft) draft_ = std::make_unique<DraftModel>(*options.draft, slots.size(), decoder.vocab());
}

// How many tokens it pays to propose for a text, of so many that are being written.
size_t Speculator::most_proposed(const Slot& slot, size_t texts) const {
  constexpr size_t kMostRepeated = 8;  // rows after recurrent states were restored; beyond, they are read for good
  const Job& job = *slot.job;
  if (!job.in_progress || slot.rows == 0 || slot.rows > kMostRepeated) return 0;
  // The token after the last proposed one must be wanted, and fit.
  const int64_t wanted = job.request.options.max_tokens - int64_t(job.result.tokens.size()) - 1,
                room = decoder_.context() - decoder_.state().length(slot.sequence) - int64_t(slot.rows);
  const size_t possible = size_t(std::max<int64_t>(0, std::min(wanted, room))),
               most = std::min(job.rate.worth(options_, texts), possible);
  if (draft_ && most > 0) {
    const size_t unread = draft_->unread(size_t(&slot - slots_.data()), job.history);
    if (!options_.reading_pays(unread, job.result.tokens.size(), possible)) return 0;
  }
  return most;
}

void Speculator::propose(const RowPlan& plan) {
  if (!options_.active()) return;
  size_t rows = 0, texts = 0;
  for (const Slot& slot : slots_) {
    rows += slot.rows;
    texts += slot.rows > 0 && slot.job->writing();
  }
  std::vector<Proposal> proposals;
  for (Slot& slot : slots_) {
    if (!slot.busy()) continue;
    if (const size_t most = most_proposed(slot, texts); most > 0) {
      proposals.push_back({.sequence = size_t(&slot - slots_.data()),
                           .history = slot.job->history,
                           .sampler = &slot.job->sampler,
                           .step = slot.job->result.tokens.size(),
                           .most = most});
    } else if (slot.job->in_progress) {
      slot.job->rate.learn(0, 0);
    }
  }
  const size_t most_rows = size_t(decoder_.max_rows());
  if (proposals.empty() || rows >= most_rows) return;
  const size_t share = (most_rows - rows) / proposals.size();
  for (Proposal& p : proposals) p.most = std::min(p.most, share);
  if (share == 0) return;
  for (Proposal& p : proposals)
    if (options_.ngrams) p.tokens = continue_by_ngrams(p.history, p.most);
  if (draft_) draft_->propose(proposals);
  for (Proposal& p : proposals) {
    Slot& slot = slots_[p.sequence];
    slot.proposed = std::move(p.tokens);
    slot.rows += slot.proposed.size();
    for (; !slot.proposed.empty() && plan.missing_pages() > 0; --slot.rows) slot.proposed.pop_back();
    slot.wrong = slot.proposed.size();
    slot.job->result.speculation.proposed += int64_t(slot.proposed.size());
    counts_.proposed += int64_t(slot.proposed.size());
    if (!slot.proposed.empty() && decoder_.state().recurrent()) decoder_.state().save(slot.sequence, slot.before);
  }
}

void Speculator::count(Slot& slot) {
  Job& job = *slot.job;
  const size_t wrong = job.fed - job.history.size();
  if (wrong < slot.wrong) {
    ++job.result.speculation.accepted;
    ++counts_.accepted;
  }
  slot.wrong = wrong;
}

// The text has ended; its sequence holds it completely for those who continue it.
void Speculator::read_again(Slot& slot, std::span<const int32_t> tokens) {
  std::vector<DecodeRow> rows;
  for (const int32_t id : tokens) rows.push_back({slot.sequence, id});
  try {
    decoder_.decode(rows);
  } catch (const Error&) {  // the text is complete: what fails is the next one's beginning
    slot.forget(decoder_.state());
    return;
  }
  slot.held.insert(slot.held.end(), tokens.begin(), tokens.end());
  slot.rows += tokens.size();
}

void Speculator::settle(Slot& slot) {
  if (slot.proposed.empty()) return;
  if (slot.job) slot.job->rate.learn(slot.proposed.size(), slot.proposed.size() - slot.wrong);
  if (slot.wrong > 0) {
    DecodeState& state = decoder_.state();
    const int64_t had = state.length(slot.sequence);
    if (state.recurrent())
      state.rewind(slot.sequence, slot.before);
    else
      state.truncate(slot.sequence, had - int64_t(slot.wrong));
    const size_t back = size_t(had - state.length(slot.sequence));
    const std::vector<int32_t> right(slot.held.end() - int64_t(back), slot.held.end() - int64_t(slot.wrong));
    slot.held.resize(slot.held.size() - back);
    slot.rows -= back;
    if (slot.job)
      slot.job->fed -= back;  // the next call reads again what was right
    else if (!right.empty())
      read_again(slot, right);
  }
  slot.proposed.clear();
}

}  // namespace toy
