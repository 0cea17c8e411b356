/**
 * Proves that many tabs and many loads of the pages leave each other room to work, over plain HTTP, where a browser opens
 * six connections to a server, and behind the nginx of the docs: every tab can save, and every tab sees the change of another.
 */
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { expectShown, startBrowser } from '../lib/browser.ts';
import { first } from '../lib/certificates.ts';
import { startProxy } from '../lib/reverse-proxy.ts';
import { newPlace, type Place } from '../lib/server.ts';
import { lasting, useServer } from '../lib/stage.ts';

const many = 9;
const stage = useServer();
const browser = lasting<Browser>(startBrowser, (one) => one.close());
const nginx = lasting(
  () => startProxy('nginx', stage.server.url, first),
  (one) => one.close(),
);

let contexts: BrowserContext[] = [];
afterEach(async () => {
  await Promise.all(contexts.map((context) => context.close()));
  contexts = [];
});
async function newProfile(of: Browser): Promise<BrowserContext> {
  const context = await of.newContext({ reducedMotion: 'reduce', ignoreHTTPSErrors: true });
  context.setDefaultTimeout(60_000);
  await context.addInitScript({ content: 'globalThis.requestIdleCallback = () => 0;' });
  contexts.push(context);
  return context;
}

/** A tab of somebody who is signed in with this token. */
async function openTab(context: BrowserContext, token: string, url: string): Promise<Page> {
  const page = await context.newPage();
  await page.addInitScript({ content: `sessionStorage.setItem('ringfence-token', ${JSON.stringify(token)});` });
  await page.goto(url);
  return page;
}

