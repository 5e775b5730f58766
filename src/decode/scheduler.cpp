#include "toy/decode/scheduler.h"

#include <algorithm>
#include <exception>
#include <numeric>
#include <optional>

#include "decode/prefix_tree.h"
#include "decode/speculation.h"
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
// Tokens between the snapshots of a prompt: at least, and in long messages.
constexpr size_t kNearSnapshots = 2 * size_t(kPagePositions), kFarSnapshots = 8 * size_t(kPagePositions);

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

Scheduler::Scheduler(Decoder& decoder, std::vector<int> sequences) : decoder_(decoder) {
  check(!sequences.empty(), "scheduler: there are no sequences; give at least one");
  for (const int s : sequences) {
    check(s >= 0 && s < decoder.state().sequences(), "scheduler: sequence {} of {}", s, decoder.state().sequences());
    check(std::none_of(slots_.begin(), slots_.end(), [s](const Slot& slot) { return slot.sequence == s; }),
          "scheduler: sequence {} is given twice", s);
    slots_.push_back({.sequence = s});
  }
  if (const DecodeShape& shape = decoder.state().shape(); shape.shared_pages > 0 || shape.snapshots > 0)
    prefixes_ = std::make_unique<PrefixTree>(decoder.state());
}

Scheduler::Scheduler(Decoder& decoder) : Scheduler(decoder, all_sequences(decoder)) {}

Scheduler::~Scheduler() = default;

void Scheduler::speculate(const SpeculationOptions& options) {
  options.validate();
  draft_ = options.draft ? std::make_unique<DraftModel>(*options.draft, slots_.size(), decoder_.vocab()) : nullptr;
  speculation_ = options;
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
  check(!request.on_hidden ||
            (request.hidden_from < prompt.size() && request.options.max_tokens <= 0 && !request.score_prompt),
        "scheduler: hidden states from position {} of {} tokens come without a text and without scores",
        request.hidden_from, prompt.size());
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

int64_t Scheduler::add(GenerateRequest request) {
  require_possible(request);
  Sampler sampler(request.options.sampler);
  std::vector<int32_t> history = request.prompt;
  waiting_.push_back(std::make_unique<Job>(Job{
      .request = std::move(request), .number = added_, .sampler = std::move(sampler), .history = std::move(history)}));
  return added_++;
}

bool Scheduler::cancel(int64_t number) {
  for (Slot& slot : slots_)
    if (slot.job && slot.job->number == number) {
      slot.job.reset();
      return true;
    }
  return std::erase_if(waiting_, [&](const std::unique_ptr<Job>& job) { return job->number == number; }) > 0;
}

int64_t Scheduler::snapshots() const { return prefixes_ ? prefixes_->snapshots() : 0; }

size_t Scheduler::running() const {
  return size_t(std::ranges::count_if(slots_, [](const Slot& s) { return s.job != nullptr; }));
}

bool Scheduler::step() {
  ++steps_;
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
        if (slot.job) slot.job->fed = 0, slot.job->in_progress = false;  // its text is read once more
        if (slot.job && !slot.known) slot.job.reset();                   // what it continued is lost
      }
      slot.rows = 0;
      slot.proposed.clear();
    }
    throw;
  }
  remember_snapshots();
  // A callback that throws must not cost the other texts their tokens.
  FirstError error;
  for (size_t i = 0; i < shown_.size(); ++i) error.guard([&] { show(shown_[i], decoder_.hidden(i)); });
  for (size_t i = 0; i < answers_.size(); ++i) error.guard([&] { accept(answers_[i], decoder_.logits(i)); });
  for (Slot& slot : slots_) settle(slot);
  remember_pages();
  error.rethrow();
  return true;
}

void Scheduler::fill_slots() {
  while (!waiting_.empty()) {
    Slot* slot = idle_slot();
    if (slot == nullptr) return;
    std::unique_ptr<Job> job = std::move(waiting_.front());
    waiting_.pop_front();
    if (job->request.options.max_tokens <= 0 && !job->request.score_prompt &&
        !job->request.on_hidden) {  // done before it began
      if (job->request.on_done) job->request.on_done(job->result);
      continue;
    }
    slot->begun = false;
    slot->job = std::move(job);
  }
}

