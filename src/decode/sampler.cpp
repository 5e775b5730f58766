#include "toy/decode/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <type_traits>

#include "decode/candidates.h"
#include "toy/base/error.h"
#include "toy/base/philox.h"

namespace toy {
namespace {

double log_sum_exp(std::span<const float> logits) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float l : logits) sum += std::exp(double(l) - top);
  return top + std::log(sum);
}

// Ids sorted from the likeliest, equal ones by id; only the first k are in order (k = 0: all).
std::vector<int32_t> ranked(std::span<const float> logits, size_t k) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto better = [&](int32_t a, int32_t b) {
    return logits[size_t(a)] != logits[size_t(b)] ? logits[size_t(a)] > logits[size_t(b)] : a < b;
  };
  if (k == 0 || k >= ids.size()) {
    std::sort(ids.begin(), ids.end(), better);
  } else {
    std::partial_sort(ids.begin(), ids.begin() + int64_t(k), ids.end(), better);
    ids.resize(k);
  }
  return ids;
}

void check_id(std::span<const float> logits, int32_t id) {
  check(id >= 0 && size_t(id) < logits.size(), "token id {} is outside the {} logits", id, logits.size());
}

// -inf is a token that is ruled out; it may not be all of them.
void check_logits(std::span<const float> logits) {
  check(!logits.empty(), "there are no logits to choose from");
  bool any = false;
  for (size_t i = 0; i < logits.size(); ++i) {
    const bool nan = std::isnan(logits[i]), finite = std::isfinite(logits[i]);
    if (nan || (!finite && logits[i] > 0))
      fail_internal("the model gives {} for token {}: its weights are broken", nan ? "NaN" : "infinity", i);
    any = any || finite;
  }
  if (!any) fail_internal("the model gives -infinity for every token: its weights are broken");
}

constexpr std::pair<std::string_view, SamplerStep> kSteps[] = {
    {"penalties", SamplerStep::penalties},
    {"dry", SamplerStep::dry},
    {"temperature", SamplerStep::temperature},
    {"top_n_sigma", SamplerStep::top_n_sigma},
    {"top_k", SamplerStep::top_k},
    {"typ_p", SamplerStep::typ_p},
    {"top_p", SamplerStep::top_p},
    {"min_p", SamplerStep::min_p},
    {"xtc", SamplerStep::xtc},
};

std::string_view name_of(SamplerStep step) {
  return std::find_if(std::begin(kSteps), std::end(kSteps), [&](const auto& s) { return s.second == step; })->first;
}

std::span<const int32_t> last(std::span<const int32_t> history, int64_t n) {
  return n >= 0 && uint64_t(n) < history.size() ? history.last(size_t(n)) : history;
}

void penalize(const SamplerOptions& o, Candidates& candidates, std::span<const int32_t> history) {
  std::map<int32_t, int64_t> counts;
  for (const int32_t id : last(history, o.penalty_last_n)) ++counts[id];
  std::vector<int32_t> ids;
  for (const auto& [id, count] : counts) ids.push_back(id);
  candidates.change(ids, [&](Candidates::Item& item) {
    double l = item.logit;
    l = l > 0 ? l / o.repeat_penalty : l * o.repeat_penalty;
    l = l - double(counts[item.id]) * o.frequency_penalty - o.presence_penalty;
    constexpr double kMost = std::numeric_limits<float>::max();  // an infinity would be no logit
    item.logit = std::clamp(l, -kMost, kMost);
  });
}

// How many tokens at the end of the text came before the last k tokens as well, for each k (the Z-function of the
// reversed text; Gusfield 1997). Linear in the length of the text.
std::vector<size_t> repetitions(std::span<const int32_t> text) {
  const size_t n = text.size();
  const auto back = [&](size_t i) { return text[n - 1 - i]; };
  std::vector<size_t> z(n);
  for (size_t k = 1, begin = 0, end = 0; k < n; ++k) {
    if (k < end) z[k] = std::min(end - k, z[k - begin]);
    while (k + z[k] < n && back(z[k]) == back(k + z[k])) ++z[k];
    if (k + z[k] > end) begin = k, end = k + z[k];
  }
  return z;
}

