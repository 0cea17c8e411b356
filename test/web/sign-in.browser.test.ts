/** Proves the sign-in at an identity provider in a real browser: in, on through an ended session without losing edits, and out. */
import { asServer } from '../../src/server/store/data/actor.ts';
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { expectShown, startBrowser, visit, type Visit, type VisitOptions } from '../lib/browser.ts';
import { startProvider, type TestProvider } from '../lib/provider.ts';
import { newPlace, startPostgres, startTestServer, type TestPostgres, type TestServer } from '../lib/server.ts';

let provider: TestProvider;
let postgres: TestPostgres;
let server: TestServer;
let browser: Browser;
let visits: Visit[] = [];

beforeAll(async () => {
  [provider, postgres] = await Promise.all([startProvider(), startPostgres()]);
  // A public client: PKCE alone holds the code to this server.
  server = await startTestServer(postgres, {
    oidcIssuer: [provider.issuer],
    oidcClientId: 'web',
    oidcName: 'Example ID',
  });
  provider.serveWeb(server.url, { isPublic: true });
  browser = await startBrowser();
});
afterEach(async () => {
  const complaints = visits.flatMap((one) => one.complaints);
  await Promise.all(visits.map((one) => one.close()));
  visits = [];
  expect(complaints).toEqual([]);
});
afterAll(async () => {
  await browser?.close();
  await server?.close();
  await postgres?.stop();
  await provider?.stop();
});

async function open(options: VisitOptions = {}): Promise<Visit> {
  const one = await visit(browser, server.url, options);
  visits.push(one);
  return one;
}

async function signInAtProvider(page: Page, login: string): Promise<void> {
  // The page is at rest then: what is asked for while a route is set may never be answered.
  await expectShown(page.getByRole('link', { name: 'Sign in with Example ID' }));
  // The provider's own pages want a font from elsewhere.
  await page.context().route(/^https:/, (route) => route.abort());
  await page.getByRole('link', { name: 'Sign in with Example ID' }).click();
  await page.getByPlaceholder('Enter any login').fill(login);
  await page.getByPlaceholder('and password').fill('any');
  await page.getByRole('button', { name: 'Sign-in' }).click();
  await page.getByRole('button', { name: 'Continue' }).click();
}

test('a person signs in at the provider, works live, stays signed in on reload and in a new tab, and signs out at both', async () => {
  const { page, context } = await open();
  await signInAtProvider(page, 'ada');
  await page.getByRole('button', { name: 'New organization' }).click();
  await page.getByRole('textbox', { name: 'Name' }).fill('Analytical');
  await page.keyboard.press('Enter');
  await expectShown(page.getByRole('heading', { name: 'Overview', level: 1 }));
  await expectShown(page.getByText('Live', { exact: true }));
  const [organization] = await server.store.organizations.list({
    member: (await server.store.users.byName('ada@example.org'))?.id ?? expect.fail('no such user'),
  });
  expect(organization?.name).toBe('Analytical');
  // Nothing of the session is within reach of a script.
  expect(
    await page.evaluate('document.cookie + JSON.stringify([{ ...sessionStorage }, { ...localStorage }])'),
  ).not.toMatch(/rf_session|eyJ/);
  await page.reload();
  await expectShown(page.getByText('Live', { exact: true }));
  const second = await context.newPage();
  await second.goto(`${server.url}/ui/`);
  await expectShown(second.getByRole('heading', { name: 'Overview', level: 1 }));
  await second.close();

  await page.getByRole('button', { name: 'ada@example.org: account' }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await page.getByRole('button', { name: 'Yes, sign me out' }).click();
  await expectShown(page.getByRole('link', { name: 'Sign in with Example ID' }));
  await page.reload();
  await expectShown(page.getByRole('link', { name: 'Sign in with Example ID' }));
});

test('a person whose token the tab has kept is offered the provider after signing out', async () => {
  const { org, owner } = await newPlace(server);
  const { page } = await open({ token: owner.token, path: `/o/${org}/overview` });
  await page.getByRole('button', { name: `${owner.username}: account` }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await expectShown(page.getByRole('link', { name: 'Sign in with Example ID' }));
});

test('when a session ends, signing in again in another tab keeps what was not saved', async () => {
  const { page, context } = await open();
  await signInAtProvider(page, 'grace');
  await expectShown(page.getByRole('button', { name: 'New organization' }));
  const user = (await server.store.users.byName('grace@example.org'))?.id ?? expect.fail('no such user');
  const organization = await server.store.organizations.create(user, { name: 'Navy', description: '' }, asServer);
  await page.goto(`${server.url}/ui/o/${organization.id}/groups/new`);
  await page.getByRole('textbox', { name: 'Name' }).fill('half written');
  await server.store.sessions.endAllOf(user);
  await expectShown(page.getByRole('dialog', { name: 'Sign in again' }));
  const [other] = await Promise.all([
    context.waitForEvent('page'),
    page.getByRole('link', { name: 'Sign in with Example ID' }).click(),
  ]);
  // The provider still knows her: the other tab goes through by itself.
  await page.getByRole('dialog', { name: 'Sign in again' }).waitFor({ state: 'detached' });
  expect(other.isClosed() || other.url() === `${server.url}/ui/signed-in`).toBe(true);
  expect(await page.getByRole('textbox', { name: 'Name' }).inputValue()).toBe('half written');
  await expectShown(page.getByText('Live', { exact: true }));
  await page.getByRole('button', { name: /^Create/ }).click();
  await expectShown(page.getByRole('heading', { name: 'half written' }));
});

test('the card of the sign-in fits a phone', async () => {
  const { page } = await open({ width: 300 });
  await expectShown(page.getByRole('link', { name: 'Sign in with Example ID' }));
  expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(300);
  const cut = `[...document.querySelectorAll('.mantine-Button-label')].filter((label) => label.scrollWidth > label.clientWidth).length`;
  expect(await page.evaluate(cut)).toBe(0);
});
