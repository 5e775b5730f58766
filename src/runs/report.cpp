#include "toy/runs/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

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

std::string card(const char* title, const std::string& content) {
  if (content.empty()) return {};
  return fmt::format(R"(<section class="card"><h2>{}</h2>{}</section>)", title, content) + "\n";
}

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
    const auto svg = [&](const char* css, int width, int height) {
      const SvgOptions options{.width = width, .height = height, .standalone = false};
      return fmt::format(R"(<div class="{}">{}</div>)", css, to_svg(c.chart, options));
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
  return card("Time by op", "<div class=\"bars\">" + bars + "</div>");
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

std::string samples(const Log& log) {
  std::string out;
  int open = 3;
  for (auto e = log.events.rbegin(); e != log.events.rend(); ++e)
    if (const Sample* s = e->as<Sample>())
      out += fmt::format("<details{}><summary>step {}</summary><pre>{}</pre></details>\n", open-- > 0 ? " open" : "",
                         grouped(e->step.value_or(0)), markup(s->text));
  return card("Samples", out);
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
  return card("Notes", out.empty() ? out : "<ul>\n" + out + "</ul>");
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

constexpr const char* kStyle = R"css(
:root{color-scheme:light dark;--ink:#1c2127;--soft:#69717c;--line:#e3e6ea;--page:#f6f7f9;--card:#fff;--accent:#2563c9;
--good:#178152;--bad:#c72c48}
@media(prefers-color-scheme:dark){:root{--ink:#e8eaed;--soft:#9aa2ad;--line:#2c3138;--page:#0f1114;--card:#16191d;
--accent:#74aaff;--good:#5acb96;--bad:#ff8093}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:14px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,
'Helvetica Neue',Arial,sans-serif;font-variant-numeric:tabular-nums}
main{max-width:1200px;margin:0 auto;padding:28px 20px 60px}
header{display:flex;flex-wrap:wrap;align-items:baseline;gap:4px 12px;margin-bottom:18px}
h1{font-size:24px;line-height:1.2;margin:0;overflow-wrap:anywhere}
header p{flex-basis:100%;margin:0;color:var(--soft);overflow-wrap:anywhere}
header .reason{color:var(--bad)}
.status{font-weight:600;color:var(--soft)}.status.done{color:var(--good)}.status.failed{color:var(--bad)}
.status.running{color:var(--accent)}
h2{font-size:15px;margin:0 0 10px}
.tiles{display:flex;flex-wrap:wrap;gap:1px;background:var(--line);
border:1px solid var(--line);border-radius:10px;overflow:hidden;margin-bottom:16px}
.tile{flex:1 1 128px;background:var(--card);padding:12px 16px}
.tile span,.tile i{display:block;color:var(--soft);font-style:normal;font-size:12px}
.tile i{display:inline;margin-left:6px;white-space:nowrap}.tile b{font-size:20px;font-weight:600}
.charts,.pair{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,460px),1fr));gap:16px;
margin-bottom:16px;align-items:start}
figure,.card{margin:0;background:var(--card);border:1px solid var(--line);border-radius:10px}
figure{padding:6px 4px;position:relative;min-width:0}.hero{grid-column:1/-1}
.card{padding:16px 18px;margin-bottom:16px}.pair .card{margin:0}
.plot{display:block}
.narrow,.hero .medium{display:none}
@media(max-width:900px){.hero .wide{display:none}.hero .medium{display:block}}
@media(max-width:560px){.medium,.hero .medium{display:none}.narrow{display:block}main{padding:20px 12px 40px}}
.bars{display:grid;grid-template-columns:fit-content(60%) 1fr max-content;gap:5px 14px;align-items:center;
overflow-wrap:anywhere}
.bars i,li i{color:var(--soft);font-style:normal}.bars div{height:12px}
.bars b{display:block;height:100%;background:var(--accent);border-radius:3px;min-width:1px}
.n{text-align:right}
table{border-collapse:collapse;width:100%}
th,td{padding:4px 10px;text-align:right;border-top:1px solid var(--line);white-space:nowrap}
tr:first-child>*{border-top:0}
th{font-weight:500;color:var(--soft)}th:first-child,td:first-child,.l{text-align:left}
.pair table{table-layout:fixed}.pair td{white-space:normal;overflow-wrap:anywhere;vertical-align:top}
.pair td:first-child{color:var(--soft);width:42%;padding-left:0}
@media(max-width:900px){.stats tr{display:grid;grid-template-columns:repeat(auto-fill,minmax(120px,1fr));gap:2px 14px;
border-top:1px solid var(--line);padding:8px 0}.stats tr:first-child{display:none}.stats td{border:0;padding:0;
display:flex;justify-content:space-between;flex-wrap:wrap;gap:0 8px}.stats td:first-child{grid-column:1/-1;
font-weight:500;justify-content:start;white-space:normal;overflow-wrap:anywhere}
.stats td::before{content:attr(data-n);color:var(--soft)}}
.mini{width:96px;color:var(--accent);opacity:.75}
summary{cursor:pointer;font-weight:600}.card>summary+div{margin-top:10px}
.card>details{margin-top:6px}.card>details summary{font-weight:400;color:var(--soft)}
pre{margin:4px 0 10px;padding:10px 14px;background:var(--page);border-radius:8px;white-space:pre-wrap;
overflow-wrap:anywhere;font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
ul{margin:0;padding-left:18px}.none{color:var(--soft)}
.tip{position:absolute;pointer-events:none;background:var(--ink);color:var(--card);border-radius:6px;padding:5px 9px;
font-size:12px;line-height:1.45;white-space:nowrap;z-index:2}
.tip b{font-weight:600}.tip i{display:inline-block;width:9px;height:9px;border-radius:2px;margin-right:6px}
)css";

// A line under the pointer, and what the series are there. Values come back from the drawing's own coordinates.
constexpr const char* kScript = R"js(
for (const svg of document.querySelectorAll('figure svg.plot')) {
  const [x0, x1, left, right] = svg.dataset.x.split(' ').map(Number);
  const [y0, y1, bottom, top] = svg.dataset.y.split(' ').map(Number);
  const log = svg.dataset.log === '1', figure = svg.closest('figure');
  const value = (y) => {
    const u = (y - bottom) / (top - bottom);
    return log ? y0 * Math.pow(y1 / y0, u) : y0 + u * (y1 - y0);
  };
  const lines = [...svg.querySelectorAll('.line:not(.faint)')].map((g) => ({
    g, name: g.dataset.name, named: g.classList.contains('named'), color: getComputedStyle(g).color,
    points: [...g.querySelectorAll('polyline,circle')].flatMap((p) => p.points
      ? [...p.points].map((q) => [q.x, q.y]) : [[+p.getAttribute('cx'), +p.getAttribute('cy')]])
      .sort((a, b) => a[0] - b[0]),
  })).filter((l) => l.points.length);
  if (!lines.length) continue;
  const rule = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  rule.setAttribute('class', 'axis');
  const tip = document.createElement('div');
  tip.className = 'tip';
  const hide = () => { rule.remove(); tip.remove(); for (const l of lines) l.g.classList.remove('hot'); };
  const nearest = (points, x) => points.reduce((a, b) => Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a);
  // Where a line is at x, between its points too; null where it is not.
  const height = (points, x) => {
    const k = points.findIndex((p) => p[0] >= x), [a, b] = [points[k - 1], points[k]];
    if (a && b) return a[1] + (b[1] - a[1]) * (x - a[0]) / (b[0] - a[0]);
    const end = nearest(points, x);
    return Math.abs(end[0] - x) < 12 ? end[1] : null;
  };
  const longest = lines.reduce((a, b) => b.points.length > a.points.length ? b : a);
  svg.addEventListener('pointerleave', hide);
  svg.addEventListener('pointermove', (event) => {
    const box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
    const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
    if (x < left - 6 || x > right + 6) return hide();
    const at = nearest(longest.points, x)[0];
    const here = lines.map((l) => ({...l, y: height(l.points, at)})).filter((l) => l.y !== null)
      .sort((a, b) => Math.abs(a.y - y) - Math.abs(b.y - y));
    // Of many: what the pointer is next to, and what has a label.
    const near = here.filter((l, i) => i < 5 || l.named).slice(0, 12).sort((a, b) => a.y - b.y);
    for (const l of lines) l.g.classList.toggle('hot', lines.length > 1 && l.g === here[0]?.g);
    rule.setAttribute('d', `M${at} ${top}V${bottom}`);
    svg.append(rule);
    tip.replaceChildren(Object.assign(document.createElement('b'), {
      textContent: 'step ' + Math.round(x0 + (at - left) / (right - left) * (x1 - x0)).toLocaleString('en')}));
    for (const l of near) {
      const swatch = document.createElement('i'), text = document.createElement(l.g === here[0].g ? 'b' : 'span');
      swatch.style.background = l.color;
      text.textContent = `${l.name} ${Number(value(l.y).toPrecision(4)).toLocaleString('en',
        {maximumSignificantDigits: 4})}`;
      tip.append(document.createElement('br'), swatch, text);
    }
    if (near.length < here.length) tip.append(document.createElement('br'), `and ${here.length - near.length} more`);
    figure.append(tip);
    const inside = figure.getBoundingClientRect(), place = event.clientX - inside.left;
    const beside = place + 14 + tip.offsetWidth < inside.width ? place + 14 : place - tip.offsetWidth - 14;
    tip.style.left = `${Math.max(0, Math.min(beside, inside.width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${Math.max(4, event.clientY - inside.top - tip.offsetHeight - 8)}px`;
  });
}
)js";

}  // namespace

std::string html_report(const Log& log, const Summary& s) {
  return fmt::format(R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{}">
<title>{}</title>
<style>{}{}</style>
</head>
<body>
<main>
{}{}{}{}{}{}{}{}</main>
<script>{}</script>
</body>
</html>
)",
                     "default-src 'none';style-src 'unsafe-inline';script-src 'unsafe-inline'", markup(s.id), kStyle,
                     svg::style(), header(s), charts(log), timings(log), statistics<Tap>(log, "Activations, last seen"),
                     statistics<Grad>(log, "Gradients, last seen"), samples(log), notes(log), about(log), kScript);
}

}  // namespace toy::runs
