#include "toy/runs/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "runs/page.h"
#include "runs/text.h"
#include "toy/base/json_text.h"

namespace toy::runs {
namespace {

// The summary's columns that stand at the top, as tiles.
constexpr const char* kTiles[] = {"loss",    "validation_loss",   "nats_per_byte", "step",
                                  "seconds", "tokens_per_second", "parameters"};

std::string tile(const std::string& title, const std::string& value, const std::string& more = {}) {
  return fmt::format("<div class=\"tile\"><span>{}</span><b>{}</b><i>{}</i></div>\n", title, value, more);
}

std::string header(const Summary& s) {
  std::vector<std::string> facts;
  for (const char* name : {"model", "recipe", "started"})
    if (const std::string text = to_text(column(name), s); text != "-")
      facts.push_back(escaped(std::string(name) == "started" ? text + " UTC" : text));
  std::string out = fmt::format("<header><h1>{}</h1><span class=\"status {}\">{}</span><p>{}</p></header>\n",
                                escaped(s.id), escaped(s.status), escaped(s.status), fmt::join(facts, " · "));
  out += "<section class=\"tiles\">\n";
  for (const char* name : kTiles) {
    const std::string value = to_text(column(name), s);
    if (value == "-") continue;
    const bool steps = std::string_view(name) == "step" && s.steps > 0;
    out += tile(column(name).title, value, steps ? "of " + grouped(s.steps) : "");
  }
  return out + "</section>\n";
}

std::string charts(const Log& log) {
  std::string out;
  bool loss = false;
  for (const Curve& c : curves(log)) {
    if (c.metric == "validation_loss" && loss) continue;  // the chart of the loss has it
    const auto svg = [&](int width, int height) {
      return to_svg(c.chart, {.width = width, .height = height, .standalone = false});
    };
    if (c.metric == "loss") {
      loss = true;
      out += "<figure class=\"hero\"><div class=\"wide\">" + svg(1136, 340) + "</div><div class=\"narrow\">" +
             svg(560, 300) + "</div></figure>\n";
    } else {
      out += "<figure>" + svg(560, 260) + "</figure>\n";
    }
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
        escaped(name.first), escaped(name.second), 100 * t / longest, 100 * t / all);
  return out + "</div></section>\n";
}

// A small bar chart.
std::string histogram_svg(const Histogram& h) {
  int64_t most = 1;
  for (const int64_t c : h.counts) most = std::max(most, c);
  std::string bars;
  for (size_t i = 0; i < h.counts.size(); ++i) {
    const double height = 20.0 * double(h.counts[i]) / double(most);
    bars += fmt::format("M{} 22h5v-{:.1f}h-5z", i * 6, h.counts[i] > 0 ? std::max(height, 0.6) : 0.0);
  }
  return fmt::format(
      "<svg class=\"mini\" viewBox=\"0 0 96 22\" width=\"96\" height=\"22\" aria-hidden=\"true\"><path "
      "d=\"{}\"/></svg>",
      bars);
}

template <class T>
std::string statistics(const Log& log, const char* title) {
  std::map<std::string, std::pair<int64_t, const T*>> last;
  for (const Event& e : log.events)
    if (const T* t = e.as<T>()) last[t->name] = {e.step.value_or(0), t};
  if (last.empty()) return {};
  std::string out = fmt::format(
      "<section class=\"card\"><h2>{}</h2><div class=\"scroll\"><table><tr><th>name</th><th>step</th><th>rms</th>"
      "<th>mean</th><th>min</th><th>max</th><th>not finite</th><th class=\"l\">histogram</th></tr>\n",
      title);
  for (const auto& [name, entry] : last) {
    const T& t = *entry.second;
    out += fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td "
        "class=\"l\">{}</td></tr>\n",
        escaped(name), grouped(entry.first), number_text(t.rms), number_text(t.mean), number_text(t.min),
        number_text(t.max), grouped(t.nonfinite), histogram_svg(t.histogram));
  }
  return out + "</table></div></section>\n";
}

std::string samples(const Log& log) {
  std::string out;
  constexpr int kOpen = 3;
  int n = 0;
  for (auto e = log.events.rbegin(); e != log.events.rend(); ++e)
    if (const Sample* s = e->as<Sample>())
      out += fmt::format("<details{}><summary>step {}</summary><pre>{}</pre></details>\n", n++ < kOpen ? " open" : "",
                         grouped(e->step.value_or(0)), escaped(s->text));
  return out.empty() ? out : "<section class=\"card\"><h2>Samples</h2>\n" + out + "</section>\n";
}

void rows_of(const nlohmann::ordered_json& j, const std::string& prefix, std::string& out) {
  for (const auto& [name, v] : j.items()) {
    if (v.is_object())
      rows_of(v, prefix + name + ".", out);
    else
      out += fmt::format("<tr><td>{}</td><td class=\"l\">{}</td></tr>\n", escaped(prefix + name),
                         escaped(v.is_string() ? v.get<std::string>() : json_text(v)));
  }
}

std::string notes(const Log& log) {
  std::string out;
  for (const Event& e : log.events) {
    std::string text;
    if (const Note* n = e.as<Note>()) text = n->text;
    if (const Resume* r = e.as<Resume>()) text = "resumed from " + r->from + " at " + readable_time(r->time) + " UTC";
    if (const RunEnd* r = e.as<RunEnd>(); r && r->error) text = *r->error;
    if (text.empty()) continue;
    out += e.step ? fmt::format("<li><i>step {}</i> {}</li>\n", grouped(*e.step), escaped(text))
                  : fmt::format("<li>{}</li>\n", escaped(text));
  }
  for (const std::string& w : log.warnings) out += fmt::format("<li>{}</li>\n", escaped("the log, " + w));
  return out.empty() ? out : "<section class=\"card\"><h2>Notes</h2><ul>\n" + out + "</ul></section>\n";
}

std::string about(const Log& log) {
  const RunStart* start = nullptr;
  const nlohmann::ordered_json* config = nullptr;  // the last one
  for (const Event& e : log.events) {
    if (const RunStart* s = e.as<RunStart>()) start = s, config = &s->config;
    if (const Resume* r = e.as<Resume>(); r && r->config) config = &*r->config;
  }
  if (!start) return {};
  std::string rows, out = "<section class=\"pair\">\n";
  rows_of(*config, "", rows);
  const auto card = [](const char* title, const std::string& body) {
    return fmt::format(
        "<details class=\"card\"><summary>{}</summary><div class=\"scroll\"><table>{}</table></div>"
        "</details>\n",
        title, body);
  };
  out += card("Options", rows);
  rows.clear();
  rows_of(start->model, "", rows);
  out += card("Model", rows);
  nlohmann::ordered_json j{{"toy", start->toy},
                           {"backend", start->backend},
                           {"git", start->git.value_or("-")},
                           {"machine", start->host.name},
                           {"cpus", start->host.cpus},
                           {"threads", start->host.threads},
                           {"planned_bytes", grouped(start->planned_bytes)},
                           {"train_tokens", grouped(start->train_tokens)},
                           {"validation_tokens", grouped(start->validation_tokens)}};
  rows.clear();
  rows_of(j, "", rows);
  return out + card("Machine and data", rows) + "</section>\n";
}

}  // namespace

std::string html_report(const Log& log, const Summary& s) {
  return page_head(s.id) + header(s) + charts(log) + timings(log) + statistics<Tap>(log, "Activations, last seen") +
         statistics<Grad>(log, "Gradients, last seen") + samples(log) + notes(log) + about(log) + page_foot();
}

}  // namespace toy::runs
