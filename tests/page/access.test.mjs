// Everybody can use it: axe finds nothing on any page at any size, nothing scrolls sideways, all of it works without scripts.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { axe, browser, live, relay, shot, until } from './rig.mjs';

let bridge, chrome, empty;
before(async () => { [bridge, empty, chrome] = [await relay(), await relay({ exchanges: 0 }), await browser()]; });
after(async () => { await chrome?.close(); await bridge?.stop(); await empty?.stop(); });

const first = async (query) => (await (await fetch(`${bridge.url}/ui/api/search?q=${query}`)).json()).exchanges[0];
const PLACES = {
  list: () => '/ui',
  search: () => '/ui?q=etape&sort=best',
  filtered: () => '/ui?q=from%3Asre-bot+deploy&status=ok&from=2020-01-01',
  nothing: () => '/ui?q=zzzzqqqq',
  thread: async () => `/ui/x/${(await first('status:ok')).request_id}`,
  failed: () => '/ui?status=timeout',
  agents: () => '/ui/agents',
  gone: () => '/ui/x/nowhere',
};
const SIZES = { desktop: {}, dark: { dark: true }, phone: { width: 390, height: 844 }, small: { width: 320, height: 640, dark: true } };

for (const [place, at] of Object.entries(PLACES)) {
  for (const [size, options] of Object.entries(SIZES)) {
    test(`axe finds nothing and nothing scrolls sideways: ${place}, ${size}`, async (t) => {
      const page = await chrome.within(t, bridge.url + await at(), options);
      if (place !== 'gone') await live(page);
      await shot(page, `${place}-${size}`);
      assert.deepEqual(await axe(page), []);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'it scrolls sideways');
      });
  }
}

test('axe finds nothing in the dialog, the settings, the open filters and an open table, in four languages', async (t) => {
  for (const lang of ['en', 'fr', 'es', 'zh']) {
    await chrome.context.addCookies([{ name: 'hb_lang', value: lang, url: `${bridge.url}/ui` }]);
    const page = await chrome.within(t, `${bridge.url}/ui`, { width: 320, height: 700 });
    assert.equal(await page.getAttribute('html', 'lang'), lang);
    for (const open of ['.filters > summary', '.chart summary', '#settings > summary']) await page.click(open);
    await shot(page, `open-${lang}`);
    assert.deepEqual(await axe(page), []);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${lang} scrolls sideways`);
    await page.keyboard.press('Escape');
    await page.keyboard.press('?');
    await page.waitForSelector('#keys[open]');
    assert.deepEqual(await axe(page), []);
  }
  await chrome.context.clearCookies();
});

test('a first run says how to connect a bot, and the first question appears by itself', async (t) => {
  for (const [name, options] of Object.entries(SIZES)) {
    const page = await chrome.within(t, `${empty.url}/ui`, options);
    assert.match(await page.textContent('main'), /HERMES_BRIDGE_RELAY_URL=ws:\/\/127\.0\.0\.1/);
    await shot(page, `first-${name}`);
    assert.deepEqual(await axe(page), []);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
    // Only so many windows are live at once.
    await page.close();
  }
  const page = await chrome.within(t, `${empty.url}/ui`);
  await live(page);
  await empty.ask('the very first question');
  await page.waitForSelector('.x >> text=the very first question');
});

test('without scripts everything is there but live updates, keys and copying', async (t) => {
  const plain = await browser({ javaScriptEnabled: false });
  try {
    const page = await plain.open(`${bridge.url}/ui`);
    await page.fill('#q', 'etape');
    await page.click('#search button');
    assert.match(page.url(), /q=etape/);
    assert.ok(await page.locator('mark').count() > 0);
    assert.ok(!await page.locator('[data-copy]').first().isVisible() && !await page.locator('#live').isVisible());
    await shot(page, 'noscript');
    await page.locator('details.answer').first().locator('summary').click();
    await page.locator('.chart a').first().getAttribute('href');
    await page.click('#settings > summary');
    await page.click('button[value=fr]');
    await until(async () => await page.getAttribute('html', 'lang') === 'fr');
    assert.match(page.url(), /q=etape/);
    await page.click('#settings > summary');
    await page.click('button[value=dark]');
    await until(async () => await page.getAttribute('html', 'data-theme') === 'dark');
    await page.goto(`${bridge.url}/ui`);
    await page.click('a[rel=next]');
    assert.match(page.url(), /before=/);
    assert.equal(await page.locator('.x').count(), 30);
    await page.locator('[data-act=thread]').first().click();
    assert.match(page.url(), /\/ui\/c\//);
  } finally {
    await plain.close();
  }
});

test('the console has nothing to complain of', async (t) => {
  // A page that is not there is a 404 and the browser says so.
  assert.deepEqual(chrome.complaints.filter((c) => !c.includes('404')), []);
});
