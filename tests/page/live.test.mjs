// It stays still under the hand: typing, focus, selection and scroll position survive whatever arrives.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { browser, live, relay, shot, until } from './rig.mjs';

let bridge, chrome;
before(async () => { [bridge, chrome] = [await relay(), await browser()]; });
after(async () => { await chrome?.close(); await bridge?.stop(); });

const total = (page) => page.textContent('#total');

test('typing letter by letter keeps the focus, and the address and the list follow', async (t) => {
  const page = await chrome.within(t, `${bridge.url}/ui`);
  await live(page);
  await page.click('#q');
  await page.keyboard.type('etape', { delay: 60 });
  await page.waitForSelector('.text mark');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'q');
  assert.equal(await page.inputValue('#q'), 'etape');
  assert.match(page.url(), /\?q=etape$/);
  await until(async () => /^\d+ exchanges?$/.test(await page.textContent('#say')));
  await page.goBack();
  await until(async () => await page.inputValue('#q') === '' && await page.locator('mark').count() === 0);
  await page.goForward();
  await until(async () => await page.inputValue('#q') === 'etape' && await page.locator('mark').count() > 0);
  await page.reload();
  assert.equal(await page.inputValue('#q'), 'etape');
});

test('a late older answer never replaces a newer one', async (t) => {
  const page = await chrome.within(t, `${bridge.url}/ui`);
  await page.route(/\?q=deploy$/, async (route) => {
    const answer = await route.fetch();
    await new Promise((next) => setTimeout(next, 1200));
    await route.fulfill({ response: answer }).catch(() => {});
  });
  await page.click('#q');
  await page.keyboard.type('deploy');
  await page.waitForTimeout(250);
  await page.fill('#q', 'sensor zzzz');
  await page.fill('#q', '仓库');
  await until(async () => await page.locator('mark').first().textContent().catch(() => '') === '仓库');
  await page.waitForTimeout(1500);
  assert.equal(await page.locator('mark').first().textContent(), '仓库');
});

test('at the top a new exchange slides in, ends in place, and keeps its fold', async (t) => {
  const page = await chrome.within(t, `${bridge.url}/ui`);
  await live(page);
  const before = +(await total(page));
  const over = bridge.ask('please slide in');
  const item = page.locator('.x', { hasText: 'please slide in' });
  await item.waitFor();
  await item.locator('.pending').waitFor();
  await shot(page, 'live-pending');
  assert.equal(+(await total(page)), before + 1);
  await item.focus();
  await over;
  await item.locator('details.answer').waitFor();
  assert.equal(await item.locator('.pending').count(), 0);
  assert.ok(await page.evaluate(() => document.activeElement.matches('.x')), 'focus moved');
  await item.locator('.answer > summary').click();
  assert.ok(await item.locator('.answer').getAttribute('open') !== null);
});

test('scrolled down nothing moves: a pill counts, focus and selection stay', async (t) => {
  const page = await chrome.within(t, `${bridge.url}/ui`);
  await live(page);
  await page.evaluate(() => scrollTo(0, 900));
  const still = await page.evaluate(() => {
    const item = [...document.querySelectorAll('.x')].find((x) => x.getBoundingClientRect().top > 150);
    item.querySelector('summary, a').focus({ preventScroll: true });
    const range = document.createRange();
    range.selectNodeContents(item.querySelector('.text p'));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    window.watched = [item, document.activeElement];
    return { y: scrollY, top: item.getBoundingClientRect().top, text: String(getSelection()) };
  });
  const first = await page.locator('.x').first().getAttribute('id');
  await Promise.all([bridge.ask('unseen one'), bridge.ask('unseen two', 'release-bot'), bridge.ask('unseen three', 'compta-bot')]);
  await until(async () => /3 new/.test(await page.textContent('#pill')));
  await shot(page, 'live-pill');
  const now = await page.evaluate(() => ({
    y: scrollY, top: window.watched[0].getBoundingClientRect().top, text: String(getSelection()), focus: document.activeElement === window.watched[1],
  }));
  assert.deepEqual(now, { ...still, focus: true });
  assert.equal(await page.locator('.x').first().getAttribute('id'), first);
  await page.click('#pill');
  await page.waitForFunction(() => scrollY === 0);
  // The answers may still be on their way to the page.
  for (const text of ['unseen one', 'unseen two', 'unseen three']) await until(async () => await page.locator('.x', { hasText: `Noted: ${text}` }).count() === 1);
  assert.ok(!await page.locator('#pill').isVisible());
});

test('a filtered list is told of what it would find, and of nothing else', async (t) => {
  const page = await chrome.within(t, `${bridge.url}/ui?q=xylophone`);
  await live(page);
  await bridge.ask('nothing of interest');
  await bridge.ask('a xylophone was delivered');
  await page.waitForSelector('.x >> text=xylophone');
  await page.waitForTimeout(600);
  assert.equal(await page.locator('.x').count(), 1);
});

test('paused nothing arrives; resumed nothing is missing', async (t) => {
  const page = await chrome.within(t, `${bridge.url}/ui`);
  await live(page);
  await page.keyboard.press('.');
  assert.equal(await page.textContent('#live span:last-child'), 'Paused');
  await bridge.ask('said while paused');
  await page.waitForTimeout(500);
  assert.equal(await page.locator('.x', { hasText: 'said while paused' }).count(), 0);
  await page.keyboard.press('.');
  await page.locator('.x', { hasText: 'Noted: said while paused' }).waitFor();
});

test('a thread grows at its end', async (t) => {
  await bridge.ask('a thread begins');
  const search = async () => (await (await fetch(`${bridge.url}/ui/api/search?q="a thread begins"`)).json()).exchanges[0];
  const exchange = await until(search);
  const page = await chrome.within(t, `${bridge.url}/ui/x/${exchange.request_id}`);
  await live(page);
  assert.equal(await page.locator('.x.framed').count(), 1);
  assert.equal(await page.locator('.x').count(), 1);
});

test('more windows than a browser has connections do not block each other', async (t) => {
  const pages = [];
  for (let n = 0; n < 9; n += 1) pages.push(await chrome.within(t, `${bridge.url}/ui`));
  await until(async () => (await Promise.all(pages.map((p) => p.getAttribute('#live', 'data-state')))).filter((s) => s === 'live').length === 4);
  for (const page of pages.slice(0, 4)) await page.goto('about:blank');
  await until(async () => (await Promise.all(pages.slice(4).map((p) => p.getAttribute('#live', 'data-state')))).filter((s) => s === 'live').length === 4);
});

test('an idle page costs less than a kilobyte a minute', async (t) => {
  const page = await chrome.within(t, `${bridge.url}/ui`);
  await live(page);
  const session = await page.context().newCDPSession(page);
  await session.send('Network.enable');
  let bytes = 0, requests = 0;
  session.on('Network.dataReceived', (event) => { bytes += event.encodedDataLength || event.dataLength; });
  session.on('Network.requestWillBeSent', () => { requests += 1; });
  await page.waitForTimeout(61_000);
  assert.ok(bytes < 1000 && requests === 0, `${bytes} bytes, ${requests} requests`);
  console.log(`# idle: ${bytes} bytes a minute`);
});

test('the console has nothing to complain of', () => assert.deepEqual(chrome.complaints, []));
