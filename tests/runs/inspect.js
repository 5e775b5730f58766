// Finds texts of charts that leave their drawing or overlap, and elements that are wider than the page.
const faults = [];
const inside = (a, b) => a.left >= b.left - 1 && a.right <= b.right + 1 && a.top >= b.top - 1 && a.bottom <= b.bottom + 1;
const overlap = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
  && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;
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
  // Pointing at a chart shows its values.
  svg.dispatchEvent(new PointerEvent('pointermove', {
    clientX: frame.left + frame.width / 2, clientY: frame.top + frame.height / 2}));
  const tip = svg.closest('figure').querySelector('.tip');
  if (!tip || !/step [\d,.]+/.test(tip.textContent) || /NaN|Infinity/.test(tip.textContent))
    faults.push(`${name}: no values under the pointer`);
  svg.dispatchEvent(new PointerEvent('pointerleave'));
}
if (document.documentElement.scrollWidth > window.innerWidth + 1)
  faults.push(`the page is ${document.documentElement.scrollWidth} px wide, the window ${window.innerWidth}`);
document.body.dataset.inspected = faults.length ? faults.join('; ') : 'ok';
