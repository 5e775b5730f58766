#include "toy/decode/scheduler.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "decode/accept.h"
#include "decode/row_plan.h"
#include "decode/shared_prefixes.h"
#include "decode/slots.h"
#include "decode/speculator.h"
#include "toy/base/error.h"
#include "toy/base/threads.h"

namespace toy {
namespace {

std::vector<int> all_sequences(Decoder& decoder) {
  std::vector<int> list(size_t(decoder.state().sequences()));
  std::iota(list.begin(), list.end(), 0);
  return list;
}

}  // namespace

Scheduler::Scheduler(Decoder& decoder, std::vector<int> sequences) : decoder_(decoder) {
  check(!sequences.empty(), "scheduler: there are no sequences; give at least one");
  for (const int s : sequences) {
    check(s >= 0 && s < decoder.state().sequences(), "scheduler: sequence {} of {}", s, decoder.state().sequences());
    check(std::none_of(slots_.begin(), slots_.end(), [s](const Slot& slot) { return slot.sequence == s; }),
          "scheduler: sequence {} is given twice", s);
    slots_.push_back({.sequence = s});
  }
  prefixes_ = std::make_unique<SharedPrefixes>(decoder_, slots_);
  plan_ = std::make_unique<RowPlan>(decoder_, slots_, *prefixes_);
  speculate({});
}

Scheduler::Scheduler(Decoder& decoder) : Scheduler(decoder, all_sequences(decoder)) {}

Scheduler::~Scheduler() = default;

void Scheduler::speculate(const SpeculationOptions& options) {
  speculator_ = std::make_unique<Speculator>(decoder_, slots_, options);
}

void Scheduler::limit_pause(double seconds) {
  check(seconds > 0, "pause: it is {} seconds, expected a number above 0", seconds);
  plan_->limit_pause(seconds);
}

void Scheduler::require_possible(const GenerateRequest& request) const {
  const std::vector<int32_t>& prompt = request.prompt;
  check(!prompt.empty(), "prompt: there is nothing to continue; give at least one token");
  check(int64_t(prompt.size()) <= decoder_.context(),
        "context: a prompt of {} tokens does not fit into {}; use a larger --ctx, or less text", prompt.size(),
        decoder_.context());
  for (const int32_t id : prompt)
    check(id >= 0 && id < decoder_.vocab(), "prompt: token id {} is outside the vocabulary (0 to {})", id,
          decoder_.vocab() - 1);
  check(!request.on_hidden || decoder_.gives_hidden(),
        "scheduler: hidden states are wanted; make the decoder with `hidden`");
  check(!request.options.row_checksum || decoder_.gives_hidden(),
        "scheduler: checksums of hidden states are wanted; make the decoder with `hidden`");
  check(!request.on_hidden ||
            (request.hidden_from < prompt.size() && request.options.max_tokens <= 0 && !request.score_prompt),
        "scheduler: hidden states from position {} of {} tokens come without a text and without scores",
        request.hidden_from, prompt.size());
  const bool state = request.on_state || request.state;
  check(!state || (request.options.max_tokens <= 0 && !request.score_prompt && !request.on_hidden),
        "scheduler: a state comes without a text, scores and hidden states");
  check(!request.state || request.state->length == int64_t(prompt.size()),
        "scheduler: a state of {} positions for a prompt of {} tokens", request.state ? request.state->length : 0,
        prompt.size());
  decoder_.check_adapters(request.adapters);
  const Sampler options_are_sound(request.options.sampler);
  if (const int64_t pages = decoder_.state().shape().shared_pages; pages > 0 && decoder_.state().shared_pool()) {
    // The last token is not fed. Sums cannot overflow: the context bounds them.
    const int64_t room = decoder_.context() - int64_t(prompt.size()),
                  positions = int64_t(prompt.size()) + std::clamp<int64_t>(request.options.max_tokens - 1, 0, room);
    check((positions + kPagePositions - 1) / kPagePositions <= pages,
          "cache: {} prompt tokens and {} to generate do not fit into {} positions; use a larger --cache, or less text",
          prompt.size(), request.options.max_tokens, pages * kPagePositions);
  }
}

void Scheduler::share_from(size_t tokens) { prefixes_->share_from(tokens); }

int64_t Scheduler::add(GenerateRequest request) {
  require_possible(request);
  Sampler sampler(request.options.sampler);
  std::vector<int32_t> history = request.prompt;
  deadlines_ = deadlines_ || request.deadline;
  auto job = std::make_unique<Job>(Job{
      .request = std::move(request), .number = added_, .sampler = std::move(sampler), .history = std::move(history)});
  const auto order = job->order();
  waiting_.emplace(order, std::move(job));
  return added_++;
}

bool Scheduler::cancel(int64_t number) {
  for (Slot& slot : slots_)
    if (slot.job && slot.job->number == number) {
      slot.job.reset();
      return true;
    }
  return std::erase_if(waiting_, [&](const auto& entry) { return entry.second->number == number; }) > 0;
}

int64_t Scheduler::shared_tokens() const { return prefixes_->shared_tokens(); }
int64_t Scheduler::preemptions() const { return plan_->preemptions(); }
int64_t Scheduler::snapshots() const { return prefixes_->snapshots(); }
const SpeculationCounts& Scheduler::speculation() const { return speculator_->counts(); }

size_t Scheduler::running() const {
  return size_t(std::ranges::count_if(slots_, [](const Slot& s) { return s.job != nullptr; }));
}

bool Scheduler::step() {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  FirstError error;
  ++steps_;
  end_late(error);
  fill_slots();
  const bool ended = collect_rows();
  if (rows_.empty()) {
    error.rethrow();
    return ended;
  }
  try {
    decoder_.decode(rows_);
  } catch (...) {
    for (Slot& slot : slots_) take_back(slot);
    throw;
  }
  prefixes_->remember_snapshots();
  // A callback that throws must not cost the other texts their tokens.
  for (const RowResult& row : shown_)
    error.guard([&] { show_hidden(*row.slot, row.position, decoder_.hidden(*row.hidden)); });
  std::vector<Drawn> drawn = draw_together();
  for (size_t i = 0; i < answers_.size(); ++i)
    error.guard([&] { accept(answers_[i], {&decoder_, i, answers_[i].hidden}, drawn[i]); });
  error.guard([&] { end_states(); });
  for (Slot& slot : slots_) speculator_->settle(slot);
  prefixes_->remember_pages();
  plan_->learn(std::chrono::duration<double>(Clock::now() - begin).count());
  error.rethrow();
  return true;
}

// The decoder has failed. The sequences are as they were, or empty; so must be what is known of them.
void Scheduler::take_back(Slot& slot) {
  if (slot.job) slot.job->fed -= slot.rows;
  slot.held.resize(slot.held.size() - slot.rows);
  if (slot.rows > 0 && decoder_.state().length(slot.sequence) == 0) {
    slot.held.clear();
    if (slot.job) slot.job->fed = 0, slot.job->in_progress = false;  // its text is read once more
    if (slot.job && !slot.known) slot.job.reset();                   // what it continued is lost
  }
  slot.rows = 0;
  slot.proposed.clear();
}

// Texts whose deadline has passed end with what they have.
void Scheduler::end_late(FirstError& error) {
  if (!deadlines_) return;
  const auto now = std::chrono::steady_clock::now();
  std::vector<std::unique_ptr<Job>> late;  // on_done may add requests
  const auto take = [&](std::unique_ptr<Job>& job) {
    if (!job || !job->request.deadline || *job->request.deadline > now) return false;
    late.push_back(std::move(job));
    return true;
  };
  for (Slot& slot : slots_) take(slot.job);
  for (auto it = waiting_.begin(); it != waiting_.end();) it = take(it->second) ? waiting_.erase(it) : std::next(it);
  for (const std::unique_ptr<Job>& job : late) {
    job->result.reason = FinishReason::deadline;
    if (job->request.on_done) error.guard([&] { job->request.on_done(job->result); });
  }
}

void Scheduler::fill_slots() {
  while (!waiting_.empty()) {
    Slot* slot = idle_slot();
    if (slot == nullptr) {
      slot = last_not_begun();
      if (slot == nullptr || slot->job->order() < waiting_.begin()->first) return;
      const auto order = slot->job->order();
      waiting_.emplace(order, std::move(slot->job));
    }
    std::unique_ptr<Job> job = std::move(waiting_.extract(waiting_.begin()).mapped());
    if (job->request.options.max_tokens <= 0 && !job->request.score_prompt && !job->request.on_hidden &&
        !job->is_state()) {  // done before it began
      if (job->request.on_done) job->request.on_done(job->result);
      continue;
    }
    slot->begun = false;
    slot->job = std::move(job);
  }
}

// The one that has not been used for the longest time: a later text may begin as those in the others.
Slot* Scheduler::idle_slot() {
  Slot* oldest = nullptr;
  for (Slot& slot : slots_)
    if (!slot.job && (oldest == nullptr || slot.used_at < oldest->used_at)) oldest = &slot;
  return oldest;
}

// The last in order of those that wait in a sequence, unless it is to continue what that holds.
Slot* Scheduler::last_not_begun() {
  Slot* last = nullptr;
  for (Slot& slot : slots_)
    if (slot.job && !slot.begun && slot.used && (last == nullptr || last->job->order() < slot.job->order()))
      last = &slot;
  return last;
}

// Requests for states that are complete. Have any ended?
bool Scheduler::end_states() {
  bool any = false;
  FirstError error;
  for (Slot& slot : slots_) {
    if (!slot.busy() || !slot.job->is_state() || slot.job->left() > 0) continue;
    any = true;
    const std::unique_ptr<Job> done = std::move(slot.job);
    error.guard([&] {
      try {
        if (done->request.on_state) done->request.on_state(decoder_.state().snapshot(slot.sequence));
      } catch (...) {  // there is no memory for it
        if (!done->request.on_error) throw;
        return done->request.on_error(std::current_exception());
      }
      if (done->request.on_done) done->request.on_done(done->result);
    });
  }
  error.rethrow();
  return any;
}

// False: there are none, and no request has ended.
bool Scheduler::collect_rows() {
  rows_.clear();
  answers_.clear();
  shown_.clear();
  for (Slot& slot : slots_) slot.wrong = 0;
  size_t hidden = 0;
  bool any = plan_->begin_texts();
  any = end_states() || any;
  plan_->plan();
  speculator_->propose(*plan_);
  for (Slot& slot : slots_) {
    if (slot.rows == 0) continue;
    Job& job = *slot.job;
    const size_t known = job.history.size();
    for (size_t at = job.fed; at < job.fed + slot.rows; ++at) {
      const int32_t token = at < known ? job.history[at] : slot.proposed[at - known];
      const bool shown = job.request.on_hidden && at >= job.next_hidden(),
                 wanted = !job.request.on_hidden && !job.request.on_state && (at + 1 >= known || job.scores(at));
      const bool gives = shown || (wanted && job.request.options.row_checksum);
      const std::optional<size_t> number = gives ? std::optional(hidden++) : std::nullopt;
      rows_.push_back({slot.sequence, token, wanted, gives});
      if (wanted) answers_.push_back({&slot, at, token, number});
      if (shown) shown_.push_back({&slot, at, token, number});
      slot.held.push_back(token);
    }
    job.fed += slot.rows;
    slot.used_at = steps_;
  }
  return any || !rows_.empty();
}

// The next tokens of texts, one for each of the answers, where several can be drawn at the same time.
std::vector<Drawn> Scheduler::draw_together() const {
  std::vector<Drawn> drawn(answers_.size());
  std::vector<size_t> which;
  for (size_t i = 0; i < answers_.size(); ++i) {
    const RowResult& row = answers_[i];
    const bool alone =
        (i == 0 || answers_[i - 1].slot != row.slot) && (i + 1 == answers_.size() || answers_[i + 1].slot != row.slot);
    if (alone && row.slot->job && row.slot->job->continues(row) && draws_apart(*row.slot->job)) which.push_back(i);
  }
  if (team_ == nullptr || which.size() < 2) return drawn;
  team_->run([&](int thread) {
    const Range mine = part(int64_t(which.size()), thread, team_->size());
    for (int64_t at = mine.begin; at < mine.end; ++at) {
      const size_t i = which[size_t(at)];
      drawn[i] = draw(*answers_[i].slot->job, {&decoder_, i, answers_[i].hidden});
    }
  });
  return drawn;
}

void Scheduler::accept(const RowResult& row, const RowLogits& logits, Drawn& drawn) {
  Slot& slot = *row.slot;
  if (!slot.job) return;  // an earlier answer of this call has ended it
  Job& job = *slot.job;
  score_prompt(job, row.position, logits);
  // Not after a proposed token that is none of the text.
  if (!job.continues(row)) return;
  speculator_->count(slot);
  accept_token(slot, logits, drawn, decoder_.state().length(slot.sequence) - int64_t(slot.wrong), decoder_.context());
}

}  // namespace toy
