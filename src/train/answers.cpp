#include "train/answers.h"

#include <algorithm>

#include "train/feed.h"

namespace toy {
namespace {

// The place whose target is the first that counts.
int64_t answer_begin(const Windows& w, const Answer& a) {
  int64_t at = a.first;
  while (at < a.first + a.places && !w.counts(size_t(at))) ++at;
  return at;
}

}  // namespace

double log_probability(const Windows& windows, const Answer& answer, std::span<const float> nll) {
  double sum = 0;
  for (int64_t i = answer.first; i < answer.first + answer.places; ++i)
    if (windows.counts(size_t(i))) sum -= double(nll[size_t(i)]);
  return sum;
}

double text_log_probability(const Answer& answer, std::span<const float> nll) {
  double sum = 0;
  for (int64_t i = answer.first; i < answer.first + answer.places; ++i) sum -= double(nll[size_t(i)]);
  return sum;
}

int64_t counted_targets(const Windows& windows, const Answer& answer) {
  int64_t n = 0;
  for (int64_t i = answer.first; i < answer.first + answer.places; ++i) n += windows.counts(size_t(i));
  return n;
}

std::vector<float> answer_weights(const Windows& windows, const PreferenceResult& loss) {
  std::vector<float> out(windows.inputs.size(), 0);
  for (size_t k = 0; k < loss.slopes.size(); ++k) {
    const Answer& a = windows.answers[k];
    const double of_text = a.chosen ? loss.text_slope : 0;
    for (int64_t i = a.first; i < a.first + a.places; ++i)
      out[size_t(i)] = float(of_text + (windows.counts(size_t(i)) ? loss.slopes[k] : 0));
  }
  return out;
}

std::vector<Windows> mismatched(const Windows& w, std::span<const Answer> prompts, std::span<const Answer> others,
                                int64_t places, int64_t tokens) {
  std::vector<Windows> batches;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const Answer &prompt = prompts[i], &answer = others[i];
    const int64_t asked = answer_begin(w, prompt), begin = answer_begin(w, answer), end = answer.first + answer.places;
    const int64_t n = std::min(tokens, asked - prompt.first + end - begin);
    if (batches.empty() || int64_t(batches.back().inputs.size()) + n > places) batches.emplace_back();
    Windows& out = batches.back();
    const auto first = int64_t(out.inputs.size());
    const auto add = [&](int64_t from, int64_t to, const std::vector<int32_t>& ids, std::vector<int32_t>& list) {
      list.insert(list.end(), ids.begin() + from, ids.begin() + to);
    };
    add(prompt.first, asked + 1, w.inputs, out.inputs), add(begin + 1, end, w.inputs, out.inputs);
    add(prompt.first, asked, w.targets, out.targets), add(begin, end, w.targets, out.targets);
    out.trained.resize(size_t(first + asked - prompt.first), 0);
    for (int64_t k = begin; k < end; ++k) out.trained.push_back(w.counts(size_t(k)));
    for (std::vector<int32_t>* list : {&out.inputs, &out.targets}) list->resize(size_t(first + n));
    out.trained.resize(size_t(first + n));
    for (int64_t t = 0; t < n; ++t) {
      out.sequence.push_back(int32_t(i));
      out.position.push_back(int32_t(t));
    }
    out.answers.push_back({first, n, answer.chosen});
  }
  for (Windows& batch : batches) pad(batch, places);
  return batches;
}

}  // namespace toy