void penalize_repetition(const SamplerOptions& o, Candidates& candidates, std::span<const int32_t> history) {
  const std::span<const int32_t> text = last(history, o.dry_penalty_last_n);
  const auto breaks = [&](int32_t id) { return std::binary_search(o.dry_breakers.begin(), o.dry_breakers.end(), id); };
  size_t since_break = 0;
  while (since_break < text.size() && !breaks(text[text.size() - 1 - since_break])) ++since_break;
  if (int64_t(since_break) < o.dry_allowed_length) return;
  std::map<int32_t, size_t> longest;  // by the token that would continue it
  const std::vector<size_t> z = repetitions(text);
  for (size_t k = 1; k < z.size(); ++k) {
    const size_t n = std::min(z[k], since_break);
    const int32_t next = text[text.size() - k];
    if (n > 0 && int64_t(n) >= o.dry_allowed_length && !breaks(next)) longest[next] = std::max(longest[next], n);
  }
  std::vector<int32_t> ids;
  for (const auto& [id, n] : longest) ids.push_back(id);
  candidates.change(ids, [&](Candidates::Item& item) {
    const double n = double(longest[item.id]) - double(o.dry_allowed_length);
    constexpr double kMost = std::numeric_limits<float>::max();
    item.logit = std::max(item.logit - std::min(o.dry_multiplier * std::pow(o.dry_base, n), kMost), -kMost);
  });
}

// In nats.
double entropy(const Candidates& candidates) {
  const double top = candidates.largest(), total = candidates.total();
  double sum = 0;
  for (const Candidates::Item& item : candidates.items()) {
    const double l = item.logit - top;
    sum -= std::exp(l) * l;
  }
  return std::log(total) + sum / total;  // -sum of p log p, p = exp(l) / total
}

void apply_temperature(const SamplerOptions& o, Candidates& candidates) {
  double t = o.temperature;
  if (o.dynatemp_range > 0) {
    if (candidates.size() < 2) return;
    const double lo = std::max(0.0, t - o.dynatemp_range), hi = t + o.dynatemp_range;
    const double share = std::clamp(entropy(candidates) / std::log(double(candidates.size())), 0.0, 1.0);
    t = lo + (hi - lo) * std::pow(share, o.dynatemp_exponent);
  }
  if (t > 0 && std::isfinite(candidates.largest() / t))
    candidates.scale(t);
  else
    candidates.keep_first(1);
}

void keep_within_sigmas(double n, Candidates& candidates) {
  double mean = 0, square = 0;
  for (const Candidates::Item& item : candidates.items()) mean += item.logit;
  mean /= double(candidates.size());
  for (const Candidates::Item& item : candidates.items()) square += (item.logit - mean) * (item.logit - mean);
  const double least = candidates.largest() - n * std::sqrt(square / double(candidates.size()));
  candidates.keep_if([&](const Candidates::Item& item) { return item.logit >= least; });
}

void keep_total(double p, Candidates& candidates) {
  candidates.keep_front(candidates.reach(p * candidates.total(), false));
}

// Those whose surprise is nearest to the entropy come first, equal ones by id. They are selected like the likeliest
// elsewhere.
void keep_typical(double p, Candidates& candidates) {
  const double top = candidates.largest(), total = candidates.total(), h = entropy(candidates);
  int32_t last_id = 0;
  for (const Candidates::Item& item : candidates.items()) last_id = std::max(last_id, item.id);
  std::vector<float> nearness(size_t(last_id) + 1, -std::numeric_limits<float>::infinity());
  std::vector<double> share(nearness.size());
  for (const Candidates::Item& item : candidates.items()) {
    nearness[size_t(item.id)] = float(-std::abs(top + std::log(total) - item.logit - h));
    share[size_t(item.id)] = std::exp(item.logit - top) / total;
  }
  Candidates order(nearness, {});
  std::vector<bool> kept(nearness.size());
  double reached = 0;
  for (size_t i = 0; i < order.size() && reached <= p; ++i) {
    const size_t id = size_t(order.at(i).id);
    kept[id] = true;
    reached += share[id];
  }
  candidates.keep_if([&](const Candidates::Item& item) { return bool(kept[size_t(item.id)]); });
}

