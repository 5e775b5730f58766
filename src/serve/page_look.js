// ---- a look inside the model at a token of an answer: docs/look.md
$('close-look').onclick = () => $('look').close();
$('look').addEventListener('click', (e) => { if (e.target === $('look')) $('look').close(); });

async function lookAt(turn, lane, at) {
  const reply = turn.replies[lane], version = current(reply), t = version.tokens[at], body = $('look-body');
  $('look-title').textContent = `How “${visible(t.text)}” came about`;
  body.replaceChildren(element('p', '', 'Reading…'));
  if (!$('look').open) $('look').showModal();
  try {
    if (!reply.prompt) reply.prompt = await promptIds(turns.indexOf(turn), lane);
    const ids = [...reply.prompt, ...version.tokens.slice(0, at + 1).map((x) => x.id)];
    drawLook(await (await request('/v1/look', { model: isServed(reply.options.model) ? reply.options.model : settings.model1, tokens: ids })).json(), t.id);
  } catch (e) {
    body.replaceChildren(element('p', 'error', e.message));
  }
}

// Of what was read before the token `id`, which is the last one.
function drawLook(look, id) {
  const place = look.ids.length - 2, points = [look.embedding, ...look.layers];
  const table = element('table');
  points.forEach((p, l) => {
    const row = element('tr');
    row.append(element('th', '', l ? `layer ${l - 1}` : 'embedding'));
    for (const c of p.top[place].slice(0, 3))
      row.append(element('td', c.id === id ? 'chosen' : '', `${visible(c.text)} ${percent(Math.log(c.probability))}`));
    row.append(element('td', '', `rank ${p.rank[place] + 1}`));
    table.append(row);
  });
  const from = points.map((p) => p.rank[place] === 0).lastIndexOf(false) + 1, wide = element('div', 'wide');
  wide.append(table);
  const best = from >= points.length ? 'Another token was likelier than this one.'
    : `It is the likeliest token from ${from ? `layer ${from - 1}` : 'the embedding'} on.`;
  $('look-body').replaceChildren(element('h3', '', 'What each layer would predict'),
    element('p', '', `The model's own output on the rows between its layers. ${best}`), wide);
  const heads = look.layers.flatMap((l, n) => (l.attention || []).map((rows, h) => ({ n, h, row: rows[0] })));
  if (heads.length) $('look-body').append(...attentionOf(look, heads, place));
}

// The text before the token, colored by what attends to it; the first token, where heads rest, is left out.
function attentionOf(look, heads, place) {
  const label = element('label', '', 'Attention of '), select = element('select'), text = element('div', 'read');
  const layers = [...new Set(heads.map((x) => x.n))];
  for (const n of ['all', ...layers]) {
    const o = element('option', '', n === 'all' ? 'all layers' : `layer ${n}`);
    o.value = n;
    select.append(o);
  }
  label.append(select);
  const draw = () => {
    const some = heads.filter((x) => select.value === 'all' || x.n === Number(select.value));
    const means = look.ids.slice(0, place + 1).map((_, j) => some.reduce((sum, x) => sum + x.row[j], 0) / some.length);
    const most = Math.max(...means.slice(1), 1e-9);
    text.replaceChildren(...means.map((m, j) => {
      const span = element('span', '', look.tokens[j].text);
      span.title = percent(Math.log(m));
      if (j > 0) span.style.background = `color-mix(in srgb, var(--accent) ${Math.round(60 * m / most)}%, transparent)`;
      return span;
    }));
  };
  select.onchange = draw;
  draw();
  return [element('h3', '', 'What it looked at'),
          element('p', '', 'The mean over heads of the attention of the token before, which predicted this one.'), label, text];
}
