/** Proves the pages of records in daily use: a device, its history and activity, keys, and the command palette. */
import type { Locator } from 'playwright-core';
import { expect, test } from 'vitest';
import { expectShown } from '../lib/browser.ts';
import type { Json } from '../lib/http.ts';
import { newPlace, type Place } from '../lib/server.ts';
import { useStage } from './stage.fixture.ts';

const stage = useStage(() => ({
  oidcIssuer: ['https://login.example.org', 'https://id.example.net'],
  oidcAudience: ['nothing'],
}));
const { open } = stage;

let key = 0;
const addDevice = (place: Place, hostname: string, more: object = {}): Promise<{ id: string; revision: number }> =>
  place.owner.api.expect(201, 'POST', `${place.base}/devices`, { public_key: `key-${(key += 1)}`, hostname, ...more });

test('a device shows its effective access with guardrails and counts, is renamed, and keeps its history', async () => {
  const place = await newPlace(stage.server);
  const rule = (port: number, more: Json = {}): Json => ({
    ip_protocol: 'tcp',
    from_port: port,
    to_port: port,
    ...more,
  });
  await place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, {
    group_name: 'database',
    applies_to: [{ labels: ['db'] }],
    inbound_rules: [rule(5432, { peers: [{ labels: ['app'] }] })],
  });
  await place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, {
    group_name: 'no telnet',
    guardrail: 'forbid',
    applies_to: [{ all_devices: true }],
    inbound_rules: [rule(23)],
  });
  for (const name of ['app-1', 'app-2']) await addDevice(place, name, { labels: ['app'] });
  const device = await addDevice(place, 'db-1', { labels: ['db'] });
  const page = await open({ token: place.owner.token, path: `/o/${place.org}/devices/${device.id}` });
  const access = (direction: string): Locator => page.getByRole('region', { name: `${direction} rules` });
  await expectShown(access('inbound'));
  expect(await access('inbound').getByRole('listitem').allInnerTexts()).toEqual([
    expect.stringMatching(/Refuse\s+TCP 23 from\s+any address\s+no telnet/),
    expect.stringMatching(/Allow\s+TCP 5432 \(PostgreSQL\) from\s+app · 2 devices\s+database/),
    expect.stringContaining('Everything else is refused.'),
  ]);
  expect(await access('outbound').getByRole('listitem').allInnerTexts()).toEqual(['No rules: everything may go out.']);
  await page.getByRole('button', { name: 'Rename' }).click();
  await page.getByRole('dialog').getByRole('textbox', { name: 'Name' }).fill('db-primary');
  await page.getByRole('dialog').getByRole('button', { name: 'Rename' }).click();
  await expectShown(page.getByRole('heading', { level: 1, name: 'db-primary' }));
  const history = page.getByRole('region', { name: 'History' });
  await page.getByRole('button', { name: 'Undo' }).click();
  await expectShown(page.getByRole('heading', { level: 1, name: 'db-1' }));
  await place.owner.api.expect(200, 'PATCH', `${place.base}/devices/${device.id}`, { labels: ['db', 'prod'] });
  await expectShown(history.getByText('labels db → db, prod'));
  await expectShown(history.getByText('added it'));
  await page.getByRole('link', { name: 'Which devices can connect to it?' }).click();
  await expectShown(page.getByRole('heading', { level: 1, name: 'Reachability' }));
});

