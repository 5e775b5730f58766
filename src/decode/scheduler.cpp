#include "toy/decode/scheduler.h"

#include <algorithm>
#include <numeric>

#include "toy/base/error.h"

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
    slots_.push_back({s, false, nullptr});
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
  const Sampler sampler(request.options.sampler);
  std::vector<int32_t> history = prompt;
  waiting_.push_back(std::make_unique<Job>(Job{std::move(request), sampler, std::move(history), 0, {}}));
}

bool Scheduler::step() {
  fill_slots();
  collect_rows();
  if (rows_.empty()) return false;
  decoder_.decode(rows_);
  for (size_t i = 0; i < answered_.size(); ++i) accept(*answered_[i], decoder_.logits(i));
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
      if (slot.used) decoder_.state().reset(slot.sequence);
      slot.used = true;
      slot.job = std::move(job);
    }
  }
}

// A row for each text that is being written; the room that is left is for prompts, the earliest sequence first.
void Scheduler::collect_rows() {
  rows_.clear();
  answered_.clear();
  const auto writing =
      std::count_if(slots_.begin(), slots_.end(), [](const Slot& s) { return s.job && s.job->writing(); });
  size_t room = size_t(std::max<int64_t>(decoder_.max_rows() - int64_t(writing), 1));
  for (Slot& slot : slots_) {
    if (!slot.job) continue;
    Job& job = *slot.job;
    const size_t left = job.history.size() - job.fed, rows = job.writing() ? 1 : std::min(left, room);
    if (!job.writing()) room -= rows;
    for (size_t i = 0; i < rows; ++i) rows_.push_back({slot.sequence, job.history[job.fed + i], i + 1 == left});
    job.fed += rows;
    if (rows == left) answered_.push_back(&slot);
  }
}

void Scheduler::accept(Slot& slot, std::span<const float> logits) {
  Job& job = *slot.job;
  const GenerateOptions& o = job.request.options;
  std::vector<GeneratedToken>& tokens = job.result.tokens;
  const int32_t id = job.sampler.pick(logits, tokens.size(), job.history);
  tokens.push_back({{id, log_softmax_at(logits, id)}, top_logprobs(logits, o.top_logprobs)});
  job.history.push_back(id);
  const bool go_on = !job.request.on_token || job.request.on_token(tokens.back());
  std::optional<FinishReason> reason;
  if (!go_on)
    reason = FinishReason::stopped;
  else if (job.request.eos && id == *job.request.eos && !o.ignore_eos)
    reason = FinishReason::eos;
  else if (int64_t(tokens.size()) >= o.max_tokens || decoder_.state().length(slot.sequence) >= decoder_.context())
    reason = FinishReason::length;
  if (!reason) return;
  const std::unique_ptr<Job> done = std::move(slot.job);  // on_done may add requests, and throw
  done->result.reason = *reason;
  if (done->request.on_done) done->request.on_done(done->result);
}

}  // namespace toy
