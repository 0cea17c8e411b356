/** Proves changes that are tried and tested in a real browser: the banner of trials on every page, and policy tests with what they refuse. */
import type { Page } from 'playwright-core';
import { beforeAll, expect, test } from 'vitest';
import { expectShown } from '../lib/browser.ts';
import type { Json } from '../lib/http.ts';
import { newPlace, type Place } from '../lib/server.ts';
import { useStage } from './stage.fixture.ts';

const stage = useStage();
let place: Place;
let [web, database, one, two]: Json[] = [];
const tcp = (port: number, ...labels: readonly string[]): Json => ({
  ip_protocol: 'tcp',
  from_port: port,
  to_port: port,
  ...(labels.length > 0 && { peers: labels.map((label) => ({ labels: [label] })) }),
});
beforeAll(async () => {
  place = await newPlace(stage.server);
  const group = (group_name: string, label: string, rule: Json): Promise<Json> =>
    place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, {
      group_name,
      applies_to: [{ labels: [label] }],
      inbound_rules: [rule],
    });
  const device = (hostname: string, tunnel_ip: string, ...labels: readonly string[]): Promise<Json> =>
    place.owner.api.expect(201, 'POST', `${place.base}/devices`, { public_key: hostname, hostname, tunnel_ip, labels });
  [web, database] = [await group('web', 'web', tcp(443)), await group('database', 'db', tcp(5432, 'web'))];
  [one, two] = [await device('web-1', '100.64.9.1', 'canary', 'web'), await device('db-1', '100.64.9.2', 'db')];
});

const open = (token: string, path: string): Promise<Page> => stage.open({ token, path: `/o/${place.org}${path}` });
const ask = (path: string): Promise<Json> => place.owner.api.expect(200, 'GET', `${place.base}${path}`);
const portsOf = async (group: Json): Promise<readonly number[]> =>
  ((await ask(`/security_groups/${group.id}`)).inbound_rules ?? []).map(({ from_port }: Json) => from_port);
const banner = (page: Page, name = 'web') =>
  page
    .getByRole('region', { name: 'Trials' })
    .getByRole('listitem')
    .filter({ hasText: `${name} is on trial` });

test('a change is tried from the editor on devices with a label, counts down on every page and tab, is widened, and kept', async () => {
  const page = await open(place.owner.token, `/groups/${web.id}?edit=true`);
  const other = await open(place.owner.token, '/devices');
  const member = await open(place.member.token, '/members');
  await page.getByLabel('Ports of inbound rule 1').first().fill('8443');
  await page.getByRole('button', { name: 'Try it first' }).click();
  const dialog = page.getByRole('dialog', { name: 'Try the changes of web' });
  await dialog.getByText('2 minutes').click();
  await dialog.getByText('Devices with a label').click();
  await dialog.getByLabel('Labels').first().fill('label:db');
  await page.keyboard.press('Enter');
  await expectShown(dialog.getByText('No device would try this change: none that has the group has such a label.'));
  await expectShown(dialog.getByRole('button', { name: 'Start it anyway' }));
  await page.keyboard.press('Backspace');
  await dialog.getByLabel('Labels').first().fill('label:canary');
  await page.keyboard.press('Enter');
  await expectShown(dialog.getByText('1 device of the organization has such a label.'));
  await dialog.getByRole('button', { name: 'Start the trial' }).click();
  await dialog.waitFor({ state: 'detached' });
  const bar = page.getByRole('region', { name: 'On trial' });
  await expectShown(bar.getByText(/^A change of this group is on trial until .*: keep or revert it first$/));
  expect(await bar.getByRole('button', { name: 'Save' }).isDisabled()).toBe(true);
  expect(await page.getByLabel('Ports of inbound rule 1').first().isDisabled()).toBe(true);
  for (const tab of [page, other, member]) {
    await expectShown(banner(tab).getByRole('timer'));
    await expectShown(banner(tab).getByText('In force on 0 of 1 device'));
  }
  expect(await member.getByRole('button', { name: /^(Keep|Revert) the change/ }).count()).toBe(0);
  await other.reload();
  await expectShown(banner(other).getByRole('timer'));
  const left = await banner(other).getByRole('timer').innerText();
  expect(left).toMatch(/^[01]:\d\d$/);
  await banner(other).getByRole('button', { name: 'Details' }).click();
  await expectShown(banner(other).getByText('in tcp 8443 from any'));
  await expectShown(banner(other).getByText(/the server takes the change back, unless someone keeps it/));
  await banner(other).getByRole('button', { name: 'Try it on more devices…' }).click();
  await other.getByRole('button', { name: 'Try it there too' }).click();
  await expectShown(banner(page).getByText('web is on trial'));
  await expect.poll(async () => (await ask('/trials'))[0].scope).toBeUndefined();
  await banner(other).getByRole('button', { name: 'Keep the change of web' }).click();
  await expectShown(other.getByText(/the change was kept by/));
  for (const tab of [page, other, member]) await banner(tab).waitFor({ state: 'detached' });
  expect([await portsOf(web), (await ask(`/security_groups/${web.id}`)).trial]).toEqual([[8443], undefined]);
});