// The one that has not been used for the longest time: a later text may begin as those in the others.
Scheduler::Slot* Scheduler::idle_slot() {
  Slot* oldest = nullptr;
  for (Slot& slot : slots_)
    if (!slot.job && (oldest == nullptr || slot.used_at < oldest->used_at)) oldest = &slot;
  return oldest;
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
  // The last one's logits are wanted, and what scores and on_hidden need.
  size_t most = job.history.size() - 1;
  if (job.request.score_prompt) most = std::min(most, job.result.prompt.size());
  if (job.request.on_hidden) most = std::min(most, job.next_hidden());
  const std::span<const int32_t> prompt(job.history.data(), most);
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
  PrefixTree::Found found = prefixes_ ? prefixes_->find(prompt, adapters) : PrefixTree::Found();
  const bool kept = found.length > best;
  best = std::max(best, found.length);
  if (promised >= kWorthSharing && promised > best) {
    // A recurrent state can be taken over where it is exactly that prefix.
    if (state.recurrent()) reader->pause = reader->pause > 0 ? std::min(reader->pause, promised) : promised;
    return false;
  }
  if (best < kWorthSharing) best = 0;
  if (source != &slot || kept || int64_t(best) < state.length(slot.sequence)) remember(slot);
  if (kept || best == 0) state.reset(slot.sequence);
  if (best > 0 && kept) {
    found = prefixes_->find(prompt, adapters);  // the snapshot of what the sequence held may have taken its place
    best = found.length;
    if (best > 0) state.adopt(slot.sequence, int64_t(best), found.pages, found.state);
  } else if (best > 0) {
    if (source != &slot) state.fork(source->sequence, slot.sequence);
    state.truncate(slot.sequence, int64_t(best));
  }
  slot.held.assign(prompt.begin(), prompt.begin() + int64_t(best));
  slot.known = slot.begun = true;
  use_adapters();
  job.fed = best;
  shared_tokens_ += int64_t(best);
  if (job.result.tokens.empty()) job.result.shared = int64_t(best);
  if (state.shape().snapshots > 0 && job.snapshots.empty()) {
    const size_t share = size_t(state.shape().snapshots) / 2;  // the others are for other texts
    job.snapshots = snapshot_positions(job.request.prompt, job.request.eos, share);
    // Where this text leaves an earlier one, others may leave it, too.
    const auto next = std::ranges::lower_bound(job.snapshots, found.known);
    if (found.known >= best + kNearSnapshots && (next == job.snapshots.end() || *next > found.known))
      job.snapshots.insert(next, found.known);
  }
  return true;
}

// What a sequence holds can be found by later texts, although it is about to hold another.
void Scheduler::remember(const Slot& slot) {
  if (prefixes_ && slot.known && slot.held.size() >= kWorthSharing)
    prefixes_->insert(slot.held, slot.adapters, slot.sequence);
}

// Is there room in the cache for all of a text so far, beside those that have begun? A text that would be preempted
// at once had better wait.
bool Scheduler::has_room(const Slot& slot) const {
  const DecodeState& state = decoder_.state();
  const std::optional<size_t> pool = state.shared_pool();
  if (!pool || state.shape().shared_pages == 0) return true;
  const auto pages = [](int64_t positions) { return (positions + kPagePositions - 1) / kPagePositions; };
  int64_t used = 0;
  bool alone = true;
  for (const Slot& s : slots_)
    if (s.job && s.begun) alone = false, used += pages(int64_t(s.job->history.size()));
  return alone || used + pages(int64_t(slot.job->history.size()) + 1) <= state.pools()[*pool].pages;
}

void Scheduler::forget(Slot& slot) {
  decoder_.state().reset(slot.sequence);
  slot.held.clear();
  slot.known = false;
  slot.used = true;
}

int64_t Scheduler::missing_pages() const {
  const DecodeState& state = decoder_.state();
  const std::optional<size_t> pool = state.shared_pool();
  if (!pool || state.shape().shared_pages == 0) return 0;
  std::vector<int64_t> more(static_cast<size_t>(state.sequences()));
  for (const Slot& slot : slots_) more[size_t(slot.sequence)] = int64_t(slot.rows);
  return std::max<int64_t>(0, state.pages_needed(more) - state.free_pages(*pool));
}

// Frees pages for the rows of a slot. False: it is the youngest and gets no rows in this call.
bool Scheduler::make_room(Slot& slot) {
  while (missing_pages() > 0) {
    Slot* victim = nullptr;
    for (Slot& s : slots_)  // prefixes that no text uses, the least recently used first
      if (!(s.job && s.begun) && s.used && decoder_.state().length(s.sequence) > 0 &&
          (victim == nullptr || s.used_at < victim->used_at))
        victim = &s;
    if (victim == nullptr && prefixes_ && prefixes_->evict()) continue;
    if (victim == nullptr) {  // the youngest text; one that continues what the sequence held cannot be computed again
      for (Slot& s : slots_)
        if (s.job && s.begun && s.known && (victim == nullptr || s.job->number > victim->job->number)) victim = &s;
      if (victim == nullptr) return true;  // decode() says what is missing
      if (victim == &slot) {
        slot.rows = 0;
        return false;
      }
      victim->begun = false;
      victim->job->fed = 0, victim->job->in_progress = false;
      ++preemptions_;
    } else {
      remember(*victim);
    }
    forget(*victim);
  }
  return true;
}