test('a device is handed over after a look at the groups that leave with its user, and a member is not offered that', async () => {
  const place = await newPlace(stage.server);
  const { id: group } = await place.member.api.expect(201, 'POST', `/api/user/${place.org}/security_groups`, {
    group_name: 'laptop',
    inbound_rules: [{ ip_protocol: 'tcp', from_port: 22, to_port: 22 }],
  });
  const { id } = await addDevice(place, 'mover', { user_id: place.member.id, security_groups: [group] });
  const path = `/o/${place.org}/devices/${id}`;
  const page = await open({ token: place.owner.token, path });
  await page.getByRole('button', { name: 'Hand over' }).click();
  const dialog = page.getByRole('dialog', { name: 'Hand over mover?' });
  await expectShown(dialog.getByText('mover leaves group laptop'));
  await expectShown(dialog.getByText(/mover is left without a group of its own: the default group will admit/));
  const hand = dialog.getByRole('button', { name: 'Hand it over' });
  expect(await hand.isDisabled()).toBe(true);
  await dialog.getByRole('combobox', { name: 'New user' }).click();
  await page.getByRole('option', { name: place.owner.username }).click();
  await hand.click();
  await expectShown(page.getByText(`mover belongs to ${place.owner.username} now.`));
  expect(await place.owner.api.expect(200, 'GET', `${place.base}/devices/${id}`)).toMatchObject({
    user_id: place.owner.id,
  });
  await expectShown(
    page.getByRole('region', { name: 'Groups', exact: true }).getByText('default group', { exact: true }),
  );
  const member = await open({ token: place.member.token, path });
  await expectShown(member.getByRole('heading', { name: 'mover', level: 1 }));
  expect(await member.title()).toBe('mover · Ringfence');
  expect(await member.getByRole('button', { name: 'Hand over' }).count()).toBe(0);
});

test('the groups of a device are tried first, on no other device that the user goes back to, cannot be changed meanwhile, and are kept', async () => {
  const place = await newPlace(stage.server);
  const { id: group } = await place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, {
    group_name: 'web',
  });
  const [{ id: other }, { id }] = [await addDevice(place, 'web-0'), await addDevice(place, 'web-1')];
  const page = await open({ token: place.owner.token, path: `/o/${place.org}/devices/${other}` });
  const read = (): Promise<Json> => place.owner.api.expect(200, 'GET', `${place.base}/devices/${id}`);
  await expectShown(page.getByRole('heading', { level: 1, name: 'web-0' }));
  await page.evaluate(`history.pushState({}, '', '/ui/o/${place.org}/devices/${id}')`);
  await expectShown(page.getByRole('heading', { level: 1, name: 'web-1' }));
  const dialog = page.getByRole('dialog', { name: 'Try other groups on web-1' });
  const attach = async (): Promise<void> => {
    await page.getByRole('checkbox', { name: /^Try it first/ }).check();
    await page.getByRole('combobox', { name: 'Attach a group' }).click();
    await page.getByRole('option', { name: 'web (organization)' }).click();
    await expectShown(dialog);
  };
  await attach();
  await page.goBack();
  await expectShown(page.locator('h1', { hasText: 'web-0' }));
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await page.goForward();
  await expectShown(page.getByRole('heading', { level: 1, name: 'web-1' }));
  await attach();
  await expectShown(dialog.getByText('10 minutes'));
  expect(await dialog.getByText('Devices with a label').count()).toBe(0);
  expect((await read()).security_groups ?? []).toEqual([]);
  await dialog.getByRole('button', { name: 'Start the trial' }).click();
  await expectShown(page.getByText('These groups are on trial.'));
  expect(await page.getByRole('button', { name: 'Detach web' }).isDisabled()).toBe(true);
  expect(await read()).toMatchObject({ security_groups: [group], trial: {} });
  await page.getByRole('button', { name: 'Keep the change of the groups of web-1' }).click();
  await page.getByText('These groups are on trial.').waitFor({ state: 'detached' });
  expect((await read()).trial).toBeUndefined();
});

test('people are invited at one of several identity providers, which the page asks for each time, beside other faults', async () => {
  const place = await newPlace(stage.server);
  const page = await open({ token: place.owner.token, path: `/o/${place.org}/members` });
  const who = page.getByRole('textbox', { name: 'Username or e-mail of the new member' });
  const provider = page.getByRole('textbox', { name: 'Identity provider' });
  await who.fill('lee@example.org');
  await page.getByRole('button', { name: 'Add member' }).click();
  await expectShown(page.getByText(/accepts sign-ins at https:\/\/login\.example\.org, https:\/\/id\.example\.net/));
  await provider.fill('https://id.example.net');
  await page.getByRole('button', { name: 'Add member' }).click();
  await expectShown(
    page.getByRole('list', { name: 'Invitations' }).getByText(/signing in at https:\/\/id\.example\.net/),
  );
  await provider.waitFor({ state: 'detached' });
  await who.fill('kim@example.org');
  await page.getByRole('button', { name: 'Add member' }).click();
  await expectShown(provider);
  expect(await provider.inputValue()).toBe('');
  await who.fill('nobody-of-this-name');
  await page.getByRole('button', { name: 'Add member' }).click();
  await expectShown(page.locator('.mantine-TextInput-error').filter({ hasNotText: 'accepts sign-ins' }));
  expect(await page.getByText(/accepts sign-ins at/).count()).toBe(0);
});

