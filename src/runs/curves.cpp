#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "runs/text.h"
#include "toy/base/error.h"
#include "toy/runs/report.h"

namespace toy::runs {
namespace {

using Style = Series::Style;
using Best = Chart::Best;

// A number of events of one kind.
template <class Kind, auto Member>
std::optional<double> number(const Event& e) {
  const Kind* body = e.as<Kind>();
  return body ? std::optional<double>(body->*Member) : std::nullopt;
}

template <auto Member>
std::optional<double> reward(const Event& e) {
  const Step* s = e.as<Step>();
  return s ? s->rewards.*Member : std::nullopt;
}

template <auto Member>
std::optional<double> policy(const Event& e) {
  const Step* s = e.as<Step>();
  return s ? s->policy.*Member : std::nullopt;
}

std::optional<double> validation_accuracy(const Event& e) {
  const Eval* v = e.as<Eval>();
  return v ? v->rewards.accuracy : std::nullopt;
}

// Of questions there is no loss.
std::optional<double> validation_loss(const Event& e) {
  const Eval* v = e.as<Eval>();
  return v && !v->reward ? std::optional(v->loss) : std::nullopt;
}

std::optional<double> validation_reward(const Event& e) {
  const Eval* v = e.as<Eval>();
  return v ? v->reward : std::nullopt;
}

std::optional<double> throughput(const Event& e) {
  const Step* s = e.as<Step>();
  return s && s->wall_us > 0 ? std::optional(1e6 * double(s->tokens) / double(s->wall_us)) : std::nullopt;
}

// How a metric is drawn. One with names has a value for each of them in a step, and no curve that can be compared.
enum : unsigned { kPlain = 0, kLog = 1, kSmooth = 2, kNamed = 4 };
struct Metric {
  const char *name, *title, *unit;
  unsigned how;
  Best best;
  std::optional<double> (*value)(const Event&);
};
constexpr Metric kMetrics[] = {
    {"loss", "Loss", "nats per token", kSmooth, Best::lowest, number<Step, &Step::loss>},
    {"validation_loss", "Validation loss", "nats per token", kPlain, Best::lowest, validation_loss},
    {"reward_margin", "Reward margin", "chosen - rejected", kSmooth, Best::highest, reward<&Rewards::margin>},
    {"reward_accuracy", "Reward accuracy", "part of the pairs", kSmooth, Best::highest, reward<&Rewards::accuracy>},
    {"validation_accuracy", "Validation accuracy", "part of the pairs", kPlain, Best::highest, validation_accuracy},
    {"reward", "Reward", "mean of the answers", kSmooth, Best::highest, policy<&Policy::reward>},
    {"validation_reward", "Validation reward", "likeliest answers to held-out questions", kPlain, Best::highest,
     validation_reward},
    {"groups_mixed", "Groups to learn from", "part of the questions", kSmooth, Best::neither, policy<&Policy::mixed>},
    {"entropy", "Entropy", "nats per token", kSmooth, Best::neither, policy<&Policy::entropy>},
    {"length", "Length", "tokens of an answer", kSmooth, Best::neither, policy<&Policy::length>},
    {"clip_share", "Clipped", "part of the tokens", kSmooth, Best::neither, policy<&Policy::clip_share>},
    {"lr", "Learning rate", "", kPlain, Best::neither, number<Step, &Step::lr>},
    {"grad_norm", "Gradient norm", "before clipping", kLog | kSmooth, Best::neither, number<Step, &Step::grad_norm>},
    {"tokens_per_second", "Throughput", "tokens per second", kSmooth, Best::highest, throughput},
    {"drift", "Drift", "distance from the start", kNamed, Best::neither, number<Drift, &Drift::l2_to_init>},
    {"drift_cos", "Direction", "cosine to the start", kNamed, Best::neither, number<Drift, &Drift::cos_to_init>},
    {"tap", "Activations", "rms", kLog | kNamed, Best::neither, number<Tap, &Tap::rms>},
    {"grad", "Gradients", "rms", kLog | kNamed, Best::neither, number<Grad, &Grad::rms>},
};
constexpr const Metric& kLoss = kMetrics[0];
constexpr const Metric& kValidation = kMetrics[1];

// Where an event is along a chart; events in the order of their log.
class Places {
 public:
  explicit Places(Along along) : along_(along) {}
  double next(const Event& e) {
    if (const Step* s = e.as<Step>()) tokens_ += double(s->tokens);
    return along_ == Along::step ? double(e.step.value_or(0)) : along_ == Along::tokens ? tokens_ : e.t;
  }

