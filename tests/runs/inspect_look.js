// Uses a page of `toy look` with the keyboard, and finds elements that leave it, heads that are not drawn, and texts that
// do not follow the chosen token.
const faults = [];
const key = (box, name) => box.dispatchEvent(new KeyboardEvent('keydown', {key: name, bubbles: true, cancelable: true}));
const pressed = (box) => [...box.querySelectorAll('button')].findIndex((b) => b.getAttribute('aria-pressed') === 'true');
const byId = (id) => document.getElementById(id);
const tokens = byId('text');
if (tokens.querySelectorAll('button').length !== data.ids.length) faults.push('tokens are missing');
const last = pressed(tokens), before = byId('chosen').textContent;
key(tokens, 'ArrowLeft');
if (pressed(tokens) !== last - 1) faults.push(`arrow left chose ${pressed(tokens)} after ${last}`);
if (byId('chosen').textContent === before) faults.push('the text does not follow the token');
key(tokens, 'Home');
if (pressed(tokens) !== 0) faults.push('Home does not choose the first token');
key(tokens, 'End');
for (const text of document.body.innerText.match(/NaN|undefined|\[object/g) ?? []) faults.push(`the page says ${text}`);
if (byId('lens')) {
  const heads = byId('heads'), about = byId('about').textContent, chosen = pressed(heads);
  key(heads, 'ArrowLeft');
  if (pressed(heads) === chosen || byId('about').textContent === about) faults.push('arrow left chooses no other head');
  for (const canvas of document.querySelectorAll('canvas')) {
    const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    if (!pixels.some((v, i) => i % 4 === 3 && v > 0)) faults.push('a head is not drawn');
  }
  if (byId('states') && byId('stable').rows.length < 2) faults.push('no states');
}
if (document.documentElement.scrollWidth > window.innerWidth + 1)
  faults.push(`the page is ${document.documentElement.scrollWidth} px wide, the window ${window.innerWidth}`);
for (const e of document.querySelectorAll('main *:not(.scroll *):not(#heads *)')) {
  const box = e.getBoundingClientRect();
  if (box.width > 0 && (box.right > window.innerWidth + 1 || box.left < -1))
    faults.push(`${e.tagName} ${e.id} ${e.textContent.trim().slice(0, 30)} leaves the page`);
}
for (const box of document.querySelectorAll('.scroll, #heads')) // what is scrolled to can be reached with the keyboard
  if (box.scrollWidth > box.clientWidth + 1 && box.tabIndex < 0) faults.push(`${box.id} cannot be scrolled`);
parent.postMessage(faults.length ? faults.slice(0, 20).join('; ') : 'ok', '*');