test('the activity is filtered by person, device and day in the URL, and a change of a device is taken back there', async () => {
  const place = await newPlace(stage.server);
  const device = await addDevice(place, 'web-1', { labels: ['app'] });
  await addDevice(place, 'web-2');
  const gone = await place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, { group_name: 'gone' });
  await place.owner.api.expect(200, 'PATCH', `${place.base}/devices/${device.id}`, {
    labels: ['app', 'prod'],
    addresses: ['100.64.0.9'],
    tunnel_ip: '100.64.0.8',
    security_groups: [gone.id],
  });
  await place.owner.api.expect(200, 'DELETE', `${place.base}/security_groups/${gone.id}?detach=true`);
  const page = await open({ token: place.owner.token, path: `/o/${place.org}/activity?device=${device.id}` });
  const entries = page.getByRole('region', { name: 'Activity' }).locator('.deed');
  await expect.poll(() => entries.count()).toBe(3);
  await page.getByRole('button', { name: 'Filter', exact: true }).click();
  await page.getByLabel('Filter by day').fill('2020-01-01');
  await expectShown(page.getByText('Nothing matches'));
  await page.getByRole('button', { name: 'Day: 2020-01-01 , remove this filter' }).click();
  await expect.poll(() => entries.count()).toBe(3);
  // The last one took the group off.
  const change = entries.nth(1);
  await change.getByRole('button', { name: /^Details/ }).click();
  await expectShown(change.getByText('groups default → a group that is deleted or not visible to you'));
  await change.getByRole('button', { name: 'Take this back' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Take it back' }).click();
  await expectShown(page.getByText('The change of web-1 is taken back.'));
  const after = await place.owner.api.expect(200, 'GET', `${place.base}/devices/${device.id}`);
  expect(after).toMatchObject({ labels: ['app'], tunnel_ip: '' });
  expect(after).not.toHaveProperty('addresses');
  await page.getByRole('button', { name: 'Show everything' }).click();
  await expectShown(entries.filter({ hasText: 'web-2' }));
});

test('a key shows the groups that its devices get by label too, and one that is used up only its own and its devices', async () => {
  const place = await newPlace(stage.server);
  const newGroup = (body: object) => place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, body);
  const newKey = (body: object) => place.owner.api.expect(201, 'POST', `${place.base}/enrollment_keys`, body);
  await newGroup({ group_name: 'database', applies_to: [{ labels: ['db'] }] });
  const racks = await newGroup({ group_name: 'racks' });
  const made = await newKey({ name: 'rack', labels: ['db'], security_groups: [racks.id] });
  const bare = await newKey({ name: 'bare' });
  await newKey({ name: 'spare', labels: ['db'] });
  const page = await open({ token: place.owner.token, path: `/o/${place.org}/keys` });
  const keys = page.getByRole('region', { name: 'Enrollment keys' }).getByRole('listitem');
  const entry = keys.filter({ hasText: 'rack' });
  await expectShown(entry.getByText('database (by label)'));
  await expectShown(entry.getByRole('button', { name: 'Revoke rack' }));
  await stage.server.nobody
    .as(made.key as string)
    .expect(201, 'POST', `${place.base}/devices`, { public_key: 'joined', hostname: 'db-7' });
  await stage.server.nobody
    .as(bare.key as string)
    .expect(201, 'POST', `${place.base}/devices`, { public_key: 'bare', hostname: 'bare' });
  await entry.getByRole('button', { name: 'Revoke rack' }).waitFor({ state: 'detached' });
  await newGroup({ group_name: 'later', applies_to: [{ labels: ['db'] }] });
  await newGroup({ group_name: 'wall', guardrail: 'forbid', applies_to: [{ labels: ['db'] }], inbound_rules: [] });
  await expectShown(keys.filter({ hasText: 'spare' }).getByText('later (by label)'));
  await expectShown(keys.filter({ hasText: 'spare' }).getByText('guardrail wall'));
  expect(await entry.locator('.tags').allInnerTexts()).toEqual(['racks', 'db']);
  await expectShown(keys.filter({ hasText: 'bare' }).getByText('It gave no groups and no labels.'));
  const own = await place.member.api.expect(201, 'POST', `${place.base}/enrollment_keys`, { name: 'own' });
  await stage.server.nobody
    .as(own.key as string)
    .expect(201, 'POST', `${place.base}/devices`, { public_key: 'own', hostname: 'own' });
  const member = await open({ token: place.member.token, path: `/o/${place.org}/keys` });
  await expectShown(member.getByText('Only owners see which devices joined'));
  await entry.getByRole('link', { name: 'Devices that joined' }).click();
  await expectShown(page.getByRole('region', { name: 'Activity' }).getByRole('link', { name: 'db-7' }));
});

