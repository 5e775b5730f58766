#include "toy/eval/score.h"

#include <cmath>
#include <numbers>

#include "eval/text_reader.h"
#include "toy/base/error.h"
#include "toy/base/threads.h"

namespace toy {

double TextScore::perplexity() const { return std::exp(nats_per_token()); }
double TextScore::bits_per_byte() const { return nats_per_byte() / std::numbers::ln2; }

TextScore score_text(Device& device, const Model& model, const EvalText& text, const ScoreOptions& o,
                     const std::function<void(const TokenScore&)>& on_token,
                     const std::function<void(int64_t read, int64_t all)>& on_read) {
  check(o.top_logprobs >= 0, "top-logprobs is {}, expected 0 or more", o.top_logprobs);
  TextReader reader(device, model, text, o);
  ThreadPool team(device.host_threads());
  BlockMean nats(text);
  std::vector<TokenScore> scores;
  while (reader.step()) {
    scores.assign(reader.predicted().size(), {});
    // Rows are independent, so that it does not matter which thread does which.
    team.run([&](int thread) {
      const Range mine = part(int64_t(scores.size()), thread, team.size());
      for (int64_t i = mine.begin; i < mine.end; ++i) {
        const PredictedToken& t = reader.predicted()[size_t(i)];
        const auto logits = reader.logits(size_t(i));
        scores[size_t(i)] = {
            t.document, t.index, {t.id, log_softmax_at(logits, t.id)}, top_logprobs(logits, o.top_logprobs)};
      }
    });
    for (const TokenScore& s : scores) {
      if (std::isnan(s.token.logprob))
        fail_internal("the model gives NaN after token {} of the text: its weights are broken", s.index);
      nats.add(s.document, -s.token.logprob);
      if (on_token) on_token(s);
    }
    if (on_read) on_read(reader.read(), reader.all());
  }
  return {.nats = nats.sum(),
          .tokens = nats.tokens(),
          .bytes = text.bytes,
          .blocks = nats.blocks(),
          .blocks_are_documents = nats.by_document(),
          .standard_error = nats.standard_error()};
}

}  // namespace toy