void exclude_top_choices(const SamplerOptions& o, double uniform, Candidates& candidates) {
  if (uniform >= o.xtc_probability) return;
  const double top = candidates.largest(), total = candidates.total();
  size_t above = 0;
  while (above < candidates.size() && std::exp(candidates.at(above).logit - top) / total >= o.xtc_threshold) ++above;
  if (above > 1) candidates.drop_first(above - 1);
}

}  // namespace

std::vector<SamplerStep> default_sampler_steps() {
  std::vector<SamplerStep> steps;
  for (const auto& [name, step] : kSteps) steps.push_back(step);
  return steps;
}

std::vector<std::string_view> set_sampler_chain(SamplerOptions& o, std::string_view chain, std::string_view what) {
  constexpr const char* kMirostat = "mirostat";
  std::vector<std::string> words;
  for (const auto& [name, step] : kSteps) words.emplace_back(name);
  words.emplace_back(kMirostat);
  std::vector<std::string_view> names;
  o.steps.clear();
  if (chain.empty()) return names;
  bool ended = false;
  for (const ListedWord& l : read_list(what, chain, {.between = ';', .words = words})) {
    const std::vector<std::string_view> more = set_listed(o, l, what);
    names.insert(names.end(), more.begin(), more.end());
    check(!ended, "{}: mirostat chooses the token; write it at the end of the chain", what);
    if (l.word == kMirostat) {
      o.mirostat = ended = true;
      continue;
    }
    const SamplerStep step =
        std::find_if(std::begin(kSteps), std::end(kSteps), [&](const auto& s) { return s.first == l.word; })->second;
    check(std::find(o.steps.begin(), o.steps.end(), step) == o.steps.end(), "{}: '{}' is there twice", what, l.word);
    o.steps.push_back(step);
  }
  return names;
}

void turn_off_left_out(SamplerOptions& o, std::span<const std::string_view> given) {
  const SamplerOptions off{.temperature = 1};
  for (const auto& [name, step] : kSteps) {
    const bool replaced = o.mirostat && step > SamplerStep::temperature;
    if (!replaced && std::find(o.steps.begin(), o.steps.end(), step) != o.steps.end()) continue;
    if (step == SamplerStep::temperature && o.temperature == 0) continue;  // greedy, with or without the step
    SamplerOptions::fields(o, [&, &step_name = name](const Option& option, auto& value) {
      if (option.of != step_name || std::find(given.begin(), given.end(), option.name) != given.end()) return;
      SamplerOptions::fields(off, [&](const Option& other, const auto& neutral) {
        if constexpr (std::is_same_v<std::decay_t<decltype(neutral)>, std::decay_t<decltype(value)>>)
          if (other.name == option.name) value = neutral;
      });
    });
  }
}

std::string sampler_step_names(const std::vector<SamplerStep>& steps) {
  std::string result;
  for (const SamplerStep step : steps) (result += result.empty() ? "" : ";") += name_of(step);
  return result;
}

std::vector<int32_t> tokens_with(const Tokenizer& tokenizer, const std::vector<std::string>& texts) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string bytes = tokenizer.token_bytes(id);
    if (std::any_of(texts.begin(), texts.end(),
                    [&](const std::string& t) { return bytes.find(t) != std::string::npos; }))
      ids.push_back(id);
  }
  return ids;
}

double log_softmax_at(std::span<const float> logits, int32_t id) {
  check_id(logits, id);
  return double(logits[size_t(id)]) - log_sum_exp(logits);
}

RowSums::RowSums(std::span<const float> logits, std::span<double> weights)
    : top(*std::max_element(logits.begin(), logits.end())) {
  for (size_t i = 0; i < logits.size(); ++i) {
    const double below = double(logits[i]) - top, e = std::exp(below);
    if (!weights.empty()) weights[i] = e;
    sum += e;
    if (e > 0) weighted += e * below;  // -infinity weighs nothing
  }
}

std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, int k) {
  std::vector<TokenLogprob> result;
  if (k <= 0 || logits.empty()) return result;
  const double lse = log_sum_exp(logits);
  for (const int32_t id : ranked(logits, size_t(k))) result.push_back({id, double(logits[size_t(id)]) - lse});
  return result;
}

