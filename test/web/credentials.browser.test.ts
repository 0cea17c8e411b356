/** Proves the pages of what people hold and of what they did: tokens, enrollment keys, the audit, and a token that only reads. */
import type { Locator, Page } from 'playwright-core';
import { beforeAll, expect, test } from 'vitest';
import { expectShown } from '../lib/browser.ts';
import type { Json } from '../lib/http.ts';
import { newPlace, type Place } from '../lib/server.ts';
import { useStage } from './stage.fixture.ts';

const publicUrl = 'https://ringfence.example';
const stage = useStage(() => ({ publicUrl }));
let place: Place;
beforeAll(async () => {
  place = await newPlace(stage.server);
});

const open = (token: string, path: string, width = 1280): Promise<Page> =>
  stage.open({ token, path: `/o/${place.org}${path}`, width });

const statusOf = async (token: string): Promise<number> =>
  (await stage.server.nobody.as(token).get('/api/users/me')).status;

test('a token is made, shown once, given another secret, and revoked', async () => {
  const page = await open(place.member.token, '/devices');
  await page.getByRole('button', { name: `${place.member.username}: account` }).click();
  await page.getByRole('menuitem', { name: 'Your tokens' }).click();
  await expectShown(page.getByText('you are signed in with it'));
  await page.getByRole('button', { name: 'New token' }).click();
  await page.getByRole('textbox', { name: 'What is it for?' }).fill('dashboard');
  await page.getByText('Only read', { exact: true }).click();
  // A dialog that is higher than its window keeps its buttons in sight.
  await page.setViewportSize({ width: 1280, height: 300 });
  const foot = await page.getByRole('button', { name: 'Make the token' }).boundingBox();
  expect((foot?.y ?? 300) + (foot?.height ?? 0)).toBeLessThanOrEqual(300);
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.getByRole('button', { name: 'Make the token' }).click();
  const secret = await page.getByLabel('The token').innerText();
  const api = stage.server.nobody.as(secret);
  expect(await api.expect(200, 'GET', '/api/users/me')).toMatchObject({ id: place.member.id, scope: 'read-only' });
  await page.getByRole('button', { name: 'Done' }).click();
  const entry = page
    .getByRole('region', { name: 'Tokens', exact: true })
    .getByRole('listitem')
    .filter({ hasText: 'dashboard' });
  expect(await entry.innerText()).toMatch(/only reads[\s\S]*ends in/);
  await page.getByLabel('The token').waitFor({ state: 'detached' });
  expect(await page.content()).not.toContain(secret);

  await page.getByRole('button', { name: 'Rotate dashboard' }).click();
  await page.getByRole('button', { name: 'Rotate it' }).click();
  const next = await page.getByLabel('The token').innerText();
  expect([await statusOf(secret), await statusOf(next)]).toEqual([401, 200]);
  await page.getByRole('button', { name: 'Done' }).click();
  await page.getByRole('button', { name: 'Revoke dashboard' }).click();
  await page.getByRole('button', { name: 'Revoke it' }).click();
  await entry.waitFor({ state: 'detached' });
  expect(await statusOf(next)).toBe(401);
  // The one in use cannot be rotated from under the page.
  expect(await page.getByRole('button', { name: /^Rotate/ }).count()).toBe(0);

  const device = await place.member.api.expect(201, 'POST', `${place.base}/devices`, {
    public_key: 'to-rotate',
    hostname: 'web-7',
  });
  await page.reload();
  await page.getByRole('button', { name: 'Renew web-7' }).click();
  await page.getByRole('button', { name: 'Renew it' }).click();
  await expectShown(page.getByText('The device is asked to renew its token.'));
  const status = `${place.base}/devices/${device.id}/status`;
  const answer = await stage.server.nobody.as(device.device_token).expect(200, 'PUT', status, { state: 'starting' });
  expect(answer).toMatchObject({ renew_token: true });
  await page.getByRole('button', { name: 'Rotate web-7' }).click();
  await page.getByRole('button', { name: 'Rotate it' }).click();
  const fresh = await page.getByLabel('The token').filter({ hasText: 'rf_device_' }).innerText();
  expect([await statusOf(device.device_token), await statusOf(fresh)]).toEqual([401, 200]);
  await place.member.api.expect(200, 'DELETE', `${place.base}/devices/${device.id}`);
});

