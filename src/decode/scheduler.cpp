#include "toy/decode/scheduler.h"

#include <algorithm>
#include <exception>
#include <numeric>

#include "toy/base/error.h"

namespace toy {
namespace {

std::vector<int> all_sequences(Decoder& decoder) {
  std::vector<int> list(size_t(decoder.state().sequences()));
  std::iota(list.begin(), list.end(), 0);
  return list;
}

// Tokens at the beginning that two texts share.
size_t common_prefix(std::span<const int32_t> a, std::span<const int32_t> b) {
  return size_t(std::mismatch(a.begin(), a.begin() + int64_t(std::min(a.size(), b.size())), b.begin()).first -
                a.begin());
}

// Of several calls that throw, the first to do so.
class FirstError {
 public:
  template <class Call>
  void guard(Call&& call) {
    try {
      call();
    } catch (...) {
      if (!first_) first_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::exception_ptr first_;
};

constexpr size_t kWorthSharing = size_t(kPagePositions);

}  // namespace

Scheduler::Scheduler(Decoder& decoder, std::vector<int> sequences) : decoder_(decoder) {
  check(!sequences.empty(), "scheduler: there are no sequences; give at least one");
  for (const int s : sequences) {
    check(s >= 0 && s < decoder.state().sequences(), "scheduler: sequence {} of {}", s, decoder.state().sequences());
    check(std::none_of(slots_.begin(), slots_.end(), [s](const Slot& slot) { return slot.sequence == s; }),
          "scheduler: sequence {} is given twice", s);
    slots_.push_back({.sequence = s});
  }
}

Scheduler::Scheduler(Decoder& decoder) : Scheduler(decoder, all_sequences(decoder)) {}

void Scheduler::add(GenerateRequest request) {
  const std::vector<int32_t>& prompt = request.prompt;
  check(!prompt.empty(), "prompt: there is nothing to continue; give at least one token");
  check(int64_t(prompt.size()) <= decoder_.context(),
        "context: a prompt of {} tokens does not fit into {}; use a larger --ctx, or less text", prompt.size(),
        decoder_.context());
  for (const int32_t id : prompt)
    check(id >= 0 && id < decoder_.vocab(), "prompt: token id {} is outside the vocabulary (0 to {})", id,
          decoder_.vocab() - 1);
  decoder_.check_adapters(request.adapters);
  const Sampler sampler(request.options.sampler);
  std::vector<int32_t> history = prompt;
  waiting_.push_back(std::make_unique<Job>(Job{std::move(request), added_++, sampler, std::move(history), 0, {}}));
}

bool Scheduler::step() {
  fill_slots();
  collect_rows();
  if (rows_.empty()) return false;
  try {
    decoder_.decode(rows_);
  } catch (...) {  // the sequences are as they were, or empty; so must be what is known of them
    for (Slot& slot : slots_) {
      if (slot.job) slot.job->fed -= slot.rows;
      slot.held.resize(slot.held.size() - slot.rows);
      if (slot.rows > 0 && decoder_.state().length(slot.sequence) == 0) {
        slot.held.clear();
        if (slot.job) slot.job->fed = 0;                // its text is read once more
        if (slot.job && !slot.known) slot.job.reset();  // what it continued is lost
      }
      slot.rows = 0;
    }
    throw;
  }
  // A callback that throws must not cost the other texts their tokens.
  FirstError error;
  for (size_t i = 0; i < answered_.size(); ++i) error.guard([&] { accept(*answered_[i], decoder_.logits(i)); });
  error.rethrow();
  return true;
}

void Scheduler::fill_slots() {
  for (Slot& slot : slots_) {
    while (!slot.job && !waiting_.empty()) {
      std::unique_ptr<Job> job = std::move(waiting_.front());
      waiting_.pop_front();
      if (job->request.options.max_tokens <= 0) {  // done before it began
        if (job->request.on_done) job->request.on_done(job->result);
        continue;
      }
      slot.begun = false;
      slot.job = std::move(job);
    }
  }
}

// Takes over what some sequence holds of the prompt. False: an earlier request is about to compute more of it.
bool Scheduler::begin(Slot& slot) {
  Job& job = *slot.job;
  DecodeState& state = decoder_.state();
  const std::vector<float>& adapters = job.request.adapters;
  const auto use_adapters = [&] {
    slot.adapters = adapters;
    decoder_.use_adapters(slot.sequence, adapters);
  };
  if (!slot.used && state.length(slot.sequence) > 0) {  // continued, whatever it is
    slot.used = slot.begun = true;
    use_adapters();
    return true;
  }
  slot.used = true;
  const std::span<const int32_t> prompt(job.history.data(),
                                        job.history.size() - 1);  // the last one's logits are wanted
  size_t best = 0, promised = 0;
  const Slot* source = nullptr;
  Slot* reader = nullptr;
  for (Slot& s : slots_) {
    if (!s.known || s.adapters != adapters) continue;
    const size_t computed = size_t(state.length(s.sequence));  // the last rows may still be on their way
    const size_t here = std::min(common_prefix(s.held, prompt), computed);
    // Layers with a window forget what was before: only the latest prefixes can be taken over.
    if (here > best && int64_t(here) >= state.shortest(s.sequence)) best = here, source = &s;
    if (!s.job || !s.begun) continue;
    const size_t to_come = common_prefix(s.job->request.prompt, prompt);
    if (to_come > computed && to_come > promised) promised = to_come, reader = &s;
  }
  if (promised >= kWorthSharing && promised > best) {
    // A recurrent state can be taken over where it is exactly that prefix.
    if (state.recurrent()) reader->pause = reader->pause > 0 ? std::min(reader->pause, promised) : promised;
    return false;
  }
  if (best < kWorthSharing) {
    best = 0;
    state.reset(slot.sequence);
  } else {
    if (source != &slot) state.fork(source->sequence, slot.sequence);
    state.truncate(slot.sequence, int64_t(best));
  }
  slot.held.assign(prompt.begin(), prompt.begin() + int64_t(best));
  slot.known = slot.begun = true;
  use_adapters();
  job.fed = best;
  shared_tokens_ += int64_t(best);
  return true;
}

// A row for each text that is being written; the room that is left is for prompts, the earliest sequence first.
void Scheduler::collect_rows() {
  rows_.clear();
  answered_.clear();
  std::vector<Slot*> starting;
  for (Slot& slot : slots_) {
    slot.pause = 0;
    if (slot.job && !slot.begun) starting.push_back(&slot);
  }
  // The earliest first: a later one would clear what an earlier one has waited for, again and again.
  std::ranges::sort(starting, {}, [](const Slot* slot) { return slot->job->number; });
  for (Slot* slot : starting) begin(*slot);
  const auto writing =
      std::count_if(slots_.begin(), slots_.end(), [](const Slot& s) { return s.job && s.job->writing(); });
  size_t room = size_t(std::max<int64_t>(decoder_.max_rows() - int64_t(writing), 1));
  for (Slot& slot : slots_) {
    slot.rows = 0;
    if (!slot.job || !slot.begun) continue;
    Job& job = *slot.job;
    const size_t left = job.history.size() - job.fed,
                 until = slot.pause > job.fed ? std::min(left, slot.pause - job.fed) : left,
                 rows = job.writing() ? 1 : std::min(until, room);
    if (!job.writing()) room -= rows;
    for (size_t i = 0; i < rows; ++i) rows_.push_back({slot.sequence, job.history[job.fed + i], i + 1 == left});
    slot.held.insert(slot.held.end(), job.history.begin() + int64_t(job.fed),
                     job.history.begin() + int64_t(job.fed + rows));
    job.fed += rows;
    slot.rows = rows;
    if (rows > 0 && rows == left) answered_.push_back(&slot);
  }
}

void Scheduler::accept(Slot& slot, std::span<const float> logits) {
  Job& job = *slot.job;
  const GenerateOptions& o = job.request.options;
  std::vector<GeneratedToken>& tokens = job.result.tokens;
  int32_t id = 0;
  try {
    id = job.sampler.pick(logits, tokens.size(), job.history);
  } catch (...) {  // the text cannot go on, and others wait for its sequence
    slot.job.reset();
    throw;
  }
  tokens.push_back({{id, log_softmax_at(logits, id)}, top_logprobs(logits, o.top_logprobs)});
  job.history.push_back(id);
  FirstError error;
  bool go_on = true;  // also where the callback throws: its error ends the step, not the text
  error.guard([&] { go_on = !job.request.on_token || job.request.on_token(tokens.back()); });
  std::optional<FinishReason> reason;
  if (!go_on)
    reason = FinishReason::stopped;
  else if (!o.ignore_eos && std::ranges::find(job.request.eos, id) != job.request.eos.end())
    reason = FinishReason::eos;
  else if (int64_t(tokens.size()) >= o.max_tokens || decoder_.state().length(slot.sequence) >= decoder_.context())
    reason = FinishReason::length;
  if (reason) {
    const std::unique_ptr<Job> done = std::move(slot.job);  // on_done may add requests, and throw
    done->result.reason = *reason;
    if (done->request.on_done) error.guard([&] { done->request.on_done(done->result); });
  }
  error.rethrow();
}

}  // namespace toy
