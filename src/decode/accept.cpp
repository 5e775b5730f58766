#include "decode/accept.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <optional>

#include "toy/base/checksum.h"

namespace toy {

static constexpr double kNoLogprob = std::numeric_limits<double>::quiet_NaN();

void score_prompt(Job& job, size_t position, const RowLogits& row) {
  if (!job.scores(position)) return;
  const std::span<const float> logits = row.all();
  const int32_t id = job.request.prompt[position + 1];
  job.result.prompt.push_back(
      {{id, log_softmax_at(logits, id)}, top_logprobs(logits, job.request.options.top_logprobs)});
}

void show_hidden(Slot& slot, size_t position, std::span<const float> hidden) {
  Job& job = *slot.job;
  job.hidden_seen = position + 1;
  FirstError error;
  error.guard([&] { job.request.on_hidden(hidden); });
  if (job.hidden_seen == job.request.prompt.size()) {
    const std::unique_ptr<Job> done = std::move(slot.job);
    if (done->request.on_done) error.guard([&] { done->request.on_done(done->result); });
  }
  error.rethrow();
}

namespace {

// The text's next id where few of the logits decide it, and the device tells those: the others stay there.
std::optional<int32_t> next_of_likeliest(Job& job, const RowLogits& row) {
  const int64_t needed = job.sampler.decided_by(job.history);
  if (needed == 1) return row.decoder->largest(row.row);
  if (needed == 0 || needed > kLikeliest) return {};
  const auto best = row.decoder->likeliest(row.row);
  if (!best) return {};
  return job.sampler.pick_of(best->ids, best->logits, job.result.tokens.size(), job.history);
}

// The text's next token.
GeneratedToken next_token(Job& job, const RowLogits& row) {
  const GenerateOptions& o = job.request.options;
  const bool only_id = !o.logprobs && o.top_logprobs == 0 && !o.entropy && !o.row_checksum;
  if (only_id)
    if (const std::optional<int32_t> id = next_of_likeliest(job, row)) return {{*id, kNoLogprob}, {}};
  const std::span<const float> logits = row.all();
  std::optional<RowSums> sums;
  const int32_t id = job.sampler.pick(logits, job.result.tokens.size(), job.history, &sums);
  if (only_id) return {{id, kNoLogprob}, {}};
  GeneratedToken token{{id, kNoLogprob}, top_logprobs(logits, o.top_logprobs)};
  if (!sums) sums = RowSums(logits);
  token.chosen.logprob = sums->logprob(double(logits[size_t(id)]));
  if (o.entropy) token.entropy = sums->entropy();
  if (o.row_checksum) {
    Xxh64 sum;
    sum.update(std::as_bytes(row.decoder->hidden(*row.hidden)));
    token.row_checksum = sum.digest();
  }
  return token;
}

}  // namespace

bool draws_apart(const Job& job) {
  return job.request.options.max_tokens > 0 && !job.request.options.sampler.constraint;
}

Drawn draw(Job& job, const RowLogits& row) {
  try {
    return {next_token(job, row)};
  } catch (...) {
    return {{}, std::current_exception()};
  }
}

void accept_token(Slot& slot, const RowLogits& row, Drawn& drawn, int64_t length, int64_t context) {
  Job& job = *slot.job;
  const GenerateOptions& o = job.request.options;
  std::vector<GeneratedToken>& tokens = job.result.tokens;
  if (o.max_tokens <= 0) {  // only the prompt's scores are wanted
    const std::unique_ptr<Job> done = std::move(slot.job);
    if (done->request.on_done) done->request.on_done(done->result);
    return;
  }
  if (!drawn.token && !drawn.error) drawn = draw(job, row);
  if (drawn.error) {  // the text cannot go on, and others wait for its sequence
    const std::unique_ptr<Job> ended = std::move(slot.job);
    if (!ended->request.on_error) std::rethrow_exception(drawn.error);
    return ended->request.on_error(drawn.error);
  }
  tokens.push_back(*std::move(drawn.token));
  job.in_progress = true;
  const int32_t id = tokens.back().chosen.id;
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
  else if (int64_t(tokens.size()) >= o.max_tokens || length >= context)
    reason = FinishReason::length;
  if (reason) {
    const std::unique_ptr<Job> done = std::move(slot.job);  // on_done may add requests, and throw
    done->result.reason = *reason;
    if (done->request.on_done) error.guard([&] { done->request.on_done(done->result); });
  }
  error.rethrow();
}

}  // namespace toy
