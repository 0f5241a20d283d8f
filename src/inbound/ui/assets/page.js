// What the page does beyond links and forms: search while typing, live updates, keys, copying. Renders nothing itself: HTML
// comes from the relay, as fragments of the same addresses and as events.
const $ = (what, within = document) => within.querySelector(what);
const all = (what, within = document) => [...within.querySelectorAll(what)];
const body = document.body, words = JSON.parse(body.dataset.words), kind = body.dataset.kind;
const found = () => $('#found');
const parse = (html) => { const box = document.createElement('template'); box.innerHTML = html; return box.content; };
const store = { get: (k) => { try { return localStorage.getItem(k); } catch { return null; } }, set: (k, v) => { try { localStorage.setItem(k, v); } catch { /* not kept */ } } };

// The login is over, or was ended elsewhere.
const out = () => location.assign(`/ui/login?back=${encodeURIComponent(location.pathname + location.search)}`);

// One voice: what is said replaces what was.
let saying;
function say(text, after = 0) {
  clearTimeout(saying);
  saying = setTimeout(() => { $('#say').textContent = text; }, after);
}

// The reader's zone, so that the relay writes the reader's days and hours.
{
  const minutes = -new Date().getTimezoneOffset();
  const zone = `hb_zone=${Intl.DateTimeFormat().resolvedOptions().timeZone}~${minutes}`;
  if (!document.cookie.includes(zone)) {
    document.cookie = `${zone}; Path=/ui; Max-Age=31536000; SameSite=Strict`;
    if (document.cookie.includes(zone) && body.dataset.clock === 'local' && +body.dataset.offset !== minutes) location.reload();
  }
}

// Makes `a` what `b` is, leaving alone what is the same: focus, selection and folds stay.
function morph(a, b) {
  for (const { name, value } of [...b.attributes]) if (name !== 'open' && a.getAttribute(name) !== value) a.setAttribute(name, value);
  for (const { name } of [...a.attributes]) if (name !== 'open' && !b.hasAttribute(name)) a.removeAttribute(name);
  const key = (node) => node.dataset?.k;
  const keyed = new Map([...a.childNodes].filter(key).map((node) => [key(node), node]));
  let at = a.firstChild;
  for (const fresh of [...b.childNodes]) {
    const same = key(fresh) ? keyed.get(key(fresh)) : at && !key(at) && at.nodeName === fresh.nodeName ? at : null;
    if (!same || same.nodeName !== fresh.nodeName) { a.insertBefore(fresh, at); continue; }
    while (at !== same && at && !keyed.has(key(at))) { const gone = at; at = at.nextSibling; gone.remove(); }
    if (at !== same) a.insertBefore(same, at);
    if (same.nodeType === Node.ELEMENT_NODE) morph(same, fresh);
    else if (same.data !== fresh.data) same.data = fresh.data;
    at = same.nextSibling;
  }
  while (at) { const gone = at; at = at.nextSibling; gone.remove(); }
}

// ---- Search while typing -------------------------------------------------------------------------------------------
const form = $('#search'), input = $('#q');
let asked = 0, typing, flight;

async function show(url, { speak = true, gently = false } = {}) {
  const mine = ++asked;
  flight?.abort();
  flight = new AbortController();
  found().setAttribute('aria-busy', 'true');
  try {
    const answer = await fetch(url, { headers: { 'x-fragment': 'found' }, signal: flight.signal });
    if (answer.status === 401) return out();
    const fresh = $('#found', parse(await answer.text()));
    // A late older answer never replaces a newer one.
    if (mine !== asked || !fresh) return;
    if (gently) morph(found(), fresh);
    else {
      const open = all('details[open][data-k=filters]', found()).length > 0;
      found().replaceWith(fresh);
      if (open) $('details[data-k=filters]', fresh)?.setAttribute('open', '');
    }
    found().removeAttribute('aria-busy');
    waiting = [];
    pill();
    if (speak && fresh.dataset.say) say(found().dataset.say, 500);
    connect(found().dataset.seq);
  } catch (error) {
    if (error.name !== 'AbortError' && mine === asked) { found().removeAttribute('aria-busy'); mark('lost'); }
  }
}

function wanted() {
  const pairs = [...new FormData(form)].filter(([, value]) => value !== '');
  return '/ui' + (pairs.length ? '?' + new URLSearchParams(pairs) : '');
}

function listen(url) {
  const query = new URL(url, location.href).searchParams;
  for (const name of ['before', 'sort']) query.delete(name);
  body.dataset.events = '/ui/events' + (`${query}` && `?${query}`);
}

function search() {
  const url = wanted();
  if (url === location.pathname + location.search) return;
  if (history.state?.typing) history.replaceState({ typing: true }, '', url);
  else history.pushState({ typing: true }, '', url);
  document.title = `${input.value || words.title} · hermes-bridge`;
  listen(url);
  show(url);
}

