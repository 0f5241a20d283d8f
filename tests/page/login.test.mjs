// The login: the link's fragment, the pasted token, who may do what, and what no other site can make a browser do.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { axe, browser, guarded, live, shot, until } from './rig.mjs';

let bridge, chrome;
before(async () => { [bridge, chrome] = [await guarded(), await browser()]; });
after(async () => { await chrome?.close(); await bridge?.stop(); });

const fresh = async (t) => { await chrome.context.clearCookies(); return chrome.within(t, bridge.link); };
const SIZES = { desktop: {}, dark: { dark: true }, phone: { width: 390, height: 844 }, small: { width: 320, height: 640, dark: true } };

for (const [size, options] of Object.entries(SIZES)) {
  test(`axe finds nothing on the login: ${size}`, async (t) => {
    await chrome.context.clearCookies();
    const page = await chrome.within(t, `${bridge.url}/ui/agents`, options);
    await page.waitForURL(/again=1/);
    await shot(page, `login-${size}`);
    assert.deepEqual(await axe(page), []);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'it scrolls sideways');
  });
}

test('the link logs in, and its secret stands neither in the address nor in the history', async (t) => {
  const page = await fresh(t);
  await page.waitForURL(`${bridge.url}/ui`);
  await live(page);
  const [cookie] = (await chrome.context.cookies()).filter((c) => c.name.startsWith('hb_session'));
  assert.deepEqual([cookie.httpOnly, cookie.sameSite, cookie.path, cookie.secure], [true, 'Strict', '/ui', false]);
  assert.ok(!(await page.evaluate(() => document.cookie)).includes('hb_session'));
  await page.goBack();
  assert.ok(!page.url().includes(bridge.token), page.url());
});

test('a page asked for without a login is shown after it', async (t) => {
  await chrome.context.clearCookies();
  const page = await chrome.within(t, `${bridge.url}/ui?q=status%3Aok`);
  await page.waitForURL(/again=1/);
  await page.fill('#token', 'hbo_wrong');
  await page.keyboard.press('Enter');
  await page.waitForSelector('[role=alert]');
  await page.fill('#token', bridge.token);
  await page.keyboard.press('Enter');
  await page.waitForURL(`${bridge.url}/ui?q=status%3Aok`);
});

test('whoever is logged in and comes by a link on another site sees the page at once', async (t) => {
  const page = await fresh(t);
  await page.waitForURL(`${bridge.url}/ui`);
  await page.goto(`data:text/html,<a href="${bridge.url}/ui/agents">x</a>`);
  await page.click('a');
  await page.waitForURL(`${bridge.url}/ui/agents`);
});

test('a logout is one, in every window', async (t) => {
  const page = await fresh(t);
  await page.waitForURL(`${bridge.url}/ui`);
  await page.click('#settings > summary');
  await shot(page, 'settings-owner');
  await page.click('form[action="/ui/logout"] button');
  await page.waitForURL(/login/);
  await page.goto(`${bridge.url}/ui`);
  assert.match(page.url(), /login/);
});

test('a form without its token does nothing, and another site cannot send one', async (t) => {
  const page = await fresh(t);
  await page.waitForURL(`${bridge.url}/ui`);
  const send = (path, body) => page.evaluate(async ([path, body]) => (await fetch(path, { method: 'POST', body: new URLSearchParams(body) })).status, [path, body]);
  const actions = ['/ui/settings', '/ui/logout'];
  for (const path of actions) for (const body of [{}, { form: '' }, { form: 'x'.repeat(64) }]) assert.equal(await send(path, body), 403, path);
  const answer = page.waitForResponse((r) => r.url().endsWith('/ui/settings'));
  await page.evaluate((url) => {
    const frame = document.createElement('form');
    frame.method = 'post'; frame.action = url;
    document.body.append(frame);
    frame.submit();
  }, `${bridge.url}/ui/settings`);
  assert.equal((await answer).status(), 403);
  const foreign = await browser();
  try {
    const evil = await foreign.open('data:text/html,<form method=post></form>');
    const sent = evil.waitForResponse((r) => r.url().endsWith('/ui/login'));
    await evil.evaluate(([url, token]) => { const f = document.forms[0]; f.action = url; f.innerHTML = `<input name=token value=${token}>`; f.submit(); }, [`${bridge.url}/ui/login`, bridge.token]);
    assert.equal((await sent).status(), 403);
  } finally { await foreign.close(); }
});

test('a viewer reads, is named, and is out when the token is taken back', async (t) => {
  await chrome.context.clearCookies();
  const [link] = (await bridge.command('ui-token', '--viewer', 'claire')).match(/http:\S+#\S+/);
  const page = await chrome.within(t, `${bridge.url}/ui/login#${new URL(link).hash.slice(1)}`);
  await page.waitForURL(`${bridge.url}/ui`);
  await live(page);
  await page.click('#settings > summary');
  assert.match(await page.textContent('form[action="/ui/logout"]'), /claire/);
  await bridge.command('ui-token', '--revoke', 'claire');
  await page.goto(`${bridge.url}/ui/agents`);
  assert.match(page.url(), /login/);
});

test('without scripts the token is pasted', async (t) => {
  const plain = await browser({ javaScriptEnabled: false });
  try {
    const page = await plain.open(`${bridge.url}/ui`);
    await page.fill('#token', bridge.token);
    await page.click('.login button');
    await page.waitForURL(`${bridge.url}/ui`);
    await page.click('#settings > summary');
    await page.click('form[action="/ui/logout"] button');
    await page.waitForURL(/login/);
  } finally { await plain.close(); }
});

test('an open page that lost its login leads to the login', async (t) => {
  const page = await fresh(t);
  await page.waitForURL(`${bridge.url}/ui`);
  await live(page);
  await chrome.context.clearCookies();
  await page.fill('#q', 'anything');
  await page.waitForURL(/login\?back=/);
});

test('after ten wrong tokens the next waits, the right one too', async (t) => {
  await chrome.context.clearCookies();
  const page = await chrome.within(t, `${bridge.url}/ui/login?again=1`);
  const wrong = () => page.evaluate(async () => (await fetch('/ui/login', { method: 'POST', body: new URLSearchParams({ token: 'wrong' }) })).status);
  // A minute may begin anew in between.
  const statuses = [];
  while (statuses.at(-1) !== 429) statuses.push(await wrong());
  assert.ok(statuses.length <= 22, `${statuses}`);
  await page.fill('#token', bridge.token);
  await page.click('.login button');
  await page.waitForSelector('[role=alert] >> text=/\\d+ s/');
  await shot(page, 'login-throttled');
  assert.deepEqual(await axe(page), []);
});
