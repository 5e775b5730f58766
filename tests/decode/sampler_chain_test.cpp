// Every step of the chain against its definition as plain loops over fully sorted lists, alone and in random orders.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "testing/option_table.h"
#include "toy/base/error.h"
#include "toy/base/philox.h"
#include "toy/decode/sampler.h"

namespace toy::sampler_chain_test {
namespace {

struct Item {
  double logit;
  int32_t id;
};
using List = std::vector<Item>;

void sort(List& l) {
  std::sort(l.begin(), l.end(),
            [](const Item& a, const Item& b) { return a.logit != b.logit ? a.logit > b.logit : a.id < b.id; });
}
std::vector<double> softmax(const List& l) {
  std::vector<double> p;
  double sum = 0;
  for (const Item& i : l) sum += p.emplace_back(std::exp(i.logit - l[0].logit));
  for (double& x : p) x /= sum;
  return p;
}
double entropy(const std::vector<double>& p) {
  double h = 0;
  for (const double x : p) h -= x > 0 ? x * std::log(x) : 0;
  return h;
}

// Holtzman et al. 2020: the smallest set of the likeliest whose probability is at least p.
void top_p(List& l, double p) {
  const auto q = softmax(l);
  double sum = 0;
  size_t n = 0;
  while (n < l.size() && sum < p) sum += q[n++];
  l.resize(std::max<size_t>(n, 1));
}
void min_p(List& l, double p) {
  const auto q = softmax(l);
  size_t n = 1;
  while (n < l.size() && q[n] >= p * q[0]) ++n;
  l.resize(n);
}
// Meister et al. 2022: by the distance of the surprise from the entropy, until the probability exceeds p.
void typical(List& l, double p) {
  const auto q = softmax(l);
  const double h = entropy(q);
  std::vector<size_t> order(l.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const float x = float(std::abs(-std::log(q[a]) - h)), y = float(std::abs(-std::log(q[b]) - h));
    return x != y ? x < y : l[a].id < l[b].id;  // of those that are equally typical, the first
  });
  List kept;
  double sum = 0;
  for (const size_t i : order) {
    kept.push_back(l[i]);
    if ((sum += q[i]) > p) break;
  }
  sort(kept);
  l = kept;
}
// Tang et al. 2024: logits of at least max - n sigma.
void top_n_sigma(List& l, double n) {
  double mean = 0, var = 0;
  for (const Item& i : l) mean += i.logit / double(l.size());
  for (const Item& i : l) var += (i.logit - mean) * (i.logit - mean) / double(l.size());
  const double least = l[0].logit - n * std::sqrt(var);
  std::erase_if(l, [&](const Item& i) { return i.logit < least; });
}
// llama.cpp: of the tokens with p >= threshold, all but the last go, with a probability.
void xtc(List& l, double probability, double threshold, double u) {
  if (u >= probability || threshold > 0.5) return;
  const auto q = softmax(l);
  size_t above = 0;
  while (above < q.size() && q[above] >= threshold) ++above;
  if (above > 1) l.erase(l.begin(), l.begin() + int64_t(above) - 1);
}
// llama.cpp: the entropy over its maximum, to a power, moves the temperature between both ends.
void temperature(List& l, double t, double range, double exponent) {
  if (range > 0) {
    if (l.size() < 2) return;
    const double lo = std::max(0.0, t - range), hi = t + range;
    t = lo + (hi - lo) * std::pow(entropy(softmax(l)) / std::log(double(l.size())), exponent);
  }
  for (Item& i : l) i.logit /= t;
}
// For each token, the longest end of the text that came before and was followed by it.
void dry(List& l, const SamplerOptions& o, std::vector<int32_t> text) {
  if (o.dry_penalty_last_n >= 0 && int64_t(text.size()) > o.dry_penalty_last_n)
    text.erase(text.begin(), text.end() - o.dry_penalty_last_n);
  const auto breaks = [&](int32_t id) { return std::count(o.dry_breakers.begin(), o.dry_breakers.end(), id) > 0; };
  std::map<int32_t, int64_t> longest;
  for (size_t next = 1; next < text.size(); ++next) {
    int64_t n = 0;
    while (n < int64_t(next) && text[next - 1 - size_t(n)] == text[text.size() - 1 - size_t(n)] &&
           !breaks(text[text.size() - 1 - size_t(n)]))
      ++n;
    longest[text[next]] = std::max(longest[text[next]], n);
  }
  for (Item& i : l)
    if (const int64_t n = longest[i.id]; n > 0 && n >= o.dry_allowed_length && !breaks(i.id))
      i.logit -= o.dry_multiplier * std::pow(o.dry_base, double(n - o.dry_allowed_length));
  sort(l);
}
void penalties(List& l, const SamplerOptions& o, const std::vector<int32_t>& text) {
  for (Item& i : l) {
    const auto begin =
        o.penalty_last_n < 0 || int64_t(text.size()) < o.penalty_last_n ? text.begin() : text.end() - o.penalty_last_n;
    const auto c = std::count(begin, text.end(), i.id);
    if (c == 0) continue;
    i.logit = i.logit > 0 ? i.logit / o.repeat_penalty : i.logit * o.repeat_penalty;
    i.logit -= double(c) * o.frequency_penalty + o.presence_penalty;
  }
  sort(l);
}

int32_t inverse_cdf(const List& l, double u) {
  const auto q = softmax(l);
  for (size_t i = 0; i < l.size(); ++i)
    if ((u -= q[i]) < 0) return l[i].id;
  return l.back().id;
}

List apply(const SamplerOptions& o, const std::vector<float>& logits, uint64_t step, const std::vector<int32_t>& text) {
  List l;
  for (size_t i = 0; i < logits.size(); ++i)
    if (std::isfinite(logits[i])) l.push_back({logits[i], int32_t(i)});
  for (Item& i : l)
    for (const auto& [id, b] : o.logit_bias) i.logit += id == i.id ? b : 0;
  std::erase_if(l, [](const Item& i) { return std::isinf(i.logit); });
  sort(l);
  for (const SamplerStep s : o.steps) {
    switch (s) {
      case SamplerStep::penalties:
        penalties(l, o, text);
        break;
      case SamplerStep::dry:
        if (o.dry_multiplier > 0) dry(l, o, text);
        break;
      case SamplerStep::temperature:
        temperature(l, o.temperature, o.dynatemp_range, o.dynatemp_exponent);
        break;
      case SamplerStep::top_n_sigma:
        if (o.top_n_sigma > 0) top_n_sigma(l, o.top_n_sigma);
        break;
      case SamplerStep::top_k:
        if (o.top_k > 0) l.resize(std::min(l.size(), size_t(o.top_k)));
        break;
      case SamplerStep::typ_p:
        if (o.typical_p < 1) typical(l, o.typical_p);
        break;
      case SamplerStep::top_p:
        top_p(l, o.top_p < 1 ? o.top_p : 2);
        break;
      case SamplerStep::min_p:
        min_p(l, o.min_p);
        break;
      case SamplerStep::xtc:
        xtc(l, o.xtc_probability, o.xtc_threshold, Philox(o.seed, "xtc").uniform(step));
        break;
    }
  }
  return l;
}

// Random logits of which some are equal and some are ruled out, and a text that repeats itself.
struct Case {
  std::vector<float> logits;
  std::vector<int32_t> text;
};
Case random_case(uint64_t seed) {
  const Philox r(seed, "case");
  Case c;
  const size_t vocab = 2 + r.below(0, 300);
  const double scale = 0.5 + 3 * r.uniform(1);
  for (size_t i = 0; i < vocab; ++i) {
    const double x = scale * r.normal(100 + i);
    c.logits.push_back(r.below(5000 + i, 20) == 0 ? -INFINITY : r.below(9000 + i, 10) == 0 ? 1.5f : float(x));
  }
  c.logits[0] = 1;
  const size_t words = 1 + r.below(2, 5);
  for (size_t i = 0; i < r.below(3, 80); ++i) c.text.push_back(int32_t(r.below(20000 + i, std::min(words, vocab))));
  return c;
}

// The same token as the reference, draw by draw. Both take the same random number, so ties of rounding apart (none
// among these), a wrong set or a wrong probability shows.
void expect_same(const std::function<SamplerOptions(uint64_t)>& options, int cases = 300) {
  for (uint64_t i = 0; i < uint64_t(cases); ++i) {
    const SamplerOptions o = options(i);
    const Case c = random_case(i);
    Sampler s(o);
    const List want = apply(o, c.logits, i, c.text);
    for (uint64_t step = 0; step < 5; ++step) {
      const List l = o.xtc_probability > 0 ? apply(o, c.logits, step, c.text) : want;
      ASSERT_EQ(s.pick(c.logits, step, c.text), inverse_cdf(l, Philox(o.seed, "sample").uniform(step)))
          << i << " " << step;
    }
  }
}

TEST(SamplerChain, EachStepIsItsDefinition) {
  expect_same([](uint64_t i) { return SamplerOptions{.temperature = 1, .seed = i}; });
  expect_same([](uint64_t i) { return SamplerOptions{.temperature = 0.3, .top_k = int(1 + i % 50), .seed = i}; });
  expect_same(
      [](uint64_t i) { return SamplerOptions{.temperature = 1, .top_p = 0.01 + double(i % 99) / 100, .seed = i}; });
  expect_same([](uint64_t i) { return SamplerOptions{.temperature = 1, .min_p = double(i % 100) / 100, .seed = i}; });
  expect_same(
      [](uint64_t i) { return SamplerOptions{.temperature = 1, .seed = i, .typical_p = 0.01 + double(i % 99) / 100}; });
  expect_same(
      [](uint64_t i) { return SamplerOptions{.temperature = 1, .seed = i, .top_n_sigma = 0.1 + double(i % 30) / 10}; });
  expect_same([](uint64_t i) {
    return SamplerOptions{.temperature = 1,
                          .seed = i,
                          .xtc_probability = double(i % 5) / 4,
                          .xtc_threshold = 0.01 + double(i % 60) / 100};
  });
  expect_same([](uint64_t i) {
    return SamplerOptions{.temperature = 1,
                          .seed = i,
                          .dynatemp_range = 0.1 + double(i % 9) / 10,
                          .dynatemp_exponent = 0.5 + double(i % 3)};
  });
  expect_same([](uint64_t i) {
    return SamplerOptions{.temperature = 1,
                          .repeat_penalty = 1.3,
                          .frequency_penalty = 0.2,
                          .presence_penalty = -0.3,
                          .penalty_last_n = int64_t(i % 40) - 1,
                          .seed = i};
  });
  expect_same([](uint64_t i) {
    return SamplerOptions{.temperature = 1, .seed = i, .logit_bias = {{0, 2.5}, {1, -INFINITY}, {0, -1}}};
  });
  expect_same([](uint64_t i) {
    return SamplerOptions{.temperature = 1,
                          .seed = i,
                          .dry_multiplier = 0.8,
                          .dry_base = 1.3,
                          .dry_allowed_length = int64_t(i % 4),
                          .dry_penalty_last_n = int64_t(i % 60) - 1,
                          .dry_breakers = i % 2 ? std::vector<int32_t>{1} : std::vector<int32_t>{}};
  });
}

TEST(SamplerChain, StepsInAnyOrder) {
  expect_same(
      [](uint64_t i) {
        const Philox r(i, "order");
        SamplerOptions o{.temperature = 0.5 + r.uniform(1),
                         .top_k = int(1 + r.below(2, 60)),
                         .top_p = 0.3 + 0.7 * r.uniform(3),
                         .min_p = 0.1 * r.uniform(4),
                         .repeat_penalty = 1.1,
                         .seed = i,
                         .typical_p = 0.5 + 0.5 * r.uniform(5),
                         .top_n_sigma = 1 + 3 * r.uniform(6),
                         .xtc_probability = 0.5,
                         .xtc_threshold = 0.1,
                         .dry_multiplier = 0.5};
        for (size_t k = o.steps.size(); k > 1; --k) std::swap(o.steps[k - 1], o.steps[r.below(100 + k, k)]);
        return o;
      },
      1000);
}

// Basu et al. 2021, algorithm 2, over a text.
TEST(SamplerChain, Mirostat) {
  for (uint64_t i = 0; i < 50; ++i) {
    const SamplerOptions o{
        .temperature = 0.9, .seed = i, .mirostat = true, .mirostat_tau = 1 + double(i % 5), .mirostat_eta = 0.2};
    Sampler s(o);
    double mu = 2 * o.mirostat_tau;
    for (uint64_t step = 0; step < 40; ++step) {
      const Case c = random_case(100 * i + step);
      List l = apply(o, c.logits, step, c.text);
      const auto q = softmax(l);
      size_t n = 0;
      while (n < l.size() && -std::log2(q[n]) <= mu) ++n;
      l.resize(std::max<size_t>(n, 1));
      const int32_t want = inverse_cdf(l, Philox(o.seed, "sample").uniform(step));
      const auto p = softmax(l);
      for (size_t k = 0; k < l.size(); ++k)
        if (l[k].id == want) mu -= o.mirostat_eta * (-std::log2(p[k]) - o.mirostat_tau);
      if (step == 20) s = Sampler(s);  // a copy knows mu
      ASSERT_EQ(s.pick(c.logits, step, c.text), want) << i << " " << step;
    }
  }
}

TEST(SamplerChain, GreedyTakesTheBestAfterBiasAndPenalties) {
  const std::vector<float> logits{1, 3, 2};
  EXPECT_EQ(Sampler({.logit_bias = {{0, 2.5}}}).pick(logits, 0), 0);
  EXPECT_EQ(Sampler({.logit_bias = {{1, -INFINITY}}}).pick(logits, 0), 2);
  EXPECT_EQ(Sampler({.top_k = 1, .logit_bias = {{2, 2}}}).pick(logits, 0), 2);
  const std::vector<int32_t> text{1, 0, 1, 0};
  EXPECT_EQ(Sampler({.dry_multiplier = 5, .dry_allowed_length = 2}).pick(logits, 0, text), 2);
  EXPECT_THROW(Sampler({.logit_bias = {{3, 1}}}).pick(logits, 0), Error);
  EXPECT_THROW(Sampler({.logit_bias = {{0, -INFINITY}, {1, -INFINITY}, {2, -INFINITY}}}).pick(logits, 0), Error);
}

TEST(SamplerChain, NamesAndImpossibleOptions) {
  SamplerOptions o;
  const auto names =
      set_sampler_chain(o, "top_k(40);temperature(0.8, range=0.5);xtc(probability=0.25);mirostat(tau=3)");
  EXPECT_EQ(sampler_step_names(o.steps), "top_k;temperature;xtc");
  EXPECT_EQ(names, (std::vector<std::string_view>{"top_k", "temperature", "dynatemp_range", "xtc_probability",
                                                  "mirostat_tau"}));
  EXPECT_EQ(o.top_k, 40);
  EXPECT_EQ(o.temperature, 0.8);
  EXPECT_EQ(o.dynatemp_range, 0.5);
  EXPECT_EQ(o.xtc_probability, 0.25);
  EXPECT_TRUE(o.mirostat);
  EXPECT_EQ(o.mirostat_tau, 3);
  set_sampler_chain(o, sampler_step_names(default_sampler_steps()));
  EXPECT_EQ(o.steps, default_sampler_steps());
  set_sampler_chain(o, "");
  EXPECT_TRUE(o.steps.empty());
  for (const char* bad : {"top_k;top_q", "top_k;top_k", "mirostat;top_k", "top_k(top_p=1)", "xtc(0.5)", "top_k(1.5)",
                          "typ_p(0)", "top_k("})
    EXPECT_THROW(set_sampler_chain(o, bad), Error) << bad;
  EXPECT_EQ(Sampler({.temperature = 1, .top_k = -1, .top_p = 0}).pick(std::vector<float>{1, 3, 2}, 0), 1);
  EXPECT_THROW(Sampler({.temperature = 1, .top_k = 3, .steps = {}}), Error);
  EXPECT_THROW(Sampler({.temperature = 1, .top_k = 3, .mirostat = true}), Error);
  for (const SamplerOptions& refused :
       {SamplerOptions{.top_k = -2}, SamplerOptions{.typical_p = 0}, SamplerOptions{.top_n_sigma = -1},
        SamplerOptions{.xtc_probability = 2}, SamplerOptions{.xtc_threshold = 0}, SamplerOptions{.dry_multiplier = -1},
        SamplerOptions{.dry_base = 0.5}, SamplerOptions{.dry_allowed_length = -1},
        SamplerOptions{.dry_penalty_last_n = -2}, SamplerOptions{.dynatemp_range = -1},
        SamplerOptions{.dynatemp_exponent = 0}, SamplerOptions{.mirostat_tau = 0}, SamplerOptions{.mirostat_eta = NAN},
        SamplerOptions{.logit_bias = {{-1, 1}}}, SamplerOptions{.logit_bias = {{0, INFINITY}}},
        SamplerOptions{.logit_bias = {{0, NAN}}}})
    EXPECT_THROW(Sampler{refused}, Error);
}

// Defaults of a caller that the chain has no step for are off; what was given stays, and is an error.
TEST(SamplerChain, LeavesOutDefaults) {
  SamplerOptions o{.temperature = 0.8, .min_p = 0.05, .repeat_penalty = 1.1, .xtc_probability = 0.5};
  set_sampler_chain(o, "top_k(5);xtc");
  EXPECT_THROW(Sampler{o}, Error);
  turn_off_left_out(o, {});
  EXPECT_EQ(o.temperature, 1);
  EXPECT_EQ(o.min_p, 0);
  EXPECT_EQ(o.repeat_penalty, 1);
  EXPECT_EQ(o.top_k, 5);
  EXPECT_EQ(o.xtc_probability, 0.5);
  EXPECT_NO_THROW(Sampler{o});
  o.min_p = 0.05;
  const std::vector<std::string_view> given{"min_p"};
  turn_off_left_out(o, given);
  EXPECT_THROW(Sampler{o}, Error);
  SamplerOptions greedy;
  set_sampler_chain(greedy, "top_k");
  turn_off_left_out(greedy, {});
  EXPECT_EQ(greedy.temperature, 0);
}

TEST(SamplerChain, DocsHaveTheSettings) {
  const std::string table = testing::table_of_settings(
      {"penalties", "dry", "temperature", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "mirostat"},
      [](const std::string&) { return SamplerOptions(); });
  EXPECT_NE(testing::page("sampling.md").find(table), std::string::npos) << table;
}

TEST(SamplerChain, TokensWithATextAreFound) {
  const auto bytes = make_byte_tokenizer();
  EXPECT_EQ(tokens_with(*bytes, {"\n", ":"}), (std::vector<int32_t>{'\n', ':'}));
}

}  // namespace
}  // namespace toy::sampler_chain_test
