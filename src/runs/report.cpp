#include "toy/runs/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "runs/page.h"
#include "runs/text.h"
#include "toy/base/json_text.h"
#include "toy/base/svg.h"
#include "toy/base/utf8.h"

namespace toy::runs {
namespace {

// The summary's columns that stand at the top, as tiles.
constexpr const char* kTiles[] = {"loss",    "validation_loss",   "nats_per_byte", "step",
                                  "seconds", "tokens_per_second", "parameters"};

std::string header(const Summary& s) {
  std::vector<std::string> facts;
  for (const std::string name : {"model", "recipe", "started"})
    if (const std::string text = to_text(column(name), s); text != "-")
      facts.push_back(markup(name == "started" ? text + " UTC" : text));
  std::string out = fmt::format("<header><h1>{}</h1><span class=\"status {}\">{}</span><p>{}</p>", markup(s.id),
                                markup(s.status), markup(s.status), fmt::join(facts, " · "));
  if (!s.error.empty()) out += fmt::format("<p class=\"reason\">{}</p>", markup(s.error));
  out += "</header>\n<section class=\"tiles\">\n";
  for (const std::string name : kTiles) {
    const std::string value = to_text(column(name), s);
    if (value != "-")
      out += fmt::format("<div class=\"tile\"><span>{}</span><b>{}</b><i>{}</i></div>\n", column(name).title, value,
                         name == "step" && s.steps > 0 ? "of " + grouped(s.steps) : "");
  }
  return out + "</section>\n";
}

std::string charts(const Log& log) {
  std::string out;
  bool loss = false;
  for (const Curve& c : curves(log)) {
    if (c.metric == "validation_loss" && loss) continue;  // the chart of the loss has it
    const auto svg = [&](const char* css, int width, int height) {
      return fmt::format("<div class=\"{}\">{}</div>", css,
                         to_svg(c.chart, {.width = width, .height = height, .standalone = false}));
    };
    const bool hero = c.metric == "loss";
    loss = loss || hero;
    out += hero ? "<figure class=\"hero\">" + svg("wide", 1136, 340) : "<figure>";
    out += svg("medium", 560, 280) + svg("narrow", 386, 280) + "</figure>\n";
  }
  return out.empty() ? "<p class=\"none\">No step has been written yet.</p>\n"
                     : "<section class=\"charts\">\n" + out + "</section>\n";
}

// Where the time of the measured steps went.
std::string timings(const Log& log) {
  std::map<std::pair<std::string, std::string>, double> us;
  double all = 0, longest = 0;
  for (const Event& e : log.events)
    if (const OpTiming* o = e.as<OpTiming>()) us[{o->op, o->pass}] += o->us, all += o->us;
  std::vector<std::pair<double, std::pair<std::string, std::string>>> order;
  for (const auto& [name, t] : us) order.emplace_back(t, name), longest = std::max(longest, t);
  if (!(all > 0)) return {};
  std::sort(order.rbegin(), order.rend());
  if (order.size() > 14) order.resize(14);
  std::string out = "<section class=\"card\"><h2>Time by op</h2><div class=\"bars\">\n";
  for (const auto& [t, name] : order)
    out += fmt::format(
        "<span>{} <i>{}</i></span><div><b style=\"width:{:.1f}%\"></b></div><span class=\"n\">{:.1f}%"
        "</span>\n",
        markup(name.first), markup(name.second), 100 * t / longest, 100 * t / all);
  return out + "</div></section>\n";
}

// A small bar chart.
std::string histogram_svg(const Histogram& h) {
  int64_t most = 1;
  for (const int64_t c : h.counts) most = std::max(most, c);
  svg::Drawing d;
  for (size_t i = 0; i < h.counts.size(); ++i) {
    const double height = std::max(20.0 * double(h.counts[i]) / double(most), 0.6);
    if (h.counts[i] > 0) d.rect(6.0 * double(i), 22 - height, 5, height, "swatch", 0);
  }
  return "<div class=\"mini\">" + d.element(96, 22, "histogram") + "</div>";
}

template <class T>
std::string statistics(const Log& log, const char* title) {
  std::map<std::string, std::pair<int64_t, const T*>, NaturalLess> last;
  for (const Event& e : log.events)
    if (const T* t = e.as<T>()) last[t->name] = {e.step.value_or(0), t};
  if (last.empty()) return {};
  constexpr size_t kOpen = 16;
  std::string out = fmt::format(
      "<details class=\"card\"{}><summary>{}, {} of them</summary><table class=\"stats\"><tr><th>name</th><th>step</th>"
      "<th>rms</th><th>mean</th><th>min</th><th>max</th><th>not finite</th><th class=\"l\">histogram</th></tr>\n",
      last.size() <= kOpen ? " open" : "", title, last.size());
  const auto cell = [](const char* name, const std::string& text) {
    return fmt::format("<td data-n=\"{}\">{}</td>", name, text);
  };
  for (const auto& [name, entry] : last) {
    const T& t = *entry.second;
    out += "<tr>" + cell("", markup(name)) + cell("step", grouped(entry.first)) + cell("rms", number_text(t.rms)) +
           cell("mean", number_text(t.mean)) + cell("min", number_text(t.min)) + cell("max", number_text(t.max)) +
           cell("not finite", grouped(t.nonfinite)) + "<td class=\"l\">" + histogram_svg(t.histogram) + "</td></tr>\n";
  }
  return out + "</table></details>\n";
}

std::string samples(const Log& log) {
  std::string out;
  constexpr int kOpen = 3;
  int n = 0;
  for (auto e = log.events.rbegin(); e != log.events.rend(); ++e)
    if (const Sample* s = e->as<Sample>())
      out += fmt::format("<details{}><summary>step {}</summary><pre>{}</pre></details>\n", n++ < kOpen ? " open" : "",
                         grouped(e->step.value_or(0)), markup(s->text));
  return out.empty() ? out : "<section class=\"card\"><h2>Samples</h2>\n" + out + "</section>\n";
}

std::string row(const std::string& name, const std::string& value) {
  return fmt::format("<tr><td>{}</td><td class=\"l\">{}</td></tr>\n", markup(name), markup(value));
}

// A row for each value; what is null is named in the last one.
std::string rows_of(const nlohmann::ordered_json& object) {
  std::string out;
  std::vector<std::string> unset;
  const std::function<void(const nlohmann::ordered_json&, const std::string&)> add = [&](const auto& j,
                                                                                         const std::string& prefix) {
    for (const auto& [name, v] : j.items()) {
      if (v.is_object())
        add(v, prefix + name + ".");
      else if (v.is_null())
        unset.push_back(prefix + name);
      else
        out += row(prefix + name, v.is_string()         ? v.template get<std::string>()
                                  : v.is_number_float() ? exact_text(v.template get<double>())
                                                        : json_text(v));
    }
  };
  add(object, "");
  return unset.empty() ? out : out + row("not set", fmt::format("{}", fmt::join(unset, ", ")));
}

std::string notes(const Log& log) {
  std::string out;
  for (const Event& e : log.events) {
    std::string text;
    if (const Note* n = e.as<Note>()) text = n->text;
    if (const Resume* r = e.as<Resume>()) text = "resumed from " + r->from + " at " + readable_time(r->time) + " UTC";
    if (text.empty()) continue;
    out += e.step ? fmt::format("<li><i>step {}</i> {}</li>\n", grouped(*e.step), markup(text))
                  : fmt::format("<li>{}</li>\n", markup(text));
  }
  for (const std::string& w : log.warnings) out += fmt::format("<li>{}</li>\n", markup("the log, " + w));
  return out.empty() ? out : "<section class=\"card\"><h2>Notes</h2><ul>\n" + out + "</ul></section>\n";
}

std::string about(const Log& log) {
  const RunStart* start = nullptr;
  nlohmann::ordered_json options;  // the last ones, with what the run used where nothing was given
  for (const Event& e : log.events) {
    const RunStart* s = e.as<RunStart>();
    const Resume* r = e.as<Resume>();
    if (s) start = s, options = s->config;
    if (r && r->config) options = *r->config;
    const auto& effective = s ? s->effective : r ? r->effective : std::nullopt;
    if (effective && effective->is_object() && options.is_object()) options.update(*effective);
  }
  if (!start) return {};
  const auto card = [](const char* title, const nlohmann::ordered_json& rows) {
    return fmt::format("<details class=\"card\"><summary>{}</summary><table>{}</table></details>\n", title,
                       rows_of(rows));
  };
  const nlohmann::ordered_json machine{{"toy", start->toy},
                                       {"backend", start->backend},
                                       {"git", start->git.value_or("-")},
                                       {"machine", start->host.name},
                                       {"cpus", start->host.cpus},
                                       {"threads", start->host.threads},
                                       {"planned_bytes", grouped(start->planned_bytes)},
                                       {"train_tokens", grouped(start->train_tokens)},
                                       {"validation_tokens", grouped(start->validation_tokens)}};
  return "<section class=\"pair\">\n" + card("Options", options) + card("Model", start->model) +
         card("Machine and data", machine) + "</section>\n";
}

}  // namespace

std::string html_report(const Log& log, const Summary& s) {
  return page(s.id, header(s) + charts(log) + timings(log) + statistics<Tap>(log, "Activations, last seen") +
                        statistics<Grad>(log, "Gradients, last seen") + samples(log) + notes(log) + about(log));
}

}  // namespace toy::runs
