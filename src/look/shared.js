const $ = (id) => document.getElementById(id);
const make = (tag, props, ...inner) => { const e = Object.assign(document.createElement(tag), props); e.append(...inner); return e; };
const show = (t) => (t ?? '').replace(/\n/g, '↵').replace(/\t/g, '⇥') || '∅';
const hex = (bytes) => bytes.map((b) => b > 32 && b < 127 ? String.fromCharCode(b) : '\\x' + b.toString(16).toUpperCase().padStart(2, '0')).join('');
const text = (c) => c.bytes ? hex(c.bytes) : c.text;
const word = (c) => c.text === undefined ? `#${c.id}` : /^ +$/.test(c.text) ? '␣'.repeat(c.text.length) : show(text(c));
const percent = (p) => p === null || p === undefined ? '–' : p >= 0.9995 ? '100%' : p < 1e-5 ? '< 0.001%' : `${(100 * p).toPrecision(p < 0.001 ? 1 : p < 0.1 ? 2 : 3)}%`;
const tint = (x) => `rgba(var(--heat),${Math.max(0, Math.min(1, x)).toFixed(3)})`;
const arrows = (box, move) => box.addEventListener('keydown', (e) => {
  const step = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1], Home: [-1e9, 0], End: [1e9, 0]}[e.key];
  if (step) { e.preventDefault(); move(...step); }
});