test('with two trials at once, one is reverted and the other runs out, and the page says so', async () => {
  const start = (group: Json, rule: Json, seconds: number): Promise<Json> =>
    place.owner.api.expect(200, 'PATCH', `${place.base}/security_groups/${group.id}?confirm_within=${seconds}`, {
      inbound_rules: [rule],
    });
  const before = [await portsOf(web), await portsOf(database)];
  await start(database, tcp(6432, 'web'), 600);
  const page = await open(place.owner.token, '/overview');
  await expectShown(banner(page, 'database'));
  await start(web, tcp(9443), 20);
  await expectShown(banner(page));
  // A device that could not apply the change is shown before the change is kept.
  await stage.server.nobody.as(two.device_token).expect(200, 'PUT', `${place.base}/devices/${two.id}/status`, {
    state: 'failed',
    detail: 'The kernel refused the rules.',
    revision: (await ask(`/security_groups/${database.id}`)).revision,
  });
  await expectShown(banner(page, 'database').getByText('1 failed'));
  await banner(page, 'database').getByRole('button', { name: 'Keep the change of database' }).press('Enter');
  const question = page.getByRole('dialog', { name: 'Keep the change of database?' });
  await expectShown(question.getByText('The kernel refused the rules.'));
  await page.keyboard.press('Escape');
  await question.waitFor({ state: 'detached' });
  await banner(page, 'database').getByRole('button', { name: 'Revert the change of database' }).press('Enter');
  await expectShown(page.getByText(/The trial of database has ended: the change was taken back by/));
  await expectShown(page.getByText('The trial of web has ended: its time was over, and the change was taken back.'));
  await banner(page).waitFor({ state: 'detached' });
  expect([await portsOf(web), await portsOf(database)]).toEqual(before);
});