async function rename(page: Page, name: string): Promise<void> {
  await page.getByRole('button', { name: 'Rename' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('textbox').fill(name);
  await dialog.getByRole('button', { name: 'Rename' }).click();
  await dialog.waitFor({ state: 'detached' });
}
const showsName = (page: Page, name: string): Promise<void> =>
  expectShown(page.getByRole('heading', { name, exact: true, level: 1 }));

/** Streams of these pages: nobody else follows this server. */
async function openStreams(): Promise<number> {
  const { text } = await stage.server.admin.get('/metrics');
  return Number(/^ringfence_watch_streams (\d+)$/m.exec(text)?.[1]);
}

async function hasStreams(count: number): Promise<void> {
  await expect.poll(openStreams).toBe(count);
}

let place: Place;
let path: string;
beforeAll(async () => {
  place = await newPlace(stage.server);
  const { id } = await place.owner.api.expect(201, 'POST', `${place.base}/devices`, {
    public_key: 'k',
    hostname: 'web-0',
  });
  path = `/ui/o/${place.org}/devices/${id}`;
});

const ways: readonly (readonly [string, () => string, string])[] = [
  ['over plain HTTP', () => stage.server.url, 'http/1.1'],
  ['behind the nginx of the docs', () => nginx().url, 'h2'],
];
describe.each(ways)('%s', (_, url, protocol) => {
  test('nine tabs share one stream; each can save, and all see it', async () => {
    const context = await newProfile(browser());
    const tabs: Page[] = [];
    for (let number = 0; number < many; number += 1) tabs.push(await openTab(context, place.owner.token, url() + path));
    for (const [number, tab] of tabs.entries()) {
      await expectShown(tab.getByText('Live', { exact: true }));
      await rename(tab, `${protocol} tab-${number}`);
      await Promise.all(tabs.map((other) => showsName(other, `${protocol} tab-${number}`)));
    }
    expect(await openStreams()).toBe(1);
    // Later tabs have the page from the cache, where no protocol is kept.
    const protocols = await tabs[0]?.evaluate(
      `performance.getEntriesByType('navigation').map(({ nextHopProtocol }) => nextHopProtocol)`,
    );
    expect(protocols).toEqual([protocol]);
  });

  test('nine loads in one tab leave no stream behind; the last can save, and the way back is live', async () => {
    const tab = await openTab(await newProfile(browser()), place.owner.token, url() + path);
    for (let number = 0; number < many; number += 1) {
      await expectShown(tab.getByText('Live', { exact: true }));
      await tab.goto(`${url()}${path}?load=${number}`);
    }
    await rename(tab, `${protocol} load`);
    await showsName(tab, `${protocol} load`);
    await hasStreams(1);
    await tab.goBack();
    await showsName(tab, `${protocol} load`);
    await rename(tab, `${protocol} back`);
    await showsName(tab, `${protocol} back`);
  });
});

// The browser of the tests keeps no pages for the way back and has no tab that is hidden: pages are told so as they would be.
const leaving: readonly (readonly [string, string, string])[] = [
  [
    'hidden',
    "Object.defineProperty(document, 'visibilityState', { value: 'hidden', configurable: true })",
    'visibilitychange',
  ],
  ['kept for the way back', 'null', 'pagehide'],
];
test.each(leaving)(
  'a page that is %s has no stream, and shows what it missed when it is back',
  async (why, act, event) => {
    const tab = await openTab(await newProfile(browser()), place.owner.token, stage.server.url + path);
    await expectShown(tab.getByText('Live', { exact: true }));
    await hasStreams(1);
    await tab.evaluate(`${act}; ${event === 'pagehide' ? 'window' : 'document'}.dispatchEvent(new Event('${event}'))`);
    await hasStreams(0);
    const device = path.slice(path.lastIndexOf('/') + 1);
    await place.owner.api.expect(200, 'PATCH', `${place.base}/devices/${device}`, { hostname: why });
    await tab.evaluate("delete document.visibilityState; window.dispatchEvent(new Event('pageshow'))");
    await showsName(tab, why);
    await expectShown(tab.getByText('Live', { exact: true }));
  },
);

test('tabs of nine organizations take turns: each shows what changes there, and each can save', async () => {
  const context = await newProfile(browser());
  const tabs = [];
  for (let number = 0; number < many; number += 1) {
    const { owner, org, base } = await newPlace(stage.server);
    const device = await owner.api.expect(201, 'POST', `${base}/devices`, {
      public_key: 'k',
      hostname: `of-${number}`,
    });
    const page = await openTab(context, owner.token, `${stage.server.url}/ui/o/${org}/devices/${device.id}`);
    tabs.push({ page, owner, address: `${base}/devices/${device.id}` });
  }
  for (const [number, { page, owner, address }] of tabs.entries()) {
    await showsName(page, `of-${number}`);
    await rename(page, `saved-${number}`);
    expect(await openStreams()).toBeLessThanOrEqual(3);
    await owner.api.expect(200, 'PATCH', address, { hostname: `changed-${number}` });
  }
  await Promise.all(tabs.map(({ page }, number) => showsName(page, `changed-${number}`)));
});

test('tabs of two people do not mix: each sees what its own token may see', async () => {
  const context = await newProfile(browser());
  const group = { group_name: 'of the owner', inbound_rules: [] };
  await place.owner.api.expect(201, 'POST', `/api/user/${place.org}/security_groups`, group);
  const groups = `${stage.server.url}/ui/o/${place.org}/groups`;
  const [owner, member] = [
    await openTab(context, place.owner.token, groups),
    await openTab(context, place.member.token, groups),
  ];
  await expectShown(owner.getByRole('link', { name: 'of the owner' }));
  await expectShown(member.getByRole('link', { name: 'default' }));
  expect(await member.getByRole('link', { name: 'of the owner' }).count()).toBe(0);
  await hasStreams(2);
});

test('a browser without shared workers, and one whose worker has died, follows in the page itself', async () => {
  const without = await newProfile(browser());
  await without.addInitScript({ content: 'delete globalThis.SharedWorker;' });
  const alone = await openTab(without, place.owner.token, stage.server.url + path);
  const other = await openTab(await newProfile(browser()), place.owner.token, stage.server.url + path);
  for (const page of [alone, other]) await expectShown(page.getByText('Live', { exact: true }));
  const session = await browser().newBrowserCDPSession();
  const { targetInfos } = await session.send('Target.getTargets');
  const workers = targetInfos.filter(({ type }) => type === 'shared_worker');
  expect(workers.length).toBeGreaterThan(0);
  for (const { targetId } of workers) await session.send('Target.closeTarget', { targetId });
  await rename(alone, 'without worker');
  for (const page of [alone, other]) await showsName(page, 'without worker');
});
