#include "runs/page.h"

#include <fmt/format.h>

#include "toy/base/svg.h"
#include "toy/base/utf8.h"

namespace toy::runs {
namespace {

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
.tile i{display:inline;margin-left:6px;white-space:nowrap}.tile b{font-size:20px;font-weight:600;white-space:nowrap}
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
summary{cursor:pointer;font-weight:600;overflow-wrap:anywhere}.card>summary+div{margin-top:10px}
.card>details{margin-top:6px}.card>details summary{font-weight:400;color:var(--soft)}
pre{margin:4px 0 10px;padding:10px 14px;background:var(--page);border-radius:8px;white-space:pre-wrap;
overflow-wrap:anywhere;font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
pre q{quotes:none;color:var(--soft)}pre.wanted{border-left:3px solid var(--good)}
.scroll{overflow-x:auto}.best{font-weight:600;color:var(--good)}
.turns{display:grid;grid-template-columns:fit-content(40%) 1fr;gap:3px 14px;margin:4px 0 10px}
.turns dt{color:var(--soft);overflow-wrap:anywhere}.turns dd{margin:0;overflow-wrap:anywhere;white-space:pre-wrap}
.turns .right{color:var(--good)}.turns .right::before{content:'✓ '}.turns .wrong::before{content:'✗ '}
td i{color:var(--soft);font-style:normal;font-weight:400;white-space:nowrap}
@media(max-width:900px){.shares th,.shares td{white-space:normal;padding:4px 3px;vertical-align:top}}
@media(max-width:560px){.shares{font-size:12px}.shares th{overflow-wrap:anywhere}}
h2 i{color:var(--soft);font-style:normal;font-weight:400}
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
  // What was measured next to x, and where; null where nothing was.
  const measured = (points, x) => {
    const point = nearest(points, x);
    return Math.abs(point[0] - x) < 12 ? point : null;
  };
  const along = svg.dataset.along;
  const place = (x) => {
    const v = x0 + (x - left) / (right - left) * (x1 - x0);
    if (along === 'seconds') return `${v.toLocaleString('en', {maximumSignificantDigits: 4})} s`;
    const count = Math.round(v).toLocaleString('en');
    return along === 'tokens' ? `${count} tokens` : `${along} ${count}`;
  };
  const longest = lines.reduce((a, b) => b.points.length > a.points.length ? b : a);
  svg.addEventListener('pointerleave', hide);
  svg.addEventListener('pointermove', (event) => {
    const box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
    const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
    if (x < left - 6 || x > right + 6) return hide();
    const at = nearest(longest.points, x)[0];
    const here = lines.map((l) => ({...l, point: measured(l.points, at)})).filter((l) => l.point)
      .map((l) => ({...l, y: l.point[1]}))
      .sort((a, b) => Math.abs(a.y - y) - Math.abs(b.y - y));
    // Of many: what the pointer is next to, and what has a label.
    const near = here.filter((l, i) => i < 5 || l.named).slice(0, 12).sort((a, b) => a.y - b.y);
    for (const l of lines) l.g.classList.toggle('hot', lines.length > 1 && l.g === here[0]?.g);
    rule.setAttribute('d', `M${at} ${top}V${bottom}`);
    svg.append(rule);
    tip.replaceChildren(Object.assign(document.createElement('b'), {textContent: place(at)}));
    for (const l of near) {
      const swatch = document.createElement('i'), text = document.createElement(l.g === here[0].g ? 'b' : 'span');
      swatch.style.background = l.color;
      text.textContent = `${l.name} ${Number(value(l.y).toPrecision(4)).toLocaleString('en',
        {maximumSignificantDigits: 4})}${Math.abs(l.point[0] - at) > 0.6 ? ` (${place(l.point[0])})` : ''}`;
      tip.append(document.createElement('br'), swatch, text);
    }
    if (near.length < here.length) tip.append(document.createElement('br'), `and ${here.length - near.length} more`);
    figure.append(tip);
    const inside = figure.getBoundingClientRect(), pointer = event.clientX - inside.left;
    const beside = pointer + 14 + tip.offsetWidth < inside.width ? pointer + 14 : pointer - tip.offsetWidth - 14;
    tip.style.left = `${Math.max(0, Math.min(beside, inside.width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${Math.max(4, event.clientY - inside.top - tip.offsetHeight - 8)}px`;
  });
}
)js";

}  // namespace

std::string html_page(const std::string& title, const std::string& body) {
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
{}</main>
<script>{}</script>
</body>
</html>
)",
                     "default-src 'none';style-src 'unsafe-inline';script-src 'unsafe-inline'", markup(title), kStyle,
                     svg::style(), body, kScript);
}

std::string html_card(const std::string& title, const std::string& content) {
  if (content.empty()) return {};
  return fmt::format(R"(<section class="card"><h2>{}</h2>{}</section>)", title, content) + "\n";
}

std::string html_figure(const Chart& chart, bool hero) {
  const auto svg = [&](const char* css, int width, int height) {
    const SvgOptions options{.width = width, .height = height, .standalone = false};
    return fmt::format(R"(<div class="{}">{}</div>)", css, to_svg(chart, options));
  };
  return (hero ? "<figure class=\"hero\">" + svg("wide", 1136, 340) : "<figure>") + svg("medium", 560, 280) +
         svg("narrow", 386, 280) + "</figure>\n";
}

}  // namespace toy::runs
