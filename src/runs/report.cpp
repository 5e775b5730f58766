#include "toy/runs/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "runs/page.h"
#include "runs/text.h"
#include "toy/base/json_text.h"
#include "toy/base/nearest.h"
#include "toy/base/svg.h"
#include "toy/base/utf8.h"

namespace toy::runs {
namespace {

using nlohmann::ordered_json;

// The summary's columns that stand at the top, as tiles.
constexpr const char* kTiles[] = {"loss",    "validation_loss",   "nats_per_byte", "step",
                                  "seconds", "tokens_per_second", "parameters"};

std::string header(const Summary& s) {
  std::vector<std::string> facts;
  for (const std::string name : {"model", "recipe", "started"})
    if (const std::string text = to_text(column(name), s); text != "-")
      facts.push_back(markup(name == "started" ? text + " UTC" : text));
  std::string out = fmt::format(R"(<header><h1>{0}</h1><span class="status {1}">{1}</span><p>{2}</p>)", markup(s.id),
                                markup(s.status), fmt::join(facts, " · "));
  if (!s.error.empty()) out += fmt::format(R"(<p class="reason">{}</p>)", markup(s.error));
  out += "</header>\n<section class=\"tiles\">\n";
  for (const std::string name : kTiles)
    if (const std::string value = to_text(column(name), s); value != "-")
      out += fmt::format(R"(<div class="tile"><span>{}</span><b>{}</b><i>{}</i></div>)", column(name).title, value,
                         name == "step" && s.steps > 0 ? "of " + grouped(s.steps) : "");
  return out + "</section>\n";
}

std::string charts(const Log& log) {
  std::string out;
  bool loss = false;
  for (const Curve& c : curves(log)) {
    if (c.metric == "validation_loss" && loss) continue;  // the chart of the loss has it
    const bool hero = c.metric == "loss";
    loss = loss || hero;
    out += html_figure(c.chart, hero);
  }
  return out.empty() ? "<p class=\"none\">No step has been written yet.</p>\n"
                     : "<section class=\"charts\">\n" + out + "</section>\n";
}

// Where the time of the measured steps went.
std::string timings(const Log& log) {
  constexpr size_t kShown = 14;
  std::map<std::string, double> us;
  double all = 0;
  for (const Event& e : log.events)
    if (const OpTiming* o = e.as<OpTiming>())
      us[fmt::format("{} <i>{}</i>", markup(o->op), markup(o->pass))] += o->us, all += o->us;
  if (!(all > 0)) return {};
  std::vector<std::pair<double, std::string>> order;
  for (const auto& [name, t] : us) order.emplace_back(t, name);
  std::sort(order.rbegin(), order.rend());
  order.resize(std::min(order.size(), kShown));
  std::string bars;
  for (const auto& [t, name] : order)
    bars += fmt::format(R"(<span>{}</span><div><b style="width:{:.1f}%"></b></div><span class="n">{:.1f}%</span>)",
                        name, 100 * t / order[0].first, 100 * t / all);
  return html_card("Time by op", "<div class=\"bars\">" + bars + "</div>");
}

// A small bar chart.
std::string histogram_svg(const Histogram& h) {
  const auto most = std::max_element(h.counts.begin(), h.counts.end());
  svg::Drawing d;
  for (size_t i = 0; i < h.counts.size(); ++i) {
    if (h.counts[i] <= 0) continue;
    const double height = std::max(20.0 * double(h.counts[i]) / double(*most), 0.6);
    d.rect(6.0 * double(i), 22 - height, 5, height, "swatch", 0);
  }
  return d.element(96, 22, "histogram");
}

template <class T>
std::string statistics(const Log& log, const char* title) {
  constexpr size_t kOpen = 16;
  std::map<std::string, std::pair<int64_t, const T*>, NaturalLess> last;
  for (const Event& e : log.events)
    if (const T* t = e.as<T>()) last[t->name] = {e.step.value_or(0), t};
  if (last.empty()) return {};
  constexpr const char* kNames[] = {"name", "step", "rms", "mean", "min", "max", "not finite"};
  std::string head, rows;
  for (const char* name : kNames) head += fmt::format("<th>{}</th>", name);
  for (const auto& [name, entry] : last) {
    const auto& [step, t] = entry;
    const std::string cells[] = {markup(name),        grouped(step),       number_text(t->rms),  number_text(t->mean),
                                 number_text(t->min), number_text(t->max), grouped(t->nonfinite)};
    rows += "<tr>";
    for (size_t i = 0; i < std::size(cells); ++i)
      rows += fmt::format(R"(<td data-n="{}">{}</td>)", i > 0 ? kNames[i] : "", cells[i]);
    rows += fmt::format(R"(<td class="l"><div class="mini">{}</div></td></tr>)", histogram_svg(t->histogram)) + "\n";
  }
  return fmt::format(R"(<details class="card"{}><summary>{}, {} of them</summary><table class="stats"><tr>{}
<th class="l">histogram</th></tr>
{}</table></details>
)",
                     last.size() <= kOpen ? " open" : "", title, last.size(), head, rows);
}

// Which classes the last validation took for which, and what it was most wrong about.
std::string classes(const Log& log) {
  const Eval* last = nullptr;
  for (const Event& e : log.events)
    if (const Eval* v = e.as<Eval>(); v && v->classes) last = v;
  if (!last) return {};
  const auto j = parse_json<ordered_json>(last->classes->text);
  for (const char* list : {"names", "confusion", "worst"})
    if (!j.is_object() || !j.contains(list) || !j[list].is_array()) return {};
  const auto text = [](const ordered_json& v) { return markup(v.is_string() ? v.get<std::string>() : json_text(v)); };
  std::string table = "<table class=\"stats\"><tr><th class=\"l\">class</th>";
  for (const ordered_json& name : j["names"]) table += fmt::format("<th>{}</th>", text(name));
  size_t at = 0;
  for (const ordered_json& row : j["confusion"]) {
    if (!row.is_array()) return {};
    table += fmt::format("</tr>\n<tr><td class=\"l\">{}</td>", at < j["names"].size() ? text(j["names"][at]) : "");
    for (size_t k = 0; k < row.size(); ++k) {
      const std::string n = row[k] == 0 && k != at ? "" : text(row[k]);
      table += k == at ? fmt::format("<td><b>{}</b></td>", n) : fmt::format("<td>{}</td>", n);
    }
    ++at;
  }
  std::string worst;
  for (const ordered_json& w : j["worst"])
    if (w.is_object() && w.contains("name") && w.contains("class") && w.contains("chosen") && w["class"] != w["chosen"])
      worst +=
          fmt::format("<li>{}: {}, the model says {}</li>\n", text(w["name"]), text(w["class"]), text(w["chosen"]));
  return html_card("Classes of the last validation: rows are right, columns are what the model says",
                   table + "</tr></table>" + (worst.empty() ? "" : "<p>Most wrong:</p><ul>\n" + worst + "</ul>"));
}

std::string samples(const Log& log) {
  std::string out;
  int open = 3;
  for (auto e = log.events.rbegin(); e != log.events.rend(); ++e)
    if (const Sample* s = e->as<Sample>()) {
      const std::string prompt = s->prompt ? fmt::format("<q>{}</q>", markup(*s->prompt)) : "",
                        wanted =
                            s->wanted ? fmt::format("wanted:<pre class=\"wanted\">{}</pre>", markup(*s->wanted)) : "",
                        reward = s->reward ? fmt::format(", reward {}", number_text(*s->reward)) : "";
      out +=
          fmt::format("<details{}><summary>step {}{}</summary><pre>{}{}</pre>{}</details>\n", open-- > 0 ? " open" : "",
                      grouped(e->step.value_or(0)), reward, prompt, markup(s->text), wanted);
    }
  return html_card("Samples", out);
}

std::string notes(const Log& log) {
  std::string out;
  for (const Event& e : log.events) {
    std::string text;
    if (const Note* n = e.as<Note>()) text = n->text;
    if (const Resume* r = e.as<Resume>()) text = "resumed from " + r->from + " at " + readable_time(r->time) + " UTC";
    const std::string step = e.step ? fmt::format("<i>step {}</i> ", grouped(*e.step)) : "";
    if (!text.empty()) out += fmt::format("<li>{}{}</li>\n", step, markup(text));
  }
  for (const std::string& w : log.warnings) out += fmt::format("<li>the log, {}</li>\n", markup(w));
  return html_card("Notes", out.empty() ? out : "<ul>\n" + out + "</ul>");
}

std::string row(const std::string& name, const std::string& value) {
  return fmt::format("<tr><td>{}</td><td class=\"l\">{}</td></tr>\n", markup(name), markup(value));
}

// A row for each value; names of what is null go to `unset`.
std::string rows_of(const ordered_json& object, const std::string& prefix, std::vector<std::string>& unset) {
  std::string out;
  for (const auto& [key, v] : object.items()) {
    const std::string name = prefix + key;
    if (v.is_null()) unset.push_back(name);
    if (v.is_object())
      out += rows_of(v, name + ".", unset);
    else if (!v.is_null())
      out += row(name, v.is_string()         ? v.get<std::string>()
                       : v.is_number_float() ? exact_text(v.get<double>())
                                             : json_text(v));
  }
  return out;
}

std::string about_card(const char* title, const ordered_json& object) {
  std::vector<std::string> unset;
  std::string rows = rows_of(object, "", unset);
  if (!unset.empty()) rows += row("not set", fmt::format("{}", fmt::join(unset, ", ")));
  return fmt::format("<details class=\"card\"><summary>{}</summary><table>{}</table></details>\n", title, rows);
}

std::string about(const Log& log) {
  const RunStart* start = nullptr;
  ordered_json options;  // the last ones, with what the run used where nothing was given
  for (const Event& e : log.events) {
    const RunStart* s = e.as<RunStart>();
    const Resume* r = e.as<Resume>();
    if (s) start = s, options = parse_json<ordered_json>(s->config.text);
    if (r && r->config) options = parse_json<ordered_json>(r->config->text);
    const auto& used = s ? s->effective : r ? r->effective : std::nullopt;
    const auto effective = used ? parse_json<ordered_json>(used->text) : ordered_json();
    if (effective.is_object() && options.is_object()) options.update(effective);
  }
  if (!start) return {};
  const ordered_json machine{{"toy", start->toy},
                             {"backend", start->backend},
                             {"git", start->git.value_or("-")},
                             {"machine", start->host.name},
                             {"cpus", start->host.cpus},
                             {"threads", start->host.threads},
                             {"planned_bytes", grouped(start->planned_bytes)},
                             {"train_tokens", grouped(start->train_tokens)},
                             {"validation_tokens", grouped(start->validation_tokens)}};
  return "<section class=\"pair\">\n" + about_card("Options", options) +
         about_card("Model", parse_json<ordered_json>(start->model.text)) + about_card("Machine and data", machine) +
         "</section>\n";
}

}  // namespace

std::string html_report(const Log& log, const Summary& s) {
  return html_page(s.id, header(s) + charts(log) + classes(log) + timings(log) +
                             statistics<Tap>(log, "Activations, last seen") +
                             statistics<Grad>(log, "Gradients, last seen") + samples(log) + notes(log) + about(log));
}

}  // namespace toy::runs
