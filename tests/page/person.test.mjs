// A person takes part at the page: asks, answers, cancels, pauses; with scripts and without; and what is noted of it.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { axe, browser, guarded, live, shot, until } from './rig.mjs';

let bridge, chrome;
before(async () => {
  [bridge, chrome] = [await guarded(), await browser()];
  const page = await chrome.open(bridge.link);
  await page.waitForURL(`${bridge.url}/ui`);
  await page.close();
});
after(async () => { await chrome?.close(); await bridge?.stop(); });

const SIZES = { desktop: {}, dark: { dark: true }, phone: { width: 390, height: 844 }, small: { width: 320, height: 640, dark: true } };
const hostile = '<img src=x onerror=alert(1)><script>alert(2)</script>';

test('a question, an answer in the bot\'s place, a cancelled one, a pause: each by its form', async (t) => {
  const stop = bridge.bob('sleep 600');
  t.after(stop);
  const page = await chrome.within(t, `${bridge.url}/ui/agents`);
  await until(async () => { await page.reload(); return (await page.locator('.card', { hasText: 'bob' }).textContent()).includes('online'); });
  await page.locator('.card', { hasText: 'bob' }).locator('.acts a').click();
  await page.waitForSelector('form.act');
  assert.deepEqual(await axe(page), []);
  await page.selectOption('#to', 'bob');
  await page.fill('textarea', `what is this? ${hostile}`);
  await page.click('form.act button.main');
  await page.waitForURL(/\/ui\/x\//);
  await live(page);
  const first = page.url();
  await page.locator('details.step-in > summary').click();
  assert.deepEqual(await axe(page), []);
  await shot(page, 'step-in');
  await page.locator('details.step-in textarea').fill(`a person says ${hostile}`);
  await page.locator('details.step-in button.main').click();
  await page.waitForSelector('text=by owner, a person');
  assert.equal(page.url(), first);
  await page.locator('section.step-in textarea').fill('and this one is called off');
  await page.locator('section.step-in button.main').click();
  await page.waitForSelector('details.step-in');
  await page.locator('details.step-in > summary').click();
  await page.locator('details.step-in .danger').click();
  await page.waitForSelector('.badge >> text=cancelled');
  await page.goto(`${bridge.url}/ui/agents`);
  await page.locator('.card', { hasText: 'bob' }).locator('button', { hasText: 'Pause' }).click();
  await page.waitForSelector('.paused');
  await page.selectOption('.pair select[name=one]', 'alice');
  await page.selectOption('.pair select[name=other]', 'bob');
  await page.click('.pair button');
  await page.waitForSelector('.pairs >> text=alice ⇄ bob');
  for (const [size, options] of Object.entries(SIZES)) {
    const at = await chrome.within(t, `${bridge.url}/ui/agents`, options);
    await live(at);
    await shot(at, `agents-acts-${size}`);
    assert.deepEqual(await axe(at), []);
    assert.ok(await at.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'it scrolls sideways');
    await at.close();
  }
  await page.locator('.card', { hasText: 'bob' }).locator('button', { hasText: 'Resume' }).click();
  await until(async () => await page.locator('.paused').count() === 0);
});

for (const [size, options] of Object.entries(SIZES)) {
  test(`the security log is plain text, axe finds nothing and nothing scrolls sideways: ${size}`, async (t) => {
    await fetch(`${bridge.url}/mcp`, { headers: { authorization: `Bearer ${hostile}` } });
    await bridge.ask(hostile, 'alice');
    for (const path of ['/ui/security', '/ui/security?kind=person', '/ui/security?kind=%3Cscript%3E', '/ui/security?before=1', '/ui/ask?to=%22%3E%3Cscript%3E']) {
      const page = await chrome.within(t, bridge.url + path, options);
      if (path === '/ui/security') await shot(page, `security-${size}`);
      assert.equal(await page.evaluate(() => document.querySelectorAll('main script, main iframe, main img, main [onerror]').length), 0, path);
      assert.deepEqual(await axe(page), []);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${path} scrolls sideways`);
      await page.close();
    }
  });
}

test('no form of an action is obeyed without its token', async (t) => {
  const page = await chrome.within(t, `${bridge.url}/ui/agents`);
  for (const what of ['ask', 'answer', 'cancel', 'pause', 'resume']) {
    const status = await page.evaluate(async (what) => (await fetch(`/ui/act/${what}`, { method: 'POST', body: new URLSearchParams({ one: 'bob', to: 'bob', message: 'm', id: '0', form: 'x' }) })).status, what);
    assert.equal(status, 403, what);
  }
});

test('without scripts a person acts as well', async (t) => {
  const plain = await browser({ javaScriptEnabled: false });
  try {
    const page = await plain.open(`${bridge.url}/ui/login?back=%2Fui%2Fask`);
    await page.fill('#token', bridge.token);
    await page.click('.login button');
    await page.waitForURL(/\/ui\/ask/);
    await page.selectOption('#to', 'bob');
    await page.fill('textarea', 'no scripts here');
    await page.check('input[name=queue]');
    await page.click('form.act button.main');
    await page.waitForURL(/\/ui\/x\//);
    assert.match(await page.textContent('main'), /no scripts here/);
  } finally { await plain.close(); }
});

test('the console has nothing to complain of', () => {
  assert.deepEqual(chrome.complaints.filter((c) => !c.includes('403')), []);
});