test('an answer is kept as a policy test, a save that breaks it names pair and rule, and the owner can insist', async () => {
  const page = await open(place.owner.token, `/reach?from=${one.id}&to=${two.id}&port=tcp%205432`);
  await page.getByRole('button', { name: 'Keep it this way' }).click();
  await expectShown(page.getByText('The policy test “web-1 reaches db-1 by tcp 5432” keeps it this way.'));
  await expectShown(page.getByText('demands that it is allowed'));
  expect(await ask('/policy_tests')).toMatchObject([
    {
      from: { device_id: one.id },
      to: { device_id: two.id },
      protocol: 'tcp',
      port: 5432,
      expect: 'allow',
      state: 'passing',
    },
  ]);

  await page.getByText('By label', { exact: true }).click();
  await page.getByRole('button', { name: /web to db: 1 of 1 pairs may connect/ }).click();
  await page
    .getByRole('region', { name: 'Who may reach whom' })
    .getByRole('button', { name: 'Keep it this way' })
    .click();
  await expectShown(page.getByText('The policy test “web reaches db by tcp 5432” keeps it this way.'));
  expect((await ask('/policy_tests'))[1]).toMatchObject({ from: { labels: ['web'] }, to: { labels: ['db'] } });
  await place.owner.api.expect(200, 'PUT', `${place.base}/policy_tests`, (await ask('/policy_tests')).slice(0, 1));

  await page.goto(`${stage.server.url}/ui/o/${place.org}/groups/${database.id}?edit=true`);
  await page.getByRole('button', { name: 'Remove inbound rule 1' }).click();
  await page.getByRole('button', { name: 'Preview' }).click();
  const preview = page.getByRole('dialog', { name: 'What would change' });
  await expectShown(
    preview.getByRole('region', { name: '1 policy test would fail' }).getByText('web-1 reaches db-1 by tcp 5432'),
  );
  await expectShown(preview.getByText('db-1 no longer accepts tcp 5432 from web-1'));
  await preview.getByRole('button', { name: 'Save these changes' }).click();
  const refusal = page.getByRole('dialog', { name: 'Not saved: policy tests' });
  const why =
    'web-1 (100.64.9.1) → db-1 (100.64.9.2) tcp/5432 must be allowed. No inbound rule of db-1 (100.64.9.2) admits it.';
  await expectShown(refusal.getByText(why));
  await expectShown(refusal.getByText(/This inbound rule would admit it: tcp 5432 from/));
  await refusal.getByRole('button', { name: 'Cancel' }).click();
  await refusal.waitFor({ state: 'detached' });
  expect(await portsOf(database)).toEqual([5432]);
  await preview.getByRole('button', { name: 'Save these changes' }).click();
  await refusal.getByRole('button', { name: 'Save anyway' }).click();
  await expectShown(page.getByText(/^Saved\./));
  expect(await portsOf(database)).toEqual([]);

  await page.goto(`${stage.server.url}/ui/o/${place.org}/overview`);
  await expectShown(page.getByRole('region', { name: 'Policy tests' }).getByText('1 failing'));
  await page.getByRole('region', { name: 'Policy tests' }).getByRole('link').click();
  const tests = page.getByRole('region', { name: 'Policy tests' }).getByRole('listitem');
  await expectShown(tests.getByText(why));
  await tests.getByRole('link', { name: 'Draft this rule in database' }).click();
  await expectShown(page.getByText('device:web-1'));
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await expectShown(page.getByText(/^Saved\./));
  expect((await ask('/policy_tests'))[0].state).toBe('passing');
});

test('tests are added, edited and removed on their page, a vacuous one is never shown as passing, and members only read', async () => {
  const page = await open(place.owner.token, '/tests');
  await page.getByRole('button', { name: 'New test' }).click();
  const form = page.getByRole('dialog', { name: 'New policy test' });
  await form.getByLabel('Name').fill('telnet is closed');
  for (const [end, chip] of [
    ['From', 'all-devices'],
    ['To', 'label:nothing-yet'],
  ] as const) {
    await form.getByLabel(end, { exact: true }).first().fill(chip);
    await page.keyboard.press('Enter');
  }
  await form.getByLabel('Port').fill('23');
  await form.getByText('Refused, for every pair').click();
  await expectShown(form.getByText('No pair of devices matches now, so the test checks nothing yet.'));
  await form.getByRole('button', { name: 'Add the test' }).click();
  await form.waitFor({ state: 'detached' });
  const row = page
    .getByRole('region', { name: 'Policy tests' })
    .getByRole('listitem')
    .filter({ hasText: 'telnet is closed' });
  await expectShown(row.getByText('vacuous', { exact: true }));
  await row.getByRole('button', { name: 'Edit telnet is closed' }).click();
  const edited = page.getByRole('dialog', { name: 'Edit telnet is closed' });
  await edited.getByLabel('To', { exact: true }).first().fill('label:db');
  await page.keyboard.press('Enter');
  await expectShown(edited.getByText('It passes now.'));
  await edited.getByRole('button', { name: 'Save the test' }).click();
  await expectShown(row.getByText('passing', { exact: true }));
  const member = await open(place.member.token, '/tests');
  await expectShown(member.getByText('telnet is closed'));
  expect(await member.getByRole('button', { name: /New test|^Edit|^Remove/ }).count()).toBe(0);
  await row.getByRole('button', { name: 'Remove telnet is closed' }).click();
  await row.waitFor({ state: 'detached' });
  expect((await ask('/policy_tests')).map(({ name }: Json) => name)).not.toContain('telnet is closed');
});