test('an enrollment key carries groups, uses and an end; a device joins with it; it is revoked', async () => {
  const group = await place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, { group_name: 'web' });
  const page = await open(place.member.token, '/keys');
  await page.getByRole('button', { name: 'New key' }).click();
  await page.getByRole('textbox', { name: 'What is the key for?' }).fill('web servers');
  await page.getByRole('textbox', { name: 'How many devices may join with it?' }).fill('3');
  await page.getByRole('combobox', { name: 'How long does it last?' }).click();
  await page.getByRole('option', { name: 'A week' }).click();
  await page.getByRole('combobox', { name: 'Groups that the devices start with' }).click();
  await page.getByRole('option', { name: 'web' }).click();
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Make the key' }).click();
  const key = await page.getByLabel('The key').filter({ hasText: 'rf_enroll_' }).innerText();
  // Where the server says it is reached, not where this browser happens to be.
  expect(key).toMatch(new RegExp(`^rf_enroll_[\\w-]+:${place.org}@${publicUrl}$`));
  expect(await page.getByText('is this machine only').count()).toBe(0);
  const device = await stage.server.nobody
    .as(key)
    .expect(201, 'POST', `${place.base}/devices`, { public_key: 'joins', hostname: 'joins' });
  expect([device.user_id, device.security_groups]).toEqual([place.member.id, [group.id]]);
  await page.getByRole('button', { name: 'Done' }).click();
  const entry = page.getByRole('region', { name: 'Enrollment keys' }).getByRole('listitem');
  await expectShown(entry.getByText('2 devices left'));
  const text = await entry.innerText();
  expect(text).toContain('web servers');
  expect(text).toMatch(/ends in (6|7) days/);
  await page.getByRole('button', { name: 'Revoke web servers' }).click();
  await page.getByRole('button', { name: 'Revoke the key' }).click();
  await expectShown(page.getByRole('heading', { name: 'No keys' }));
  expect(await statusOf(key)).toBe(401);
});

test('long names of keys and tokens stay in their card and dialog, and clear of the buttons', async () => {
  const edges = async (what: Locator) => {
    const { x, y, width, height } = (await what.boundingBox()) ?? expect.fail('it is not shown');
    return { left: x, top: y, right: x + width, bottom: y + height };
  };
  for (const [width, letter, length] of [
    [390, 'x', 80],
    [1280, 'y', 255],
  ] as const) {
    const name = letter.repeat(length);
    await place.owner.api.expect(201, 'POST', `${place.base}/enrollment_keys`, { name });
    await place.owner.api.expect(201, 'POST', '/api/users/me/tokens', { name });
    for (const [path, region] of [
      ['/keys', 'Enrollment keys'],
      ['/tokens', 'Tokens'],
    ] as const) {
      const page = await open(place.owner.token, path, width);
      const card = page.getByRole('region', { name: region, exact: true });
      const shown = card.getByText(name, { exact: true });
      await expectShown(shown);
      const [outer, inner] = [await edges(card), await edges(shown)];
      const where = `${path} at ${width} pixels`;
      expect(inner.right, where).toBeLessThanOrEqual(outer.right);
      const buttons = await card.getByRole('listitem').filter({ hasText: name }).getByRole('button').all();
      expect(buttons, where).not.toEqual([]);
      for (const button of buttons) {
        const { left, right, top } = await edges(button);
        expect(right, where).toBeLessThanOrEqual(outer.right);
        expect(left >= inner.right || top >= inner.bottom, where).toBe(true);
      }
      await card.getByRole('button', { name: `Revoke ${name}` }).click();
      const dialog = page.getByRole('dialog');
      const title = dialog.getByRole('heading', { name: `Revoke ${name}?` });
      await expectShown(title);
      expect((await edges(title)).right, where).toBeLessThanOrEqual((await edges(dialog)).right);
      expect(await page.evaluate('document.documentElement.scrollWidth'), where).toBe(width);
    }
  }
});

test('long names of members stay clear of the buttons, and those of groups in a key are shown whole', async () => {
  const username = `${'m'.repeat(60)}@example.org`;
  const { id } = await stage.server.admin.expect(201, 'POST', '/api/users', { username });
  await place.owner.api.expect(201, 'POST', `${place.base}/members`, { user_id: id });
  const members = await open(place.owner.token, '/members');
  const row = members.getByRole('listitem').filter({ hasText: username });
  const name = (await row.getByText(username, { exact: true }).boundingBox()) ?? expect.fail('no name');
  for (const button of await row.getByRole('button').all()) {
    const { x, y } = (await button.boundingBox()) ?? expect.fail('no button');
    expect(x >= name.x + name.width || y >= name.y + name.height).toBe(true);
  }
  const group_name = `controllers of the line in ${'h'.repeat(40)}`;
  const group = await place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, { group_name });
  const key = { name: 'of a long group', security_groups: [group.id] };
  await place.owner.api.expect(201, 'POST', `${place.base}/enrollment_keys`, key);
  const keys = await open(place.owner.token, '/keys', 390);
  await expectShown(keys.getByText(group_name, { exact: true }));
  const cut = `[...document.querySelectorAll('.tag')].map((tag) => tag.scrollWidth > tag.clientWidth && tag.textContent)`;
  const texts: readonly unknown[] = await keys.evaluate(cut);
  expect(texts.filter(Boolean)).toEqual([]);
});