test('the palette explains, isolates and copies a command, and the question mark lists the shortcuts', async () => {
  const place = await newPlace(stage.server);
  const device = await addDevice(place, 'edge-7');
  const page = await open({ token: place.owner.token, path: `/o/${place.org}/groups` });
  // The frame draws it after the content.
  await expectShown(page.getByRole('button', { name: /^Find/ }));
  const choose = async (text: string, option: string): Promise<void> => {
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox', { name: /^Find/ }).fill(text);
    await page.getByRole('option').first().filter({ hasText: option }).waitFor();
    await page.keyboard.press('Enter');
  };
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await choose('copy edge', 'Copy: ringfence device show edge-7');
  await expectShown(page.getByText('Copied: ringfence device show edge-7'));
  await choose('explain edge', 'Explain who can reach edge-7');
  await page.waitForURL(new RegExp(`reach\\?to=${device.id}`));
  await choose('isolate edge', 'Isolate edge-7…');
  await expectShown(page.getByRole('button', { name: 'Isolate the device' }));
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await page.keyboard.press('?');
  await expectShown(page.getByRole('dialog', { name: 'Keyboard shortcuts' }).getByText('Ctrl S'));
});

test('an isolated device comes first on the overview until it is released, and the matrix marks it', async () => {
  const place = await newPlace(stage.server);
  const [device] = [
    await addDevice(place, 'web-7', { tunnel_ip: '100.64.0.7' }),
    await addDevice(place, 'app-1', { tunnel_ip: '100.64.0.1', labels: ['app'] }),
  ];
  const isolation = `${place.base}/devices/${device.id}/isolate`;
  const until = new Date(Date.now() + 4 * 3_600_000).toISOString();
  await place.owner.api.expect(200, 'POST', isolation, { reason: 'odd logins', until });
  const page = await open({ token: place.member.token, path: `/o/${place.org}/overview` });
  const isolated = page
    .getByRole('region', { name: 'Needs attention' })
    .getByRole('listitem')
    .filter({ hasText: 'odd logins' });
  await expectShown(isolated);
  expect(await isolated.innerText()).toMatch(/Isolated\s+web-7\s+odd logins\s+ends in/);
  expect(await page.getByRole('region', { name: 'Needs attention' }).getByRole('listitem').first().innerText()).toMatch(
    /Isolated\s+web-7/,
  );
  const board = await open({ token: place.member.token, path: `/o/${place.org}/reach` });
  await expectShown(board.getByRole('rowheader', { name: 'web-7 isolated' }));
  await expectShown(board.getByRole('columnheader', { name: 'web-7 isolated' }));
  await board.getByText('By label', { exact: true }).click();
  await expectShown(board.getByRole('rowheader', { name: /1 isolated/ }));
  await place.owner.api.expect(200, 'DELETE', isolation);
  await isolated.waitFor({ state: 'detached' });
});