Sampler::Sampler(const SamplerOptions& o)
    : options_(o), constraint_(o.constraint ? o.constraint->clone() : nullptr), mirostat_mu_(2 * o.mirostat_tau) {
  check_limits(o);
  for (const auto& [id, bias] : o.logit_bias) {
    check(id >= 0, "logit-bias: token id {} is negative", id);
    check(bias < std::numeric_limits<double>::infinity(), "logit-bias of token {} is {}; use a number, or -infinity",
          id, bias);
  }
  std::sort(options_.dry_breakers.begin(), options_.dry_breakers.end());
  for (const auto& [name, step] : kSteps) {
    if (!has(step)) continue;
    check(std::find(o.steps.begin(), o.steps.end(), step) != o.steps.end(),
          "samplers has no '{}', which another option sets; add it, or remove that option", name);
    check(!o.mirostat || step <= SamplerStep::temperature,
          "mirostat chooses tokens by itself; remove it, or the option of '{}'", name);
  }
}

// Has a step an effect?
bool Sampler::has(SamplerStep step) const {
  const SamplerOptions& o = options_;
  switch (step) {
    case SamplerStep::penalties:
      return o.penalty_last_n != 0 && (o.repeat_penalty != 1 || o.frequency_penalty != 0 || o.presence_penalty != 0);
    case SamplerStep::dry:
      return o.dry_multiplier > 0 && o.dry_penalty_last_n != 0;
    case SamplerStep::temperature:
      return (o.temperature != 1 && o.temperature != 0) || o.dynatemp_range > 0;
    case SamplerStep::top_n_sigma:
      return o.top_n_sigma > 0;
    case SamplerStep::top_k:
      return o.top_k > 0;
    case SamplerStep::typ_p:
      return o.typical_p < 1;
    case SamplerStep::top_p:
      return o.top_p < 1;
    case SamplerStep::min_p:
      return o.min_p > 0;
    case SamplerStep::xtc:
      return o.xtc_probability > 0 && o.xtc_threshold <= 0.5;
  }
  return false;
}

void Sampler::apply(SamplerStep step, Candidates& candidates, uint64_t draw, std::span<const int32_t> history) const {
  const SamplerOptions& o = options_;
  switch (step) {
    case SamplerStep::penalties:
      return penalize(o, candidates, history);
    case SamplerStep::dry:
      return penalize_repetition(o, candidates, history);
    case SamplerStep::temperature:
      return apply_temperature(o, candidates);
    case SamplerStep::top_n_sigma:
      return keep_within_sigmas(o.top_n_sigma, candidates);
    case SamplerStep::top_k:
      return candidates.keep_first(size_t(o.top_k));
    case SamplerStep::typ_p:
      return keep_typical(o.typical_p, candidates);
    case SamplerStep::top_p:
      return keep_total(o.top_p, candidates);
    case SamplerStep::min_p: {
      const double top = candidates.largest();
      return candidates.keep_if([&](const Candidates::Item& item) { return std::exp(item.logit - top) >= o.min_p; });
    }
    case SamplerStep::xtc:
      return exclude_top_choices(o, Philox(o.seed, "xtc").uniform(draw), candidates);
  }
}

Sampler::Sampler(const Sampler& other)
    : options_(other.options_),
      constraint_(other.constraint_ ? other.constraint_->clone() : nullptr),
      mirostat_mu_(other.mirostat_mu_) {}

Sampler& Sampler::operator=(const Sampler& other) { return *this = Sampler(other); }

int64_t Sampler::decided_by(std::span<const int32_t> history) const {
  const SamplerOptions& o = options_;
  const auto penalizes = [](SamplerStep s) { return s == SamplerStep::penalties || s == SamplerStep::dry; };
  const auto acts = [&](SamplerStep s) { return has(s) && !(penalizes(s) && history.empty()); };
  const bool greedy = o.temperature == 0 && o.dynatemp_range == 0;  // then only these act
  if (!o.logit_bias.empty() || constraint_ || (o.mirostat && !greedy)) return 0;
  for (const SamplerStep s : o.steps) {
    if (!acts(s) || (greedy && !penalizes(s))) continue;
    if (s == SamplerStep::top_k) return o.top_k;
    // A quotient of floats by this temperature keeps their order: none becomes infinite or equal to another.
    const bool in_order =
        s == SamplerStep::temperature && o.dynatemp_range == 0 && o.temperature > 1e-200 && o.temperature < 1e200;
    if (!in_order) return 0;
  }
  return greedy ? 1 : 0;
}

