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

void add(Series& s, const Event& e, double y) {
  s.x.push_back(double(e.step.value_or(0)));
  s.y.push_back(y);
}

// A loss that falls to a fraction of its beginning is drawn on a logarithmic scale: else all but the beginning is flat.
bool falls_far(const Chart& chart) {
  constexpr double kFar = 2.5;
  double lo = INFINITY, hi = 0;
  for (const Series& s : chart.series)
    for (const double v : s.y)
      if (std::isfinite(v)) lo = std::min(lo, v), hi = std::max(hi, v);
  return lo > 0 && hi > kFar * lo;
}

// The numbers as they are behind their smoothed course; few numbers speak for themselves.
void add_smoothed(Chart& chart, Series raw, bool with_raw = true) {
  constexpr size_t kFew = 80;
  if (raw.y.size() >= kFew) {
    Series smooth = raw;
    smooth.y = smoothed(raw.y);
    raw.style = Style::faint;
    if (with_raw) chart.series.push_back(std::move(raw));
    chart.series.push_back(std::move(smooth));
  } else {
    chart.series.push_back(std::move(raw));
  }
}

using ValueOf = std::optional<double> (*)(const Event&);

Series series_of(const Log& log, const std::string& name, ValueOf value, int color, Style style = Style::line) {
  Series s{name, {}, {}, style, color};
  for (const Event& e : log.events)
    if (const std::optional<double> v = value(e)) add(s, e, *v);
  return s;
}

std::optional<double> loss_of(const Event& e) {
  const Step* s = e.as<Step>();
  return s ? std::optional(s->loss) : std::nullopt;
}
std::optional<double> validation_of(const Event& e) {
  const Eval* v = e.as<Eval>();
  return v ? std::optional(v->loss) : std::nullopt;
}
std::optional<double> lr_of(const Event& e) {
  const Step* s = e.as<Step>();
  return s ? std::optional(s->lr) : std::nullopt;
}
std::optional<double> grad_norm_of(const Event& e) {
  const Step* s = e.as<Step>();
  return s ? s->grad_norm : std::nullopt;
}
std::optional<double> rate_of(const Event& e) {
  const Step* s = e.as<Step>();
  return s && s->wall_us > 0 ? std::optional(1e6 * double(s->tokens) / double(s->wall_us)) : std::nullopt;
}

// One value a step, and so a curve that can be compared.
struct Scalar {
  const char *metric, *title, *unit;
  bool log_y, smooth;
  Chart::Best best;
  ValueOf value;
};
constexpr Scalar kScalars[] = {
    {"loss", "Loss", "nats per token", false, true, Chart::Best::lowest, loss_of},
    {"validation_loss", "Validation loss", "nats per token", false, false, Chart::Best::lowest, validation_of},
    {"lr", "Learning rate", "", false, false, Chart::Best::neither, lr_of},
    {"grad_norm", "Gradient norm", "before clipping", true, true, Chart::Best::neither, grad_norm_of},
    {"tokens_per_second", "Throughput", "tokens per second", false, true, Chart::Best::highest, rate_of},
};

// A value for each name.
struct Named {
  const char *metric, *title, *unit;
  bool log_y;
  std::optional<std::pair<std::string, double>> (*value)(const Event&);
};
constexpr Named kNamed[] = {
    {"drift", "Drift", "distance from the start", false,
     [](const Event& e) {
       const Drift* d = e.as<Drift>();
       return d ? std::optional(std::pair(d->name, d->l2_to_init)) : std::nullopt;
     }},
    {"drift_cos", "Direction", "cosine to the start", false,
     [](const Event& e) {
       const Drift* d = e.as<Drift>();
       return d ? std::optional(std::pair(d->name, d->cos_to_init)) : std::nullopt;
     }},
    {"tap", "Activations", "rms", true,
     [](const Event& e) {
       const Tap* t = e.as<Tap>();
       return t ? std::optional(std::pair(t->name, t->rms)) : std::nullopt;
     }},
    {"grad", "Gradients", "rms", true,
     [](const Event& e) {
       const Grad* g = e.as<Grad>();
       return g ? std::optional(std::pair(g->name, g->rms)) : std::nullopt;
     }},
};

