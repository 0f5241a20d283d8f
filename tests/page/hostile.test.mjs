// Texts that would like to be more than text, in every place where a bot can put one: what it says of itself, its question, its
// answer, why it failed, and an answer that comes late. Each is shown whole on every page that has it, and is nothing but text.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { browser, guarded, live, until } from './rig.mjs';

let bridge, chrome;
before(async () => {
  [bridge, chrome] = [await guarded(), await browser()];
  const page = await chrome.open(bridge.link);
  await page.waitForURL(`${bridge.url}/ui`);
  await page.close();
});
after(async () => { await chrome?.close(); await bridge?.stop(); });

const hostile = (of) => `<img src=x onerror=alert("${of}")><script>alert("${of}")</script><svg onload=alert(1)></p></article>"><a href=javascript:alert(2)>${of}</a>`;
const planted = (page) => page.evaluate(() => document.querySelectorAll('main script, main iframe, main img, main svg[onload], main [onerror], a[href^=javascript]').length);

test('what a bot says in any place is text, and a late answer is shown as late', async (t) => {
  const bot = await bridge.socket(hostile('adapter'));
  t.after(() => bot.close());
  const ended = {};
  for (const [of, said] of [['answer', { answer: hostile('answer') }], ['failure', { error: 'failed', detail: hostile('failure') }]]) {
    const asking = bridge.ask(hostile(`question of ${of}`));
    const wake = await bot.wake(hostile(`question of ${of}`));
    assert.deepEqual(await bot.reply(wake, said), { ok: true });
    await asking;
    ended[of] = wake;
  }
  const asking = bridge.ask(hostile('question of late'));
  ended.late = await bot.wake(hostile('question of late'));
  const page = await chrome.within(t, `${bridge.url}/ui/x/${ended.late.request_id}`);
  await live(page);
  await page.locator('details.step-in > summary').click();
  await page.locator('details.step-in .danger').click();
  await page.waitForSelector('.badge >> text=cancelled');
  await asking;
  assert.equal(await page.locator('.badge[data-k=late]').count(), 0);
  assert.deepEqual(await bot.reply(ended.late, { answer: hostile('late answer') }), { ok: true, late: true });

  // It is live: the badge comes by itself.
  await page.waitForSelector('.x.framed .badge[data-k=late]');
  assert.match(await page.textContent('.x.framed .badge[data-k=late]'), /late/);
  const shown = { answer: ['question of answer', 'answer'], failure: ['question of failure', 'failure'], late: ['question of late', 'late answer'] };
  for (const [of, texts] of Object.entries(shown)) {
    for (const path of [`/ui/x/${ended[of].request_id}`, `/ui/c/${ended[of].conversation_id}`, '/ui']) {
      await page.goto(bridge.url + path);
      const item = page.locator(`.x[data-id="${ended[of].request_id}"]`);
      const text = await item.textContent();
      for (const part of texts) assert.ok(text.includes(hostile(part)), `${path} shows ${part}: ${text}`);
      assert.equal(await item.locator('.badge[data-k=late]').count(), of === 'late' ? 1 : 0, path);
      assert.equal(await planted(page), 0, path);
    }
  }
  await until(async () => { await page.goto(`${bridge.url}/ui?q=onerror`); return await page.locator('.x').count() === 3; });
  assert.equal(await planted(page), 0, 'what is found');
  await page.goto(`${bridge.url}/ui/agents`);
  assert.ok((await page.locator('.card', { hasText: 'bob' }).textContent()).includes(hostile('adapter')));
  for (const path of ['/ui/agents', '/ui/security', '/ui/ask']) {
    await page.goto(bridge.url + path);
    assert.equal(await planted(page), 0, path);
  }
});

test('the console has nothing to complain of', () => assert.deepEqual(chrome.complaints, []));