int32_t Sampler::pick_of(std::span<const int32_t> ids, std::span<const float> logits, uint64_t step,
                         std::span<const int32_t> history) {
  Candidates candidates(ids, logits);
  return choose(candidates, step, history);
}

// Is a token drawn from the model's own distribution?
bool Sampler::draws_plainly() const {
  const SamplerOptions& o = options_;
  return o.temperature == 1 && o.logit_bias.empty() && !constraint_ && !o.mirostat &&
         std::none_of(o.steps.begin(), o.steps.end(), [&](SamplerStep s) { return has(s); });
}

int32_t Sampler::pick(std::span<const float> logits, uint64_t step, std::span<const int32_t> history,
                      std::optional<RowSums>* sums) {
  check_logits(logits);
  const SamplerOptions& o = options_;
  if (decided_by(history) == 1) return int32_t(std::max_element(logits.begin(), logits.end()) - logits.begin());
  for (const int32_t id : history) check_id(logits, id);
  if (draws_plainly()) {
    std::optional<RowSums> found;
    const auto id = draw_of_logits(logits, Philox(o.seed, "sample").uniform(step), found);
    if (sums) *sums = found;
    if (id) return *id;
  }
  std::vector<uint64_t> allowed;
  if (constraint_) {
    allowed.resize((logits.size() + 63) / 64);
    constraint_->mask(allowed);
  }
  Candidates candidates(logits, allowed);
  if (!o.logit_bias.empty()) {
    std::map<int32_t, double> bias;
    std::vector<int32_t> ids;
    for (const auto& [id, b] : o.logit_bias) {
      check_id(logits, id);
      bias[id] += b;
    }
    for (const auto& [id, b] : bias) ids.push_back(id);
    candidates.change(ids, [&](Candidates::Item& item) { item.logit += bias[item.id]; });
    if (std::any_of(bias.begin(), bias.end(), [](const auto& b) { return std::isinf(b.second); }) &&
        candidates.size() > 0)
      candidates.keep_if([](const Candidates::Item& item) { return std::isfinite(item.logit); });
  }
  check(
      candidates.size() > 0 && std::isfinite(candidates.largest()),
      "no token of {} may come next: the constraint needs a text that the vocabulary cannot spell, or logit-bias rules "
      "out what it needs",
      logits.size());
  const int32_t id = choose(candidates, step, history);
  if (constraint_) constraint_->accept(id);
  return id;
}

int32_t Sampler::choose(Candidates& candidates, uint64_t step, std::span<const int32_t> history) {
  const SamplerOptions& o = options_;
  const bool greedy = o.temperature == 0 && o.dynatemp_range == 0;
  for (const SamplerStep s : o.steps)
    if (has(s) && (!greedy || s == SamplerStep::penalties || s == SamplerStep::dry))
      apply(s, candidates, step, history);
  if (greedy) return candidates.best_item().id;
  if (o.mirostat) return draw_mirostat(candidates, step);
  return candidates.draw(Philox(o.seed, "sample").uniform(step));
}

int32_t Sampler::draw_mirostat(Candidates& candidates, uint64_t step) {
  const SamplerOptions& o = options_;
  const auto surprise = [](double logit, double top, double total) {
    return (top + std::log(total) - logit) / std::log(2.0);  // in bits
  };
  const double top = candidates.largest(), total = candidates.total();
  candidates.keep_if([&](const Candidates::Item& item) { return surprise(item.logit, top, total) <= mirostat_mu_; });
  const double kept = candidates.total();
  const int32_t id = candidates.draw(Philox(o.seed, "sample").uniform(step));
  for (const Candidates::Item& item : candidates.items())
    if (item.id == id) mirostat_mu_ -= o.mirostat_eta * (surprise(item.logit, top, kept) - o.mirostat_tau);
  return id;
}

}  // namespace toy
