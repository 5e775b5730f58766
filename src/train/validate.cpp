#include "train/validate.h"

namespace toy {

std::optional<ValidationResult> validate(Trainer& trainer, const std::vector<ValidationText>& texts, int64_t limit,
                                         const std::function<bool()>& stop) {
  ValidationResult all;
  double bytes_a_token = 0;
  for (const ValidationText& text : texts) {
    const EvalResult r =
        text.rows ? trainer.evaluate(*text.rows, limit, stop) : trainer.evaluate(text.ids, limit, stop);
    if (stop && stop()) return std::nullopt;
    const double bytes = text.bytes * double(r.tokens) / double(text.tokens);
    all.losses.push_back(r.mean());
    all.loss += text.share * r.mean();
    all.whole &= r.tokens == text.tokens;
    bytes_a_token += text.share * bytes / double(r.tokens);
    all.nats_per_byte = r.nats / bytes;
  }
  if (texts.size() > 1) all.nats_per_byte = all.loss / bytes_a_token;
  return all;
}

}  // namespace toy
