// Finds texts of charts that leave their drawing or overlap, elements that are wider than the page or than the box
// around them (so that something is cut off, or has to be scrolled to), and charts whose hover says nothing.
const faults = [];
const inside = (a, b) => a.left >= b.left - 1 && a.right <= b.right + 1 && a.top >= b.top - 1 && a.bottom <= b.bottom + 1;
const overlap = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
  && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;
for (const details of document.querySelectorAll('details')) details.open = true;
const charts = [...document.querySelectorAll('figure svg.plot')].filter((s) => s.getBoundingClientRect().width > 0);
if (charts.length < 5) faults.push(`only ${charts.length} charts`);
for (const svg of charts) {
  const name = svg.getAttribute('aria-label'), frame = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll('text')].map((t) => [t.textContent, t.getBoundingClientRect()]);
  for (const [text, box] of texts) if (!inside(box, frame)) faults.push(`${name}: ${text} is cut off`);
  texts.forEach(([a, p], i) => texts.slice(i + 1).forEach(([b, q]) => {
    if (overlap(p, q)) faults.push(`${name}: ${a} lies over ${b}`);
  }));
  if (!svg.querySelector('polyline')) faults.push(`${name}: no line`);
  const small = parseFloat(getComputedStyle(svg.querySelector('text.soft')).fontSize) * frame.width / svg.viewBox.baseVal.width;
  if (small < 9) faults.push(`${name}: numbers are ${small.toFixed(1)} px high`);
  // Pointing at a chart shows its values; the series with labels that were measured there are among them, however many
  // there are.
  const middle = svg.viewBox.baseVal.width / 2;
  const isMeasured = (line) => [...line.querySelector('polyline').points].some((p) => Math.abs(p.x - middle) < 8);
  svg.dispatchEvent(new PointerEvent('pointermove', {
    clientX: frame.left + frame.width / 2, clientY: frame.top + frame.height / 2}));
  const tip = svg.closest('figure').querySelector('.tip');
  if (!tip || !/(step|stage) [\d,.]+/.test(tip.textContent) || /NaN|Infinity/.test(tip.textContent))
    faults.push(`${name}: no values under the pointer`);
  else
    for (const line of svg.querySelectorAll('.line.named'))
      if (line.querySelectorAll('polyline').length === 1 && isMeasured(line) && !tip.textContent.includes(line.dataset.name))
        faults.push(`${name}: ${line.dataset.name} has a label, and is not under the pointer`);
  svg.dispatchEvent(new PointerEvent('pointerleave'));
}
if (document.documentElement.scrollWidth > window.innerWidth + 1)
  faults.push(`the page is ${document.documentElement.scrollWidth} px wide, the window ${window.innerWidth}`);
for (const e of document.querySelectorAll('main *:not(svg *)')) {
  const box = e.getBoundingClientRect();
  if (box.width === 0 || e.closest('.tip')) continue;
  if (box.right > window.innerWidth + 1 || box.left < -1)
    faults.push(`${e.tagName} ${e.textContent.trim().slice(0, 30)} leaves the page`);
  if (e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0)
    faults.push(`${e.tagName} ${e.textContent.trim().slice(0, 30)} is ${e.scrollWidth} px wide in ${e.clientWidth}`);
}
parent.postMessage(faults.length ? faults.slice(0, 20).join('; ') : 'ok', '*');