if (kind === 'list') {
  input.addEventListener('input', (event) => {
    clearTimeout(typing);
    if (!event.isComposing) typing = setTimeout(search, 120);
  });
  input.addEventListener('compositionend', () => { clearTimeout(typing); typing = setTimeout(search, 120); });
  input.addEventListener('change', () => { if (history.state?.typing) history.replaceState(null, '', location.href); });
  form.addEventListener('submit', (event) => { event.preventDefault(); clearTimeout(typing); search(); });
  addEventListener('popstate', () => {
    if (!location.pathname.match(/^\/ui\/?$/)) return;
    const query = new URLSearchParams(location.search);
    input.value = query.get('q') ?? '';
    for (const old of all('input[type=hidden]', form)) old.remove();
    for (const name of ['status', 'agent', 'from', 'to', 'sort']) {
      if (!query.get(name)) continue;
      const kept = Object.assign(document.createElement('input'), { type: 'hidden', name, value: query.get(name) });
      form.append(kept);
    }
    listen(location.href);
    show(location.pathname + location.search);
  });
}

// ---- Live ----------------------------------------------------------------------------------------------------------
const switchButton = $('#live');
let stream, seen = +(found()?.dataset.seq ?? 0), paused = store.get('paused') === '1', waiting = [], again, place, tries = 0;

// A browser opens six connections to a relay, all windows together: streams take four of them, the others wait in line.
let seating;
const seat = () => (seating ??= sitDown().finally(() => { seating = null; }));
function sitDown() {
  if (place || !navigator.locks) return Promise.resolve();
  const others = new AbortController();
  return new Promise((seated) => {
    const sit = (lock) => new Promise((up) => {
      // Two may be free at once.
      if (place) return up();
      place = up;
      others.abort();
      seated(lock);
    });
    for (let n = 0; n < 4; n += 1) navigator.locks.request(`hermes-bridge-live-${n}`, { signal: others.signal }, sit).catch(() => {});
  });
}

function leave() {
  stream?.close();
  stream = null;
  place?.();
  place = null;
}

function mark(state) {
  if (!switchButton) return;
  switchButton.dataset.state = state;
  switchButton.lastElementChild.textContent = words[state];
  switchButton.title = paused ? words.resume : words.pause;
  switchButton.setAttribute('aria-pressed', String(paused));
}

async function connect(from) {
  clearTimeout(again);
  const mineTry = ++tries;
  stream?.close();
  stream = null;
  if (from) seen = +from;
  if (!body.dataset.events) return;
  if (paused) { leave(); mark('paused'); return; }
  if (document.hidden) return;
  mark('connecting');
  await seat();
  if (mineTry !== tries) return;
  if (paused || document.hidden) { leave(); return; }
  const url = body.dataset.events;
  const mine = stream = new EventSource(`${url}${url.includes('?') ? '&' : '?'}since=${seen}`);
  mine.onopen = () => mark('live');
  mine.onerror = () => {
    if (mine !== stream) return;
    mark('lost');
    if (mine.readyState === EventSource.CLOSED) again = setTimeout(() => connect(), 5000);
  };
  const on = (name, act) => mine.addEventListener(name, (event) => {
    if (mine !== stream) return;
    if (event.lastEventId) seen = Math.max(seen, +event.lastEventId);
    act(event.data);
  });
  on('exchange', (html) => take(html, true));
  on('update', (html) => take(html, false));
  on('agents', (html) => { const old = $('#agents'); if (old) morph(old, parse(html).firstElementChild); if (kind === 'agents') refresh(); });
  on('missed', refresh);
}

// Too much happened to be told one by one: look again, without moving anything.
let refreshing;
function refresh() {
  clearTimeout(refreshing);
  refreshing = setTimeout(() => {
    if (kind === 'list' && (found().dataset.live === 'still' || scrollY > 80)) { waiting.push(null); return pill(); }
    show(location.pathname + location.search, { speak: false, gently: true });
  }, 1500);
}

function take(html, may) {
  const section = parse(html).firstElementChild, item = $('.x', section), old = document.getElementById(item.id);
  if (old) {
    for (const name of ['framed']) if (old.classList.contains(name)) item.classList.add(name);
    return morph(old, item);
  }
  const at = waiting.findIndex((one) => one && $('.x', one).id === item.id);
  if (at >= 0) { waiting[at] = section; return; }
  const list = $('#list'), mode = found()?.dataset.live;
  if (!may || !list || mode === 'agents') return;
  const time = (one) => +$('time[data-t]', one).dataset.t;
  if (mode === 'end') { put(list, section, false); return; }
  const first = $('.x', list);
  // An older one that changed is on a later page.
  if (first && time(item) < time(first)) return;
  if (!first && mode === 'top') return refresh();
  if (mode === 'top' && scrollY < 80) return put(list, section, true);
  if (waiting.length < 500) waiting.push(section);
  pill();
}

