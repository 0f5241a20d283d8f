// Addresses, keys, copying, and texts that would like to be more than text.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { browser, live, relay, shot, until } from './rig.mjs';

let bridge, chrome;
before(async () => {
  [bridge, chrome] = [await relay(), await browser()];
  await chrome.context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: bridge.url });
});
after(async () => { await chrome?.close(); await bridge?.stop(); });

const clipboard = (page) => page.evaluate(() => navigator.clipboard.readText());
const api = async (path) => (await fetch(bridge.url + path)).json();

test('every key does what the list says', async (t) => {
  const page = await chrome.within(t, `${bridge.url}/ui`);
  await live(page);
  await page.keyboard.press('/');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'q');
  await page.keyboard.type('j');
  assert.equal(await page.inputValue('#q'), 'j');
  await page.fill('#q', '');
  await page.keyboard.press('Escape');
  const here = () => page.evaluate(() => [...document.querySelectorAll('.x')].indexOf(document.activeElement.closest('.x')));
  await until(async () => await page.locator('.x').count() === 30);
  await page.keyboard.press('j');
  assert.equal(await here(), 0);
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  await page.keyboard.press('k');
  assert.equal(await here(), 1);
  while (!await page.evaluate(() => document.activeElement.querySelector('.answer'))) await page.keyboard.press('j');
  const open = () => page.evaluate(() => document.activeElement.querySelector('.answer').open);
  const before = await open();
  await page.keyboard.press('o');
  assert.equal(await open(), !before);
  const id = await page.evaluate(() => document.activeElement.dataset.id);
  await page.keyboard.press('y');
  await until(async () => await clipboard(page) === `${bridge.url}/ui/x/${id}`);
  await page.keyboard.press('?');
  await page.waitForSelector('#keys[open]');
  await page.uncheck('#keys-on');
  await page.keyboard.press('Escape');
  const at = await here();
  await page.keyboard.press('j');
  assert.equal(await here(), at, 'keys that are off still work');
  await page.click('#settings > summary');
  await page.click('#show-keys');
  await page.check('#keys-on');
  await page.click('#keys button');
  await page.locator(`[data-id="${id}"]`).focus();
  await page.keyboard.press('t');
  await page.waitForURL(/\/ui\/c\//);
  await page.goBack();
  await page.waitForSelector('#list .x');
});

test('a link to an exchange shows it framed in its thread; question, answer and id are copied as they are', async (t) => {
  const exchange = (await api('/ui/api/search?q=pg_stat_activity')).exchanges[0];
  const page = await chrome.within(t, `${bridge.url}/ui/x/${exchange.request_id}`);
  const item = page.locator('.x.framed');
  assert.equal(await item.getAttribute('data-id'), exchange.request_id);
  assert.match(await item.locator('pre code').textContent(), /^SELECT pid/);
  for (const [what, text] of [['message', exchange.message], ['answer', exchange.answer], ['id', exchange.request_id]]) {
    await item.hover();
    await item.locator(`[data-copy=${what}]`).click();
    await until(async () => await clipboard(page) === text);
  }
  await page.click('.back a');
  await page.waitForURL(/\/ui$/);
});

test('chips, agents, outcomes and bars set and take away their filter', async (t) => {
  const page = await chrome.within(t, `${bridge.url}/ui?q=from:sre-bot%20the`);
  assert.equal(await page.locator('.chips a').first().textContent(), 'from:sre-bot×');
  await page.click('.chips a');
  assert.match(page.url(), /\?q=the$/);
  await page.goto(`${bridge.url}/ui`);
  await page.locator('.agent').first().click();
  const name = new URL(page.url()).searchParams.get('agent');
  for (const who of await page.locator('.x .who').allTextContents()) assert.ok(who.includes(name), `${who} without ${name}`);
  await page.locator('.outcomes a').first().click();
  assert.ok(new URL(page.url()).searchParams.get('status'));
  await page.goto(`${bridge.url}/ui`);
  const bars = page.locator('.chart svg a');
  const title = await bars.nth(1).locator('title').textContent();
  const [good, bad] = title.match(/\d+ (?=answered|not)/g).map(Number);
  const href = await bars.nth(1).getAttribute('href');
  await page.goto(bridge.url + href);
  assert.equal(+(await page.textContent('#total')), good + bad, title);
});