// How many rows each slot has in this call: one for each text that is being written; the room that is left is for
// prompts, the earliest text first.
void Scheduler::plan_rows() {
  std::vector<Slot*> begun;
  int64_t writing = 0;
  for (Slot& slot : slots_) {
    slot.rows = 0;
    if (!slot.job || !slot.begun) continue;
    begun.push_back(&slot);
    if (slot.job->writing()) writing += int64_t(slot.job->history.size() - slot.job->fed);
  }
  std::ranges::sort(begun, {}, [](const Slot* slot) { return slot->job->number; });
  size_t room = size_t(std::max<int64_t>(decoder_.max_rows() - writing, 1));
  for (Slot* slot : begun) {
    if (!slot->begun) continue;  // preempted by an earlier one
    const Job& job = *slot->job;
    const size_t left = job.history.size() - job.fed;
    size_t until = slot->pause > job.fed ? std::min(left, slot->pause - job.fed) : left;
    const auto snapshot = std::ranges::upper_bound(job.snapshots, job.fed);
    if (decoder_.state().recurrent() && snapshot != job.snapshots.end()) until = std::min(until, *snapshot - job.fed);
    slot->rows = job.writing() ? left : std::min(until, room);
    const bool reads = !job.writing();
    if (make_room(*slot) && reads) room -= slot->rows;
  }
}

// How many tokens it pays to propose for a text, of so many that are being written.
size_t Scheduler::most_proposed(const Slot& slot, size_t texts) const {
  constexpr size_t kMostRepeated = 8;  // rows after recurrent states were restored; beyond, they are read for good
  const Job& job = *slot.job;
  if (!job.in_progress || slot.rows == 0 || slot.rows > kMostRepeated) return 0;
  // The token after the last proposed one must be wanted, and fit.
  const int64_t wanted = job.request.options.max_tokens - int64_t(job.result.tokens.size()) - 1,
                room = decoder_.context() - decoder_.state().length(slot.sequence) - int64_t(slot.rows);
  return std::min(job.rate.worth(speculation_, texts), size_t(std::max<int64_t>(0, std::min(wanted, room))));
}