function put(list, section, top) {
  const item = $('.x', section), neighbour = top ? list.firstElementChild : list.lastElementChild;
  item.classList.add('in');
  if (neighbour?.dataset.day === section.dataset.day) top ? neighbour.firstElementChild.after(item) : neighbour.append(item);
  else top ? list.prepend(section) : list.append(section);
  const total = $('#total');
  if (total) {
    total.dataset.n = +total.dataset.n + 1;
    total.textContent = new Intl.NumberFormat(document.documentElement.lang).format(total.dataset.n);
  }
}

function pill() {
  const button = $('#pill');
  if (!button) return;
  button.hidden = waiting.length === 0;
  const shape = waiting.length === 1 ? words.one : words.many;
  if (waiting.length) button.textContent = `↑ ${shape.replace('{n}', waiting.length)}`;
}

function flush() {
  if (found().dataset.live === 'still') { location.href = wanted(); return; }
  const list = $('#list'), all = waiting;
  waiting = [];
  pill();
  if (all.includes(null)) { show(location.pathname + location.search, { speak: false, gently: true }); return; }
  all.forEach((section) => put(list, section, true));
}

function toggle() {
  paused = !paused;
  store.set('paused', paused ? '1' : '0');
  connect();
  say(words[paused ? 'paused' : 'live']);
}

switchButton?.addEventListener('click', toggle);
document.addEventListener('visibilitychange', () => { if (document.hidden) leave(); else connect(); });
addEventListener('pagehide', leave);
addEventListener('pageshow', (event) => { if (event.persisted) connect(); });
addEventListener('scroll', () => { if (scrollY < 20 && waiting.length && found().dataset.live === 'top') flush(); }, { passive: true });
connect();

// ---- Times ---------------------------------------------------------------------------------------------------------
function ago(at) {
  const s = Math.max(0, Math.floor((Date.now() - at) / 1000));
  if (s < 5) return words.now;
  const [shape, n] = s < 60 ? [words.s, s] : s < 3600 ? [words.m, s / 60] : s < 86400 ? [words.h, s / 3600] : [words.d, s / 86400];
  return shape.replace('{n}', Math.floor(n));
}
setInterval(() => {
  if (document.hidden) return;
  for (const one of all('[data-t]')) {
    const node = (one.matches('.since') ? one : $('.ago', one))?.firstChild, text = ago(+one.dataset.t);
    if (node && node.data !== text) node.data = text;
  }
}, 10000);

// ---- Copying -------------------------------------------------------------------------------------------------------
async function copy(button, item, what) {
  const id = item.dataset.id;
  const text = async () => {
    if (what === 'id') return id;
    if (what === 'link') return `${location.origin}/ui/x/${id}`;
    return (await (await fetch(`/ui/api/exchanges/${id}`)).json())[what] ?? '';
  };
  try {
    await navigator.clipboard.writeText(await text());
  } catch { return; }
  say(words.copied);
  if (!button || button.dataset.was) return;
  button.dataset.was = button.textContent;
  button.textContent = words.copied;
  setTimeout(() => { button.textContent = button.dataset.was; delete button.dataset.was; }, 1500);
}

document.addEventListener('click', (event) => {
  const button = event.target.closest('[data-copy]');
  if (button) copy(button, button.closest('.x'), button.dataset.copy);
  if (event.target.closest('#pill')) { const top = found().dataset.live === 'top'; flush(); if (top) { scrollTo({ top: 0 }); $('.x')?.focus({ preventScroll: true }); } }
  if (event.target.closest('#show-keys')) { $('#settings').open = false; $('#keys').showModal(); }
  if (!event.target.closest('.menu')) for (const menu of all('.menu[open]')) menu.open = false;
});

// ---- Keys ----------------------------------------------------------------------------------------------------------
const help = $('#keys'), single = $('#keys-on');
single.checked = store.get('keys') !== '0';
single.addEventListener('change', () => store.set('keys', single.checked ? '1' : '0'));

function current() {
  return document.activeElement?.closest?.('.x');
}

function move(step) {
  const items = all('.x'), here = items.indexOf(current());
  const next = items[here < 0 ? items.findIndex((item) => item.getBoundingClientRect().top > 60) : here + step];
  next?.focus({ preventScroll: true });
  next?.scrollIntoView({ block: 'nearest' });
}

const keys = {
  '/': () => { input.focus(); input.select(); },
  j: () => move(1),
  k: () => move(-1),
  o: () => { const fold = current() && $('details.answer', current()); if (fold) fold.open = !fold.open; },
  t: () => current() && $('[data-act=thread]', current())?.click(),
  y: () => current() && copy($('[data-copy=link]', current()), current(), 'link'),
  '.': () => switchButton && toggle(),
  '?': () => help.showModal(),
};

document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') {
    for (const menu of all('.menu[open]')) { menu.open = false; $('summary', menu).focus(); }
    if (document.activeElement === input) { input.blur(); }
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || help.open || !single.checked) return;
  if (event.target.closest?.('input, select, textarea, [contenteditable]')) return;
  const act = Object.hasOwn(keys, event.key) && keys[event.key];
  if (act) { event.preventDefault(); act(); }
});
