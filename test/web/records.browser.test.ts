/** Proves the pages of single records: what a device may reach, its name and its history. */
import type { Locator } from 'playwright-core';
import { expect, test } from 'vitest';
import { expectShown } from '../lib/browser.ts';
import type { Json } from '../lib/http.ts';
import { newPlace, type Place } from '../lib/server.ts';
import { useStage } from './stage.fixture.ts';

const stage = useStage();
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
