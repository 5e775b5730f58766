// ---- conversations, kept in this browser: an item of its storage for each
let conversation = null;  // { id, title, changed } of the one that is shown, once it has a turn
const kPrefix = 'toy-chat-';
// Without what can be had again: places on the page, ids of prompts, and the bytes of complete characters.
const packed = () => turns.map((t) => ({ user: t.user, better: t.better, replies: t.replies.map((r) => ({
  options: r.options, shown: Math.max(0, Math.min(r.shown, r.versions.filter((v) => !v.busy).length - 1)),
  versions: r.versions.filter((v) => !v.busy).map(({ tokens, ...rest }) => ({ ...rest, tokens: tokens.map(
    ({ top_logprobs, bytes, top, ...t }) => ({ ...t, ...(t.text === t.token ? {} : { bytes }),
      top: top?.map(({ id, token, logprob, special, bytes: b }) => ({ id, token, logprob, special, bytes: b })) })) })) })) }));
function save() {
  if (!turns.length) return;
  const now = Date.now(), there = conversation && load(conversation.id);
  if (conversation && there?.changed !== conversation.changed) conversation.id = String(now);  // another tab has changed it
  conversation ??= { id: String(now), title: turns[0].user.trim().replace(/\s+/g, ' ').slice(0, 60) };
  conversation.changed = now;
  const item = { ...conversation, mode: settings.mode, system: settings.system, turns: packed() };
  store.set('toy-open', conversation.id);
  try {
    localStorage.setItem(kPrefix + conversation.id, JSON.stringify(item));
  } catch {  // full: what else the model considered takes most of it
    for (const t of item.turns) for (const r of t.replies) for (const v of r.versions) for (const token of v.tokens) delete token.top;
    try { localStorage.setItem(kPrefix + conversation.id, JSON.stringify(item)); }
    catch { notice('This browser has no room for more conversations: export and delete some in Chats.'); }
  }
  drawChats();
}
function load(id) {
  try { return JSON.parse(store.get(kPrefix + id)); } catch { return null; }
}
function kept() {
  const ids = store.names().filter((k) => k.startsWith(kPrefix)).map((k) => k.slice(kPrefix.length));
  return ids.map(load).filter((c) => c?.turns?.length).sort((a, b) => b.changed - a.changed);
}
function openChat(id) {
  if (running) {  // what was written so far stays with its conversation
    running.abort();
    for (const turn of turns) for (const r of turn.replies) for (const v of r.versions) if (v.busy) Object.assign(v, { busy: false, finish: 'stopped' });
    save();
  }
  const item = id && load(id);
  turns = item?.turns || [];
  conversation = item ? { id: item.id, title: item.title, changed: item.changed } : null;
  if (item) {
    settings.mode = item.mode;
    settings.system = item.system;
    store.set('toy-open', id);
  } else {
    store.remove('toy-open');
  }
  // A question that was never answered, because the page was closed, is to be asked again.
  for (const turn of turns) turn.replies = turn.replies.filter((r) => r.versions.length);
  if (turns.length && !turns.at(-1).replies.length) {
    $('text').value = turns.pop().user;
    grow();
  }
  notice('');
  showSettings();
  drawAll();
  drawChats();
}
function toggleChats() {
  const list = $('chats');
  list.hidden = !list.hidden;
  $('list').setAttribute('aria-expanded', String(!list.hidden));
  drawChats();
  if (!list.hidden) (list.querySelector('[aria-current]') || $('close-chats')).focus();
}
function drawChats() {
  if ($('chats').hidden) return;
  const all = kept();
  $('chat-list').replaceChildren(...all.map((c) => {
    const row = element('li'), title = element('button', '', c.title), rename = element('button', '', 'Rename'), drop = element('button', '', 'Delete');
    if (c.id === conversation?.id) title.setAttribute('aria-current', 'true');
    title.title = new Date(c.changed).toLocaleString();
    title.onclick = () => { openChat(c.id); $('text').focus(); if (innerWidth <= 760) toggleChats(); };
    rename.setAttribute('aria-label', `Rename ${c.title}`);
    rename.onclick = () => renameChat(row, c);
    drop.setAttribute('aria-label', `Delete ${c.title}`);
    drop.onclick = () => {
      if (drop.textContent === 'Delete') { drop.textContent = 'Delete for good?'; return; }
      store.remove(kPrefix + c.id);
      if (c.id === conversation?.id) openChat(null); else drawChats();
      ($('chat-list').querySelector('button') || $('close-chats')).focus();
    };
    row.append(title, rename, drop);
    return row;
  }));
  $('export-chats').disabled = !all.some((c) => rowsOf(c).length);
  $('export-preferences').disabled = !all.some((c) => preferencesOf(c).length);
}
function renameChat(row, c) {
  const field = element('input');
  field.value = c.title;
  field.setAttribute('aria-label', 'New title');
  const done = (title) => {
    if (title) {
      store.set(kPrefix + c.id, JSON.stringify({ ...load(c.id), title }));
      if (c.id === conversation?.id) conversation.title = title;
    }
    drawChats();
    [...$('chat-list').querySelectorAll('button:first-child')].find((b) => b.textContent === (title || c.title))?.focus();
  };
  field.onkeydown = (e) => {
    if (e.key === 'Enter') { e.preventDefault(); done(field.value.trim()); }  // else it would press what gets the focus
    if (e.key === 'Escape') { done(''); e.stopPropagation(); }
  };
  row.replaceChildren(field);
  field.focus();
}

// ---- as training data
const answered = (turn) => turn.replies.every((r) => r.versions.length && !current(r).error);
function rowsOf(c) {
  const turns = c.turns.filter(answered), last = turns.at(-1);
  if (!last) return [];
  const before = historyOf({ ...c, turns }, turns.length - 1, 0), answer = answerOf(last, 0);
  return [c.mode === 'chat' ? { messages: [...before, { role: 'assistant', content: answer }] } : { text: before + answer }];
}
// Do all lanes of a turn answer the same words?
function sameStart(turn, c = { mode: settings.mode, system: settings.system, turns }) {
  const at = c.turns.indexOf(turn), starts = turn.replies.map((_, lane) => JSON.stringify(historyOf(c, at, lane)));
  return starts.every((s) => s === starts[0]);
}
function preferencesOf(c) {
  return c.turns.flatMap((turn, at) => {
    if (!turn.better || !sameStart(turn, c)) return [];
    const prompt = historyOf(c, at, turn.better.lane), chosen = textOf(turn.replies[turn.better.lane].versions[turn.better.version]);
    const rest = new Set(turn.replies.flatMap((r) => r.versions.filter((v) => !v.error).map(textOf)));
    rest.delete(chosen);
    const said = (text) => c.mode === 'chat' ? [{ role: 'assistant', content: text }] : text;
    return [...rest].map((rejected) => ({ prompt, chosen: said(chosen), rejected: said(rejected) }));
  });
}
function prefer(turn, lane, already) {
  if (running) return;
  dropAfter(turn);
  if (!already) turn.better = { lane, version: turn.replies[lane].shown };
  save();
  turn.replies.forEach((_, l) => draw(turn, l));
}
function download(name, rows) {
  const link = element('a');
  link.href = URL.createObjectURL(new Blob(rows.map((r) => JSON.stringify(r) + '\n'), { type: 'application/jsonl' }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
