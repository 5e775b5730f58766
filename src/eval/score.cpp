#include "toy/eval/score.h"

#include <cmath>
#include <numbers>

#include "eval/blocks.h"
#include "eval/rows.h"
#include "toy/base/error.h"
#include "toy/base/threads.h"

namespace toy {

double TextScore::perplexity() const { return std::exp(nats_per_token()); }
double TextScore::bits_per_byte() const { return nats / (std::numbers::ln2 * double(bytes)); }

TextScore score_text(Device& device, const Model& model, const EvalText& text, const ScoreOptions& options,
                     const std::function<void(const TokenScore&)>& on_token) {
  check(options.top_logprobs >= 0, "top-logprobs is {}, expected 0 or more", options.top_logprobs);
  EvalRows rows(text, options, model.spec);
  Decoder decoder(device, model, rows.decoder_options(options));
  ThreadPool team(device.threads());
  BlockMean nats(text.documents.size() > 1);
  std::vector<TokenScore> scores;
  Decoder* const decoders[] = {&decoder};
  while (rows.next(decoders)) {
    decoder.decode(rows.rows());
    const auto& targets = rows.targets();
    scores.resize(targets.size());
    // Rows are independent, so that it does not matter which thread does which.
    team.run([&](int thread) {
      const Range mine = part(int64_t(targets.size()), thread, team.size());
      for (int64_t i = mine.begin; i < mine.end; ++i) {
        const auto [document, index, id] = targets[size_t(i)];
        const auto logits = decoder.logits(size_t(i));
        scores[size_t(i)] = {
            document, index, {id, log_softmax_at(logits, id)}, top_logprobs(logits, options.top_logprobs)};
      }
    });
    for (const TokenScore& s : scores) {
      if (std::isnan(s.token.logprob))
        fail_internal("the model gives NaN after token {} of the text: its weights are broken", s.index);
      nats.add(s.document, -s.token.logprob);
      if (on_token) on_token(s);
    }
  }
  TextScore result;
  result.nats = nats.sum(), result.tokens = nats.tokens(), result.bytes = text.bytes;
  result.blocks = nats.blocks(), result.standard_error = nats.error();
  result.blocks_are_documents = text.documents.size() > 1;
  return result;
}

}  // namespace toy