// Proposed tokens take what is left of a call: neither prompts nor other texts wait for them.
void Scheduler::plan_proposals() {
  if (!speculation_.active()) return;
  size_t rows = 0, texts = 0;
  for (const Slot& slot : slots_) {
    rows += slot.rows;
    texts += slot.rows > 0 && slot.job->writing();
  }
  std::vector<Proposal> proposals;
  for (Slot& slot : slots_) {
    if (!slot.job || !slot.begun) continue;
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
    if (speculation_.ngrams) p.tokens = continue_by_ngrams(p.history, p.most);
  if (draft_) draft_->propose(proposals);
  for (Proposal& p : proposals) {
    Slot& slot = slots_[p.sequence];
    slot.proposed = std::move(p.tokens);
    slot.rows += slot.proposed.size();
    for (; !slot.proposed.empty() && missing_pages() > 0; --slot.rows) slot.proposed.pop_back();
    slot.wrong = slot.proposed.size();
    slot.job->result.speculation.proposed += int64_t(slot.proposed.size());
    speculated_.proposed += int64_t(slot.proposed.size());
    if (!slot.proposed.empty() && decoder_.state().recurrent()) decoder_.state().save(slot.sequence, slot.before);
  }
}

// The text has ended; its sequence holds it completely for those who continue it.
void Scheduler::read_again(Slot& slot, std::span<const int32_t> tokens) {
  std::vector<DecodeRow> rows;
  for (const int32_t id : tokens) rows.push_back({slot.sequence, id});
  try {
    decoder_.decode(rows);
  } catch (const Error&) {  // the text is complete: what fails is the next one's beginning
    forget(slot);
    return;
  }
  slot.held.insert(slot.held.end(), tokens.begin(), tokens.end());
  slot.rows += tokens.size();
}

// Takes back the proposed tokens that were wrong.
void Scheduler::settle(Slot& slot) {
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

void Scheduler::collect_rows() {
  rows_.clear();
  answers_.clear();
  shown_.clear();
  std::vector<Slot*> starting;
  for (Slot& slot : slots_) {
    slot.pause = slot.wrong = 0;
    if (slot.job && !slot.begun) starting.push_back(&slot);
  }
  // The earliest first: a later one would clear what an earlier one has waited for, again and again.
  std::ranges::sort(starting, {}, [](const Slot* slot) { return slot->job->number; });
  for (Slot* slot : starting) {
    if (!has_room(*slot)) break;  // nor do later ones begin, or it might never
    begin(*slot);
  }
  plan_rows();
  plan_proposals();
  for (Slot& slot : slots_) {
    if (slot.rows == 0) continue;
    Job& job = *slot.job;
    const size_t known = job.history.size();
    for (size_t at = job.fed; at < job.fed + slot.rows; ++at) {
      const int32_t token = at < known ? job.history[at] : slot.proposed[at - known];
      const bool shown = job.request.on_hidden && at >= job.next_hidden(),
                 wanted = !job.request.on_hidden && (at + 1 >= known || job.scores(at));
      rows_.push_back({slot.sequence, token, wanted, shown});
      if (wanted) answers_.push_back({&slot, at, token});
      if (shown) shown_.push_back({&slot, at});
      slot.held.push_back(token);
    }
    job.fed += slot.rows;
    slot.used_at = steps_;
  }
}

// States of the prompt that the call has reached can be found by later texts.
void Scheduler::remember_snapshots() {
  if (!prefixes_ || decoder_.state().only_pages()) return;
  for (const Slot& slot : slots_) {
    if (!slot.known || slot.rows == 0) continue;
    for (const size_t at : slot.job->snapshots)
      if (at > slot.held.size() - slot.rows && at <= slot.held.size())
        prefixes_->insert(std::span(slot.held).first(at), slot.adapters, slot.sequence);
  }
}

// So can pages that it has filled.
void Scheduler::remember_pages() {
  if (!prefixes_ || !decoder_.state().only_pages()) return;
  const auto full = [](size_t tokens) { return tokens / size_t(kPagePositions); };
  for (const Slot& slot : slots_)
    if (slot.known && slot.rows > 0 && full(slot.held.size()) > full(slot.held.size() - slot.rows))
      prefixes_->insert_pages(slot.held, slot.adapters, slot.sequence);
}

void Scheduler::accept(const Answer& answer, std::span<const float> logits) {
  Slot& slot = *answer.slot;
  if (!slot.job) return;  // an earlier answer of this call has ended it
  Job& job = *slot.job;
  if (job.scores(answer.position)) {
    const int32_t id = job.request.prompt[answer.position + 1];
    job.result.prompt.push_back(
        {{id, log_softmax_at(logits, id)}, top_logprobs(logits, job.request.options.top_logprobs)});
  }
  // Not after a proposed token that is none of the text.
  if (answer.position + 1 != job.history.size() || job.history[answer.position] != answer.token) return;
  const size_t wrong = job.fed - job.history.size();
  if (wrong < slot.wrong) {
    ++job.result.speculation.accepted;
    ++speculated_.accepted;
  }
  slot.wrong = wrong;
  accept_token(slot, logits);
}

void Scheduler::show(const Answer& answer, std::span<const float> hidden) {
  Job& job = *answer.slot->job;
  job.hidden_seen = answer.position + 1;
  FirstError error;
  error.guard([&] { job.request.on_hidden(hidden); });
  if (job.hidden_seen == job.request.prompt.size()) {
    const std::unique_ptr<Job> done = std::move(answer.slot->job);
    if (done->request.on_done) error.guard([&] { done->request.on_done(done->result); });
  }
  error.rethrow();
}

void Scheduler::accept_token(Slot& slot, std::span<const float> logits) {
  Job& job = *slot.job;
  const GenerateOptions& o = job.request.options;
  std::vector<GeneratedToken>& tokens = job.result.tokens;
  if (o.max_tokens <= 0) {  // only the prompt's scores are wanted
    const std::unique_ptr<Job> done = std::move(slot.job);
    if (done->request.on_done) done->request.on_done(done->result);
    return;
  }
  int32_t id = 0;
  try {
    id = job.sampler.pick(logits, tokens.size(), job.history);
  } catch (...) {  // the text cannot go on, and others wait for its sequence
    const std::unique_ptr<Job> ended = std::move(slot.job);
    if (!ended->request.on_error) throw;
    ended->request.on_error(std::current_exception());
    return;
  }
  job.in_progress = true;
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
  else if (job.sampler.finished())
    reason = FinishReason::complete;
  else if (int64_t(tokens.size()) >= o.max_tokens ||
           decoder_.state().length(slot.sequence) - int64_t(slot.wrong) >= decoder_.context())
    reason = FinishReason::length;
  if (reason) {
    const std::unique_ptr<Job> done = std::move(slot.job);  // on_done may add requests, and throw
    done->result.reason = *reason;
    if (done->request.on_done) error.guard([&] { done->request.on_done(done->result); });
  }
  error.rethrow();
}

}  // namespace toy