test('a hostile message is text', async (t) => {
  const hostile = '<img src=x onerror=alert(1)><script>alert(2)</script></p></article><svg onload=alert(3)> ```html\n<iframe src=javascript:alert(4)>\n``` &lt;b&gt; {{7*7}} "><a href=javascript:alert(5)>x</a>';
  const page = await chrome.within(t, `${bridge.url}/ui`);
  await live(page);
  await bridge.ask(hostile);
  await bridge.ask(hostile, '"><script>alert(6)</script>');
  await page.locator('.x', { hasText: 'onerror=alert(1)' }).first().waitFor();
  for (const path of ['/ui?q=onerror', '/ui?q=%3Cscript%3Ealert(7)%3C/script%3E&agent=%22%3E%3Cscript%3E&status=%3Cb%3E&from=%3Ci%3E', '/ui/agents', '/ui?q="><script>alert(8)</script>']) {
    await page.goto(bridge.url + path);
    await page.waitForTimeout(150);
    const planted = await page.evaluate(() => document.querySelectorAll('main script, main iframe, main img, main [onerror], main [onload], a[href^=javascript]').length);
    assert.equal(planted, 0, path);
  }
  await page.goto(`${bridge.url}/ui?q=onerror`);
  assert.ok((await page.textContent('.x')).includes('<script>alert(2)</script>'));
  await shot(page, 'hostile');
});

test('no address is an error page', async (t) => {
  for (const query of ['q=' + '('.repeat(800), 'q=%00%ff%fe', 'q=from:', 'before=zzz', 'sort=x&limit=-1', 'from=9999-99-99&to=x', 'q=' + 'é'.repeat(2000), 'q="', 'a&&=&%', 'status=' + 'x'.repeat(500)]) {
    const answer = await fetch(`${bridge.url}/ui?${query}`);
    assert.equal(answer.status, 200, query.slice(0, 40));
    assert.equal((await fetch(`${bridge.url}/ui/api/search?${query}`)).status, 200, query.slice(0, 40));
  }
  for (const path of ['/ui/c/zzz', '/ui/x/0', '/ui/nowhere', '/ui/assets/none.css.map', '/ui/export.exe']) assert.equal((await fetch(bridge.url + path)).status, 404, path);
});

test('the policy is strict, and files are kept by their names', async (t) => {
  const answer = await fetch(`${bridge.url}/ui`);
  const html = await answer.text();
  assert.equal(answer.headers.get('content-security-policy'), "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'");
  assert.equal(answer.headers.get('x-content-type-options'), 'nosniff');
  for (const inline of [/<script(?![^>]* src=)/, /<[^>]* style="/, /<[a-z][^>"]* on[a-z]+="/]) assert.ok(!inline.test(html), `${inline}: ${html.match(inline)?.[0]}`);
  for (const [, file] of html.matchAll(/(?:href|src)="(\/ui\/assets\/[^"]+)"/g)) {
    const got = await fetch(bridge.url + file);
    assert.match(got.headers.get('cache-control'), /immutable/);
    assert.equal((await fetch(bridge.url + file, { headers: { 'if-none-match': got.headers.get('etag') } })).status, 304);
  }
});

test('an export is exactly what the address shows, whole', async (t) => {
  const { total } = await api('/ui/api/search?status=ok');
  const json = await api('/ui/export.json?status=ok');
  assert.equal(json.length, total);
  const lines = (await (await fetch(`${bridge.url}/ui/export.ndjson?status=ok`)).text()).trim().split('\n').map((line) => JSON.parse(line));
  assert.deepEqual(lines, json);
  const csv = await (await fetch(`${bridge.url}/ui/export.csv?status=ok`)).text();
  assert.ok(csv.startsWith('request_id,') && csv.split('\r\n').length === total + 2);
  assert.equal(new Set(json.map((e) => e.request_id)).size, total);
});

test('pages follow each other without gap or repeat', async (t) => {
  const seen = new Set();
  let before = '', total;
  do {
    const page = await api(`/ui/api/search?q=the&before=${before}`);
    page.exchanges.forEach((e) => { assert.ok(!seen.has(e.request_id)); seen.add(e.request_id); });
    ({ total, next_before: before } = page);
  } while (before);
  assert.equal(seen.size, total);
  const agents = (await api('/ui/api/agents')).agents;
  assert.ok(agents.some((a) => a.p50_ms > 0 && a.statuses.ok > 0));
  const one = await api(`/ui/api/exchanges/${[...seen][0]}`);
  assert.ok((await api(`/ui/api/conversations/${one.conversation_id}`)).exchanges.some((e) => e.request_id === one.request_id));
});

test('the console has nothing to complain of', () => assert.deepEqual(chrome.complaints.filter((c) => !c.includes('404')), []));