test('the owner reads who did what with which credential, searches it and goes back in pages; a member sees only what changes', async () => {
  const url = `${place.base}/security_groups/${place.defaultGroup}`;
  for (let n = 0; n < 105; n += 1) {
    await place.owner.api.expect(200, 'PATCH', url, { group_description: `number ${n}` });
  }
  const body = { public_key: 'of a member', hostname: 'of-a-member' };
  const made = await place.member.api.expect(201, 'POST', `${place.base}/devices`, body);
  const page = await open(place.owner.token, '/audit');
  await expectShown(page.getByRole('heading', { name: 'Activity', level: 1 }));
  const entries = page.getByRole('region', { name: 'Activity' }).locator('.deed');
  const newest = entries.first();
  await expectShown(newest.getByText('of-a-member'));
  await expectShown(newest.getByText(`${place.member.username} registered device of-a-member`));
  await newest.getByRole('button', { name: /^Details/ }).click();
  await expectShown(newest.getByText(new RegExp(`From 127.0.0.1 with a token .*, revision ${made.revision}`)));
  await expectShown(newest.getByText('hostname of-a-member'));
  expect(await entries.count()).toBe(100);
  await page.getByRole('button', { name: 'Load older entries' }).click();
  await page.getByRole('button', { name: 'Load older entries' }).waitFor({ state: 'detached' });
  expect(await entries.count()).toBeGreaterThan(105);
  await page.getByRole('textbox', { name: 'Search the activity' }).fill(`${place.member.username} registered device`);
  await expectShown(page.getByText(/^[12] of \d+ entries/));
  await page.getByRole('textbox', { name: 'Search the activity' }).fill('');
  await page.getByText('Devices', { exact: true }).last().click();
  await expectShown(page.getByText(/\d+ of \d+ entries/));
  expect(await entries.filter({ hasText: 'description' }).count()).toBe(0);

  const member = await open(place.member.token, '/activity');
  await expectShown(member.getByText('Nothing has changed yet'));
  await place.owner.api.expect(200, 'PATCH', url, { group_description: 'seen by a member' });
  await expectShown(member.getByText(/^Changed the description of/));
  expect(await member.getByRole('button', { name: /^Details/ }).count()).toBe(0);
  expect((await place.member.api.get(`${place.base}/audit`)).status).toBe(403);
});

test('a token that only reads is offered no change on any page; the server refuses one too', async () => {
  const { token } = await place.owner.api.expect(201, 'POST', '/api/users/me/tokens', { scope: 'read-only' });
  const device = await place.owner.api.expect(201, 'POST', `${place.base}/devices`, { public_key: 'k', hostname: 'k' });
  const actions = /^(Add|New|Make|Save|Delete|Reset|Duplicate|Attach|Detach|Remove|Rename|Revoke|Renew|Rotate|Leave)/;
  const page = await open(token as string, '/devices');
  for (const [path, heading] of [
    ['/devices', 'Devices'],
    [`/devices/${device.id}`, 'k'],
    ['/groups', 'Groups'],
    [`/groups/${place.defaultGroup}`, 'default'],
    ['/keys', 'Enrollment keys'],
    ['/members', 'acme'],
    ['/tokens', 'Your tokens'],
  ] as const) {
    await page.goto(`${stage.server.url}/ui/o/${place.org}${path}`);
    await expectShown(page.getByRole('heading', { name: heading, level: 1, exact: true }));
    await expectShown(page.getByText('Live', { exact: true }));
    const offered: Json[] = await page.getByRole('button', { name: actions }).allInnerTexts();
    expect([path, offered]).toEqual([path, []]);
    expect(await page.getByRole('combobox', { name: 'Attach a group' }).count()).toBe(0);
  }
  const refused = await stage.server.nobody.as(token as string).delete(`${place.base}/devices/${device.id}`);
  expect(refused.status).toBe(403);
});
