// What the page's tests stand on: a demo relay on a free port, a browser, and bots that ask when a test says so.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const require = createRequire(path.join(process.env.HERMES_BRIDGE_TEST_CACHE, 'package.json'));
const { chromium } = require('playwright-core');
const { ws: WebSocket } = require('playwright-core/lib/utilsBundle');
export const axeSource = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const bin = process.env.HERMES_BRIDGE_BIN;

const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];

/** A child with its output, ended with the test. */
function child(args, env = {}) {
  const running = spawn(bin, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...env } });
  running.text = '';
  for (const stream of [running.stdout, running.stderr]) stream.on('data', (chunk) => { running.text += chunk; });
  return running;
}

async function until(what, ms = 15000) {
  const end = Date.now() + ms;
  for (;;) {
    const found = await what();
    if (found) return found;
    if (Date.now() > end) throw new Error(`not within ${ms} ms: ${what}`);
    await new Promise((next) => setTimeout(next, 30));
  }
}
export { until };

/** A relay with a past and bots that answer, silent until asked. */
export async function relay({ exchanges = 320 } = {}) {
  const running = child(['demo', '--listen', '127.0.0.1:0', '--exchanges', String(exchanges), '--every', '0']);
  const [, url] = await until(() => running.text.match(/listening on (\S+)/));
  const [, token] = await until(() => running.text.match(/--token (\S+)/));
  await until(async () => (await fetch(`${url}/ready`)).ok);
  const indexed = async () => (await (await fetch(`${url}/ui/api/search?q=deploy`)).json()).total > 0;
  if (exchanges) await until(indexed);
  return {
    url,
    /** Asks as the demo's first bot; resolves when it is over. */
    ask: (message, to = 'sre-bot') => new Promise((done) => child(['ask', '--url', url, '--token', token, '--to', to, '--', message]).on('exit', done)),
    stop: () => new Promise((done) => { running.on('exit', done); running.kill('SIGTERM'); }),
  };
}

/** A relay as its owner starts it: empty, with a login, in a directory of its own. */
export async function guarded() {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'hermes-bridge-login-'));
  fs.writeFileSync(path.join(dir, 'bridge.toml'), 'listen = "127.0.0.1:0"\n[[agents]]\nname = "alice"\ntoken = "tok-alice-0123456789"\n[[agents]]\nname = "bob"\ntoken = "tok-bob-0123456789"\n');
  const config = ['--config', path.join(dir, 'bridge.toml')];
  const running = child(config);
  const [link] = await until(() => running.text.match(/http:\S+#\S+/));
  const command = (...args) => new Promise((done) => { const ran = child([...args, ...config]); ran.on('close', () => done(ran.text)); });
  return {
    link,
    url: new URL(link).origin,
    token: new URL(link).hash.slice(1),
    command,
    /** Asks as alice; resolves when it is over. */
    ask: (message, to = 'bob') => command('ask', '--as', 'alice', '--to', to, message),
    /** A bot named bob that answers with what `exec` prints. */
    bob: (exec) => { const bot = child(['listen', '--as', 'bob', '--exec', exec, ...config]); return () => bot.kill('SIGTERM'); },
    /** bob, frame by frame: what it says of itself, and a reply to each question when the test wants it. */
    socket: async (adapter) => {
      const socket = new WebSocket(`${new URL(link).origin.replace('http', 'ws')}/bridge/connect`, { headers: { authorization: 'Bearer tok-bob-0123456789' } });
      const frames = [];
      socket.on('message', (frame) => frames.push(JSON.parse(frame)));
      await new Promise((open, lost) => { socket.on('open', open); socket.on('error', lost); });
      const say = (frame) => socket.send(JSON.stringify(frame));
      say({ type: 'hello', adapter, instance: 'one', features: [] });
      return {
        wake: (message) => until(() => frames.find((frame) => frame.type === 'wake' && frame.message === message)),
        reply: async ({ request_id }, said) => {
          say({ type: 'call', id: request_id, tool: 'reply', arguments: { request_id, ...said } });
          return (await until(() => frames.find((frame) => frame.type === 'result' && frame.id === request_id))).result;
        },
        close: () => socket.close(),
      };
    },
    stop: () => new Promise((done) => { running.on('exit', () => { fs.rmSync(dir, { recursive: true, force: true }); done(); }); running.kill('SIGTERM'); }),
  };
}

/** A browser with a profile of its own. Every page's console and errors are collected in `complaints`. */
export async function browser(options = {}) {
  const profile = fs.mkdtempSync(path.join(os.tmpdir(), 'hermes-bridge-page-'));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: '/usr/bin/chromium', headless: true, args: FLAGS, viewport: { width: 1280, height: 900 }, locale: 'en-GB', ...options,
  });
  const complaints = [];
  const watch = (page) => {
    page.on('console', (message) => { if (['error', 'warning'].includes(message.type())) complaints.push(message.text()); });
    page.on('pageerror', (error) => complaints.push(error.message));
    page.on('dialog', (dialog) => { complaints.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  };
  context.pages().forEach(watch);
  context.on('page', watch);
  return {
    context,
    complaints,
    open: async (url, { width = 1280, height = 900, dark = false } = {}) => {
      const page = await context.newPage();
      await page.setViewportSize({ width, height });
      await page.emulateMedia({ colorScheme: dark ? 'dark' : 'light', reducedMotion: 'reduce' });
      await page.goto(url);
      return page;
    },
    /** The same, closed with the test whatever becomes of it. */
    async within(t, url, options) {
      const page = await this.open(url, options);
      t.after(() => page.close());
      return page;
    },
    close: async () => { await context.close(); fs.rmSync(profile, { recursive: true, force: true, maxRetries: 5 }); },
  };
}

export const live = (page) => page.waitForFunction(() => document.querySelector('#live')?.dataset.state === 'live');

/** What axe finds, as lines. */
export async function axe(page, { all = false } = {}) {
  // The page's policy forbids scripts from elsewhere; this one comes through the debugger.
  await page.evaluate(axeSource);
  const { violations } = await page.evaluate(() => window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }));
  return violations.flatMap((v) => v.nodes.slice(0, all ? 1000 : 2).map((n) => `${v.id} (${v.nodes.length}): ${n.target.join(' ')} (${n.any[0]?.message ?? v.help})`));
}

export async function shot(page, name) {
  if (process.env.SHOTS) await page.screenshot({ path: path.join(process.env.SHOTS, `${name}.png`) });
}