 private:
  Along along_;
  double tokens_ = 0;
};

// The values of a metric: a series for each name, in order, or one.
std::vector<Series> series_of(const Log& log, const Metric& m, Along along = Along::step) {
  constexpr std::string_view kWeight = ".weight";  // nearly all names have it, so it tells nothing
  std::map<std::string, Series, NaturalLess> by_name;
  Places places(along);
  for (const Event& e : log.events) {
    const double place = places.next(e);
    const auto v = m.value(e);
    if (!v) continue;
    std::string name = m.how & kNamed ? e.name_in_step().value_or("") : "";
    if (name.ends_with(kWeight)) name.resize(name.size() - kWeight.size());
    Series& s = by_name[name];
    s.x.push_back(place);
    s.y.push_back(*v);
  }
  std::vector<Series> list;
  for (auto& [name, s] : by_name) list.push_back({name, std::move(s.x), std::move(s.y), Style::line, int(list.size())});
  return list;
}

// Adds a metric that has values, few as they are, many behind their smoothed course.
void add_series(Chart& chart, const Metric& m, const Log& log, const std::string& name, Style style, int color,
                bool with_raw = true, Along along = Along::step) {
  constexpr size_t kFew = 80;
  for (Series& s : series_of(log, m, along)) {
    const bool smooth = (m.how & kSmooth) && s.y.size() >= kFew;
    if (smooth && with_raw) chart.series.push_back({name, s.x, s.y, Style::faint, color});
    chart.series.push_back({name, s.x, smooth ? smoothed(s.y) : s.y, style, color});
  }
}

Chart empty_chart(const Metric& m) { return {m.title, m.unit, "step", (m.how & kLog) != 0, {}, m.best}; }

// A loss that falls to a fraction of its beginning is drawn on a logarithmic scale: else all but the beginning is flat.
void choose_scale(Chart& chart, const Metric& m) {
  constexpr double kFar = 2.5;
  double lo = INFINITY, hi = 0;
  for (const Series& s : chart.series)
    for (const double v : s.y)
      if (std::isfinite(v)) lo = std::min(lo, v), hi = std::max(hi, v);
  if (&m == &kLoss && lo > 0 && hi > kFar * lo) chart.log_y = true;
}

// What a tensor or an activation is part of, by its name.
int kind_of(const std::string& name) {
  const auto has = [&](std::initializer_list<const char*> parts) {
    return std::any_of(parts.begin(), parts.end(), [&](const char* p) { return name.find(p) != std::string::npos; });
  };
  if (has({"norm"})) return 2;
  if (has({"attn", "attention", "rope"})) return 0;
  if (has({"ffn", "swiglu", "gelu"})) return 1;
  if (has({"embd", "embed"})) return 3;
  if (name.ends_with(".out") || name.ends_with(".add") || name.find(".add.") != std::string::npos) return 4;
  return name.starts_with("output") || name == "logits" || name == "x_final" ? 5 : 6;
}
const std::vector<std::string> kBlockKinds{"attention", "ffn", "norm", "embedding", "residual", "output", "other"};

// Many series share colors: those of a kind, or where all are of one kind those of neighbouring layers.
void group(Chart& chart) {
  constexpr size_t kMost = 8;
  if (chart.series.size() <= kMost) return;
  std::vector<std::string> layers;
  std::vector<size_t> layer_of;
  chart.groups.assign(kBlockKinds.size(), "");
  for (Series& s : chart.series) {
    s.color = kind_of(s.name);
    chart.groups[size_t(s.color)] = kBlockKinds[size_t(s.color)];
    const std::string layer = s.name.substr(0, s.name.find('.', s.name.find('.') + 1));
    if (layers.empty() || layers.back() != layer) layers.push_back(layer);
    layer_of.push_back(layers.size() - 1);
  }
  const auto present = [](const std::string& g) { return !g.empty(); };
  if (std::count_if(chart.groups.begin(), chart.groups.end(), present) > 1) return;
  chart.ramp = true;
  chart.groups.assign(kMost, "");
  chart.groups.front() = layers.front(), chart.groups.back() = layers.back();
  for (size_t i = 0; i < chart.series.size(); ++i)
    chart.series[i].color = layers.size() > 1 ? int(layer_of[i] * (kMost - 1) / (layers.size() - 1)) : 0;
}

Chart chart_of(const Log& log, const Metric& m) {
  Chart chart = empty_chart(m);
  if (m.how & kNamed) {
    chart.series = series_of(log, m);
    group(chart);
  } else {
    add_series(chart, m, log, &m == &kLoss ? "training" : m.title, Style::line, 0);
    if (&m == &kLoss) add_series(chart, kValidation, log, "validation", Style::points, 1);
    choose_scale(chart, m);
  }
  return chart;
}

}  // namespace

std::vector<std::string> metrics() {
  std::vector<std::string> names;
  for (const Metric& m : kMetrics) names.push_back(m.name);
  return names;
}

std::vector<Curve> curves(const Log& log) {
  std::vector<Curve> list;
  for (const Metric& m : kMetrics)
    if (Chart chart = chart_of(log, m); !chart.empty()) list.push_back({m.name, std::move(chart)});
  return list;
}

Chart compare_chart(const std::string& metric, std::span<const Log> logs, std::span<const std::string> names,
                    Along along) {
  std::vector<std::string> known;
  const Metric* m = nullptr;
  for (const Metric& one : kMetrics) {
    if (one.how & kNamed) continue;
    known.push_back(one.name);
    if (one.name == metric) m = &one;
  }
  check(m, "metric '{}' is not one of those that runs are compared by: {}", metric, fmt::join(known, ", "));
  Chart chart = empty_chart(*m);
  chart.x_label = along == Along::step ? "step" : along == Along::tokens ? "tokens" : "seconds";
  for (size_t i = 0; i < logs.size(); ++i)
    add_series(chart, *m, logs[i], names[i], m->how & kSmooth ? Style::line : Style::points, int(i), logs.size() <= 4,
               along);
  choose_scale(chart, *m);
  return chart;
}

}  // namespace toy::runs