Chart chart_of(const Log& log, const Scalar& s) {
  Chart chart{s.title, s.unit, "step", s.log_y, {}, s.best};
  const bool loss = std::string_view(s.metric) == "loss";
  Series line = series_of(log, loss ? "training" : s.title, s.value, 0);
  if (s.smooth)
    add_smoothed(chart, std::move(line));
  else
    chart.series.push_back(std::move(line));
  if (loss) {
    Series validation = series_of(log, "validation", validation_of, 1, Style::points);
    if (!validation.y.empty()) chart.series.push_back(std::move(validation));
  }
  chart.log_y = chart.log_y || (s.value == loss_of && falls_far(chart));
  return chart;
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
    const auto it = std::find(layers.begin(), layers.end(), layer);
    layer_of.push_back(size_t(it - layers.begin()));
    if (it == layers.end()) layers.push_back(layer);
  }
  const auto present = [](const std::string& g) { return !g.empty(); };
  if (std::count_if(chart.groups.begin(), chart.groups.end(), present) > 1) return;
  chart.ramp = true;
  chart.groups.assign(kMost, "");
  chart.groups.front() = layers.front(), chart.groups.back() = layers.back();
  for (size_t i = 0; i < chart.series.size(); ++i)
    chart.series[i].color = layers.size() > 1 ? int(layer_of[i] * (kMost - 1) / (layers.size() - 1)) : 0;
}

Chart chart_of(const Log& log, const Named& n) {
  Chart chart{n.title, n.unit, "step", n.log_y, {}};
  std::map<std::string, Series, NaturalLess> series;
  for (const Event& e : log.events) {
    auto v = n.value(e);
    if (!v) continue;
    constexpr std::string_view kWeight = ".weight";  // nearly all have it, so it tells nothing
    if (v->first.ends_with(kWeight)) v->first.resize(v->first.size() - kWeight.size());
    add(series.try_emplace(v->first, Series{v->first, {}, {}}).first->second, e, v->second);
  }
  for (auto& [name, s] : series) {
    s.color = int(chart.series.size());
    chart.series.push_back(std::move(s));
  }
  group(chart);
  return chart;
}

}  // namespace

std::vector<std::string> metrics() {
  std::vector<std::string> names;
  for (const Scalar& s : kScalars) names.push_back(s.metric);
  for (const Named& n : kNamed) names.push_back(n.metric);
  return names;
}

std::vector<Curve> curves(const Log& log) {
  std::vector<Curve> list;
  const auto keep = [&](const char* metric, Chart chart) {
    if (!chart.empty()) list.push_back({metric, std::move(chart)});
  };
  for (const Scalar& s : kScalars) keep(s.metric, chart_of(log, s));
  for (const Named& n : kNamed) keep(n.metric, chart_of(log, n));
  return list;
}

Chart compare_chart(const std::string& metric, std::span<const Log> logs, std::span<const std::string> names) {
  const auto it =
      std::find_if(std::begin(kScalars), std::end(kScalars), [&](const Scalar& s) { return s.metric == metric; });
  std::vector<std::string> known;
  for (const Scalar& s : kScalars) known.push_back(s.metric);
  check(it != std::end(kScalars), "metric '{}' is not one of those that runs are compared by: {}", metric,
        fmt::join(known, ", "));
  Chart chart{it->title, it->unit, "step", it->log_y, {}, it->best};
  for (size_t i = 0; i < logs.size(); ++i) {
    Series s = series_of(logs[i], names[i], it->value, int(i), it->smooth ? Style::line : Style::points);
    if (it->smooth)
      add_smoothed(chart, std::move(s), logs.size() <= 4);
    else
      chart.series.push_back(std::move(s));
  }
  chart.log_y = chart.log_y || (it->value == loss_of && falls_far(chart));
  return chart;
}

}  // namespace toy::runs
