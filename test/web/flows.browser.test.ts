/** Proves the pages of observed traffic: flows with the rule that decides, empty states that say why, what each person may see, rules that a refused flow becomes, and what a watch-only group would have done. */
import { Client } from 'pg';
import type { Page } from 'playwright-core';
import { beforeAll, expect, test } from 'vitest';
import { expectShown } from '../lib/browser.ts';
import type { Json } from '../lib/http.ts';
import { withRules } from '../lib/reported-rules.ts';
import { newPlace, type Place } from '../lib/server.ts';
import { useStage } from './stage.fixture.ts';

const stage = useStage();
let place: Place;
let database: Json;
const devices: Record<string, Json> = {};

const tcp = (port: number, ...labels: readonly string[]): Json => ({
  ip_protocol: 'tcp',
  from_port: port,
  to_port: port,
  ...(labels.length > 0 && { peers: labels.map((label) => ({ labels: [label] })) }),
});

beforeAll(async () => {
  place = await newPlace(stage.server);
  const { owner, member, base } = place;
  database = await owner.api.expect(201, 'POST', `${base}/security_groups`, {
    group_name: 'database',
    applies_to: [{ labels: ['db'] }],
    inbound_rules: [tcp(5432, 'app'), tcp(9187)],
  });
  const own = await member.api.expect(201, 'POST', `/api/user/${place.org}/security_groups`, {
    group_name: 'mine',
    inbound_rules: [tcp(22)],
  });
  const rows: readonly Json[] = [
    { hostname: 'db-1', tunnel_ip: '100.64.9.1', labels: ['db'] },
    { hostname: 'ci-1', tunnel_ip: '100.64.9.2', labels: ['ci', 'prod'] },
    { hostname: 'laptop', tunnel_ip: '100.64.9.3', user_id: member.id, security_groups: [own.id] },
  ];
  for (const row of rows)
    devices[row.hostname] = await owner.api.expect(201, 'POST', `${base}/devices`, {
      public_key: row.hostname,
      ...row,
    });
});

const open = (token: string, path: string, more: { readonly width?: number } = {}): Promise<Page> =>
  stage.open({ token, path: `/o/${place.org}${path}`, ...more });

const flow = { direction: 'in', verdict: 'refused', far: '100.64.9.2', protocol: 'tcp', port: 5432, packets: 1 };

/** Reports of a device for minutes that have passed, the newest last. */
async function report(hostname: string, minutes: readonly (readonly Json[])[], not_recorded = 0): Promise<void> {
  const device = devices[hostname];
  const now = Date.now();
  const time = (ago: number): string => new Date(now - ago * 60_000).toISOString();
  for (const [index, tuples] of minutes.entries()) {
    const ago = minutes.length - 1 - index;
    await stage.server.nobody.as(device.device_token).expect(200, 'POST', `${place.base}/devices/${device.id}/flows`, {
      since: time(ago + 1),
      until: time(ago),
      observed: 'all',
      not_recorded,
      ...withRules(tuples, hostname === 'db-1' ? [database] : []),
    });
  }
}

test('an empty page says that nothing is recorded and lets an owner record, and then that no device has reported yet', async () => {
  const member = await open(place.member.token, '/flows');
  await expectShown(member.getByRole('heading', { name: 'Traffic is not recorded' }));
  await expectShown(member.getByText('An owner can change this on the organization page.'));
  const page = await open(place.owner.token, '/overview');
  await page.getByRole('link', { name: 'Flows', exact: true }).click();
  await expectShown(page.getByText('Agents only count packets.'));
  await page.getByRole('button', { name: 'Record refused packets' }).click();
  await expectShown(page.getByRole('heading', { name: 'No device has reported traffic yet' }));
  expect(await place.owner.api.expect(200, 'GET', place.base)).toMatchObject({ observe: 'refused' });
  await report('db-1', [[]]);
  await expectShown(page.getByRole('heading', { name: 'Nothing was refused' }));
  await page.getByText('Admitted', { exact: true }).click();
  await expectShown(page.getByRole('heading', { name: 'Admitted packets are not recorded' }));
  await page.getByRole('button', { name: 'Record admitted packets too' }).click();
  await expectShown(page.getByRole('heading', { name: 'Nothing was admitted' }));
  expect(await place.owner.api.expect(200, 'GET', place.base)).toMatchObject({ observe: 'all' });
});

test('flows show names, packets of all minutes and the nearest rule with what does not match; filters are chips and part of the URL', async () => {
  await report(
    'db-1',
    [
      [flow, { ...flow, far: '192.0.2.7', port: 22, packets: 4 }],
      [
        { ...flow, packets: 2 },
        { ...flow, far: '192.0.2.9', port: 9187, verdict: 'admitted', packets: 5 },
        { ...flow, direction: 'out', verdict: 'admitted', far: '100.64.9.3', port: 443 },
      ],
    ],
    3,
  );
  await report('laptop', [[{ ...flow, far: '192.0.2.8', port: 8080 }]]);
  const page = await open(place.owner.token, '/flows');
  const rows = page.getByRole('list', { name: 'Flows' }).getByRole('listitem');
  const row = rows.filter({ hasText: 'tcp 5432' });
  await expectShown(row.getByText('3 packets'));
  expect(await row.innerText()).toContain(
    'Now refused because no rule admits it. The nearest is database: tcp 5432 from label:app; ci-1 (100.64.9.2) is not among those it names.',
  );
  expect(await rows.filter({ hasText: '192.0.2.7' }).innerText()).toContain('its port is 9187, not 22');
  await expectShown(page.getByText('6 packets were not recorded'));
  await page.getByText('Both', { exact: true }).click();
  await expectShown(rows.filter({ hasText: 'Now admitted by database: tcp 9187 from any.' }));
  await expectShown(rows.filter({ hasText: 'Now admitted because none of its groups has an outbound rule' }));
  await page.getByRole('button', { name: 'Filter', exact: true }).click();
  await page.getByLabel('Filter by direction').fill('Out');
  await page.getByRole('option', { name: /^Outbound/ }).click();
  await expect.poll(() => rows.count()).toBe(1);
  await page.getByRole('button', { name: /^Direction: Outbound/ }).click();
  await page.getByRole('textbox', { name: 'Far end' }).fill('ci-1');
  await expectShown(page.getByRole('button', { name: /^Far end: ci-1/ }));
  await expect.poll(() => rows.count()).toBe(1);
  expect(new URL(page.url()).searchParams.get('far')).toBe('ci-1');
  await page.getByRole('textbox', { name: 'Far end' }).fill('ci-9');
  await expectShown(page.getByRole('heading', { name: 'No such far end' }));
  await page.getByRole('button', { name: 'Show all flows' }).first().click();
  await expect.poll(() => rows.count()).toBeGreaterThan(3);
  // New traffic and a new rule appear by themselves.
  await report('db-1', [[{ ...flow, far: '192.0.2.44', port: 3306 }]]);
  await expectShown(rows.filter({ hasText: '192.0.2.44' }));
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: /^Find/ }).fill('flows laptop');
  await page.getByRole('option', { name: 'Show the flows of laptop', selected: true }).click();
  await expect.poll(() => rows.count()).toBe(1);
});

test('a member sees the flows of the own devices and no others, and the page says so', async () => {
  const page = await open(place.member.token, '/flows', { width: 390 });
  await expectShown(page.getByText('Only owners see the traffic of other devices.'));
  const rows = page.getByRole('list', { name: 'Flows' }).getByRole('listitem');
  await expectShown(rows.filter({ hasText: 'tcp 8080' }));
  expect(await rows.count()).toBe(1);
  expect(await page.getByText('db-1').count()).toBe(0);
});

const ask = (path: string): Promise<Json> => place.owner.api.expect(200, 'GET', `${place.base}${path}`);

test('Allow this… shows who gains, writes the rule and a policy test as one change set, and undo takes both back', async () => {
  const page = await open(place.owner.token, '/flows');
  const rows = page.getByRole('list', { name: 'Flows' }).getByRole('listitem');
  const row = rows.filter({ hasText: 'tcp 5432' });
  await row.getByRole('button', { name: 'Allow this…' }).click();
  const dialog = page.getByRole('dialog', { name: 'Allow tcp 5432 on db-1' });
  await expectShown(dialog.getByText('db-1 accepts tcp 5432 from ci-1'));
  await expectShown(dialog.getByText('tcp 5432 from label:ci+prod'));
  await dialog.getByRole('radio', { name: /^100\.64\.9\.2/ }).check();
  await expectShown(dialog.getByText('tcp 5432 from 100.64.9.2'));
  await dialog.getByRole('radio', { name: /^label:ci(?!\+)/ }).check();
  await dialog.getByRole('button', { name: 'Allow it' }).click();
  await dialog.waitFor({ state: 'detached' });
  await expectShown(page.getByText('tcp 5432 is allowed, and a policy test keeps it so.'));
  await expectShown(row.getByText(/The policy has changed: now admitted by/));
  expect(await row.getByRole('button', { name: 'Allow this…' }).count()).toBe(0);
  const group = await ask(`/security_groups/${database.id}`);
  expect(group.inbound_rules.at(-1)).toEqual({ ...tcp(5432, 'ci'), ip_ranges: group.inbound_rules.at(-1).ip_ranges });
  const [ci, db] = [devices['ci-1'], devices['db-1']];
  expect(await ask('/policy_tests')).toMatchObject([
    { name: 'ci-1 reaches db-1 by tcp 5432', from: { device_id: ci.id }, to: { device_id: db.id }, state: 'passing' },
  ]);
  const entry = (await ask('/audit?limit=20')).find(({ operation }: Json) => operation === 'applyChanges');
  expect((await ask(`/changes/${entry.change_id}`)).records.map(({ kind }: Json) => kind).toSorted()).toEqual([
    'policy-tests',
    'security-groups',
  ]);
  await page.getByRole('button', { name: 'Undo' }).click();
  await expectShown(page.getByText('Undone.'));
  expect(await ask('/policy_tests')).toEqual([]);
  expect((await ask(`/security_groups/${database.id}`)).inbound_rules).toHaveLength(2);
});

test('a rule that the group already has is not written again, and the dialog says so', async () => {
  const page = await open(place.owner.token, '/flows');
  const row = page.getByRole('list', { name: 'Flows' }).getByRole('listitem').filter({ hasText: 'tcp 3306' });
  await row.getByRole('button', { name: 'Allow this…' }).click();
  const dialog = page.getByRole('dialog', { name: 'Allow tcp 3306 on db-1' });
  const allow = dialog.getByRole('button', { name: 'Allow it' });
  await expect.poll(() => allow.isEnabled()).toBe(true);
  const path = `${place.base}/security_groups/${database.id}`;
  const { inbound_rules } = await place.owner.api.expect(200, 'GET', path);
  const more = [...inbound_rules, { ...tcp(3306), ip_ranges: ['192.0.2.44'] }];
  await place.owner.api.expect(200, 'PATCH', path, { inbound_rules: more });
  await expectShown(dialog.getByText('database already has this inbound rule'));
  expect(await allow.isEnabled()).toBe(false);
  expect(await dialog.getByRole('button', { name: 'Try it first' }).isEnabled()).toBe(false);
  await place.owner.api.expect(200, 'PATCH', path, { inbound_rules });
  await expect.poll(() => allow.isEnabled()).toBe(true);
});

test('a rule goes into a new group on that device alone, and a trial is of the rule without the test', async () => {
  await report('db-1', [[{ ...flow, far: '192.0.2.45', port: 3306 }]]);
  const page = await open(place.owner.token, '/flows');
  const row = page.getByRole('listitem').filter({ hasText: '192.0.2.45' });
  await row.getByRole('button', { name: 'Allow this…' }).click();
  const dialog = page.getByRole('dialog', { name: 'Allow tcp 3306 on db-1' });
  await dialog.getByLabel('In the group').first().click();
  await page.getByRole('option', { name: /^A new group on db-1 only/ }).click();
  await expectShown(dialog.getByText(/db-1 accepts tcp 3306 from 192\.0\.2\.45/));
  await dialog.getByRole('button', { name: 'Try it first' }).click();
  await page.getByRole('button', { name: 'Start the trial' }).click();
  await expectShown(page.getByRole('region', { name: 'Trials' }).getByRole('timer'));
  const [trial] = await ask('/trials');
  const list: string[] = (await ask(`/devices/${devices['db-1'].id}`)).security_groups;
  expect(list).toHaveLength(1);
  expect(await ask(`/security_groups/${list[0]}`)).toMatchObject({
    group_name: 'db-1 tcp 3306',
    inbound_rules: [{ from_port: 3306, to_port: 3306, ip_ranges: ['192.0.2.45'] }],
  });
  expect(await ask('/policy_tests')).toEqual([]);
  await place.owner.api.expect(200, 'POST', `${place.base}/trials/${trial.id}/revert`);
});

test('a member allows a flow in the own group, without a policy test', async () => {
  const page = await open(place.member.token, '/flows', { width: 390 });
  await page.getByRole('button', { name: 'Allow this…' }).click();
  const dialog = page.getByRole('dialog', { name: 'Allow tcp 8080 on laptop' });
  await expectShown(dialog.getByText('Only owners add policy tests.'));
  await dialog.getByRole('button', { name: 'Allow it' }).click();
  await expectShown(page.getByText('tcp 8080 is allowed.'));
  const [own] = devices['laptop'].security_groups;
  expect(
    (await place.member.api.expect(200, 'GET', `/api/user/${place.org}/security_groups/${own}`)).inbound_rules,
  ).toMatchObject([{ from_port: 22 }, { from_port: 8080, ip_ranges: ['192.0.2.8'] }]);
});

test('the pages of a device, of its group and of the fleet show what was refused last, and lead to those flows', async () => {
  const page = await open(place.owner.token, `/devices/${devices['db-1'].id}`);
  const refused = page.getByRole('region', { name: 'Recently refused' });
  for (const path of [`/devices/${devices['db-1'].id}`, `/groups/${database.id}`]) {
    if (!page.url().endsWith(path)) await page.goto(`${stage.server.url}/ui/o/${place.org}${path}`);
    await expectShown(refused.getByRole('listitem').filter({ hasText: 'tcp 5432' }));
    await refused.getByRole('link', { name: 'All refused flows' }).click();
    await expectShown(page.getByRole('list', { name: 'Flows' }).getByRole('listitem').filter({ hasText: '192.0.2.7' }));
    expect(await page.getByRole('list', { name: 'Flows' }).getByText('laptop').count()).toBe(0);
  }
  await page.getByRole('link', { name: 'Overview', exact: true }).click();
  await expectShown(refused.getByRole('listitem'));
  await page.getByRole('region', { name: 'Refused packets' }).getByRole('link').click();
  await expectShown(page.getByRole('heading', { name: 'Flows', level: 1 }));
});

test('the overview counts rules that nothing used for days, and removes them in one change after a preview', async () => {
  // A window of days: the group is older, and its device was observed all the time.
  const client = new Client({ connectionString: stage.server.databaseUrl });
  await client.connect();
  try {
    await client.query(`UPDATE history SET at = now() - interval '40 days' WHERE org_id = $1`, [place.org]);
    await client.query(
      `UPDATE refusal_levels SET rules_since = jsonb_build_object('${database.id}', now() - interval '40 days')`,
    );
    await client.query('UPDATE flow_coverage SET all_seconds = 86400, not_recorded = 0 WHERE org_id = $1', [place.org]);
  } finally {
    await client.end();
  }
  const page = await open(place.owner.token, '/overview');
  const line = page.getByRole('region', { name: 'Unused rules' });
  await expectShown(line.getByText('unused for 30 days'));
  await line.getByRole('button', { name: 'Remove it…' }).click();
  const dialog = page.getByRole('dialog', { name: 'Remove 1 unused rule' });
  await expectShown(dialog.getByText('Inbound TCP 5432 (PostgreSQL), label:app'));
  await expectShown(dialog.getByRole('region', { name: 'What the change does' }));
  await dialog.getByRole('button', { name: 'Remove them' }).click();
  await expectShown(page.getByText('1 unused rule removed.'));
  expect((await ask(`/security_groups/${database.id}`)).inbound_rules).toMatchObject([{ from_port: 9187 }]);
  await line.waitFor({ state: 'detached' });
  const member = await open(place.member.token, '/overview');
  await expectShown(member.getByRole('region', { name: 'Last changes' }));
  expect(await member.getByRole('region', { name: 'Unused rules' }).count()).toBe(0);
});

test('a group that begins as watch only shows what it would have refused and admitted or why that is not known, enforces after a preview, and opens no device unasked', async () => {
  const { owner, base } = place;
  await owner.api.expect(200, 'PATCH', base, { observe: 'refused' });
  const page = await open(owner.token, '/groups/new');
  await page.getByRole('textbox', { name: 'Name' }).fill('strict');
  await page.getByRole('checkbox', { name: 'Watch only first' }).check();
  await page.getByRole('button', { name: 'Create the group' }).click();
  await expectShown(page.getByRole('heading', { name: 'strict', level: 1 }));
  const would = page.getByRole('region', { name: 'What this group would have done' });
  await expectShown(would.getByText('No device would have the group'));
  const { id } = (await ask('/security_groups')).find(({ group_name }: Json) => group_name === 'strict');
  const change = (body: Json): Promise<Json> => owner.api.expect(200, 'PATCH', `${base}/security_groups/${id}`, body);
  expect(await change({ applies_to: [{ labels: ['db'] }] })).toMatchObject({ mode: 'observe' });
  await expectShown(would.getByText('Admitted traffic is not recorded, so it is not known'));
  await would.getByRole('button', { name: 'Record admitted packets too' }).click();
  await expectShown(would.getByText('Nothing of the admitted traffic that was observed.'));
  await change({ inbound_rules: [tcp(5432)], outbound_rules: [tcp(53)] });
  const row = (name: string, traffic: string) =>
    would.getByRole('list', { name }).getByRole('listitem').filter({ hasText: traffic });
  const refused = row('Would have refused', 'tcp 443');
  await expectShown(refused.getByText('would refuse', { exact: true }));
  expect(await refused.innerText()).toContain(
    'Refused because no rule admits it. The nearest is strict: tcp 53 to any; its port is 53, not 443.',
  );
  await expectShown(row('Would have admitted', 'tcp 5432').getByText('Admitted by strict: tcp 5432 from any.'));
  await expectShown(would.getByText(/device-days of 1 device/));
  await page.getByRole('button', { name: 'Enforce', exact: true }).click();
  const enforce = page.getByRole('dialog', { name: 'Let strict enforce?' });
  await expectShown(enforce.getByText(/db-1 accepts tcp 5432/));
  await expectShown(enforce.getByRole('button', { name: 'Try it first' }));
  await enforce.getByRole('button', { name: 'Enforce it' }).click();
  await expectShown(page.getByText('strict enforces now.'));
  await would.waitFor({ state: 'detached' });
  // It is the only group of the device now.
  await owner.api.expect(200, 'DELETE', `${base}/security_groups/${database.id}?detach=true`);
  await page.getByRole('button', { name: 'Watch only', exact: true }).click();
  await page.getByRole('button', { name: 'Make it watch only' }).click();
  const opening = page.getByRole('dialog', { name: 'Leave 1 device with the default group?' });
  await expectShown(opening.getByText('db-1'));
  expect((await ask(`/security_groups/${id}`)).mode).toBeUndefined();
  await opening.getByRole('button', { name: 'Change it anyway' }).click();
  await expectShown(page.getByText('strict is watch only: it decides nothing.'));
  await expectShown(would);
  await page.getByRole('link', { name: 'Groups', exact: true }).first().click();
  await expectShown(page.getByRole('listitem').filter({ hasText: 'strict' }).getByText('watch only', { exact: true }));
});

test('the page of an open device leads from recording to proposed rules, a watch-only group, a trial and enforcement, and downloads evidence', async () => {
  const { owner, member, base, org } = await newPlace(stage.server);
  const make = (hostname: string, more: Json): Promise<Json> =>
    owner.api.expect(201, 'POST', `${base}/devices`, { public_key: hostname, hostname, ...more });
  await make('monitor-1', { tunnel_ip: '100.64.0.5', labels: ['monitoring'] });
  await make('monitor-2', { tunnel_ip: '100.64.0.6', labels: ['monitoring'] });
  const web = await make('web-1', { tunnel_ip: '100.64.0.1', labels: ['web'], user_id: member.id });
  const path = `/o/${org}/devices/${web.id}`;
  const page = await stage.open({ token: owner.token, path });
  const panel = page.getByRole('region', { name: 'From open to enforced' });
  const next = panel.locator('[aria-current=step]');
  await expectShown(next.getByText('Agents do not record admitted traffic.'));
  await next.getByRole('button', { name: 'Record admitted packets too' }).click();
  await expectShown(next.getByText('this device has not reported any traffic yet'));
  await stage.server.nobody.as(web.device_token).expect(200, 'POST', `${base}/devices/${web.id}/flows`, {
    since: new Date(Date.now() - 60_000).toISOString(),
    until: new Date().toISOString(),
    observed: 'all',
    tuples: [
      { ...flow, verdict: 'admitted', far: '100.64.0.5', port: 9100, packets: 40 },
      { direction: 'in', verdict: 'admitted', far: '192.0.2.7', protocol: '47', packets: 2 },
    ],
    not_recorded: 0,
  });
  // It lists the address of the monitor, and proves nothing by that.
  const laptop = await make('laptop', { tunnel_ip: '100.64.0.5', user_id: member.id });
  const url = page.url();
  await page.reload();
  await next.getByRole('button', { name: 'Propose rules…' }).click();
  await expectShown(page.getByText(/nothing proves whose it is; listed by 2 devices: laptop, monitor-1/));
  await owner.api.expect(200, 'DELETE', `${base}/devices/${laptop.id}`);
  await page.goto(url);
  await expectShown(panel.getByText(/^Admitted traffic was observed for .* A week shows most/));
  await expectShown(next.getByText('1 rule would admit the observed traffic.'));
  await next.getByRole('button', { name: 'Propose rules…' }).click();
  const dialog = page.getByRole('dialog', { name: 'Propose rules for web-1' });
  const rule = dialog.getByRole('list', { name: 'Proposed rules' }).getByRole('listitem');
  await expectShown(rule.getByText('Inbound TCP 9100 (Node exporter), label:monitoring'));
  await expectShown(rule.getByText(/^40 packets on 1 device, with 1 far address, last /));
  await expectShown(rule.getByText('Its labels also admit 1 device that was not seen: monitor-2'));
  await expectShown(dialog.getByText('The group would refuse 2 of 42 admitted packets.'));
  await dialog.getByText('1 connection that the rules would refuse').click();
  await expectShown(dialog.getByText('web-1 in protocol 47 from 192.0.2.7, 2 packets: no rule admits only this'));
  await dialog.getByText('label:web').click();
  await expect.poll(() => dialog.getByLabel('Name of the group').inputValue()).toBe('proposed: web');
  await dialog.getByRole('button', { name: 'Create the watch-only group' }).click();
  await expectShown(next.getByText('The group would have refused 2 of 42 admitted packets'));
  const made = (await owner.api.expect(200, 'GET', `${base}/security_groups`)).find(({ mode }: Json) => mode);
  expect(made).toMatchObject({
    group_name: 'proposed: web',
    mode: 'observe',
    applies_to: [{ labels: ['web'] }],
    inbound_rules: [{ from_port: 9100, peers: [{ labels: ['monitoring'] }] }],
  });
  await panel.getByRole('button', { name: 'Enforce', exact: true }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Try it first' }).click();
  await page.getByRole('button', { name: 'Start the trial' }).click();
  await expectShown(panel.getByRole('heading', { name: 'Rules are on trial here' }));
  await expectShown(next.getByText(/^It is tried on all its devices until .* Keep or revert it/));
  await page.getByRole('button', { name: 'Keep the change of proposed: web' }).click();
  await panel.waitFor({ state: 'detached' });
  expect(await owner.api.expect(200, 'GET', `${base}/security_groups/${made.id}`)).not.toHaveProperty('mode');

  await page.getByRole('button', { name: 'Evidence', exact: true }).click();
  const download = page.waitForEvent('download');
  await page.getByRole('dialog', { name: 'Evidence about web-1' }).getByRole('button', { name: 'Download' }).click();
  const file = await download;
  expect(file.suggestedFilename()).toMatch(/^evidence-web-1-\d{4}-\d\d-\d\d-\d{4}-\d\d-\d\d\.json$/);
  await expectShown(page.getByRole('heading', { name: 'Evidence about web-1', level: 1 }));
  await expectShown(page.getByText('proposed: web inbound tcp 9100').first());

  // An auditor has the file and no account.
  const auditor = await stage.open({ path: '/evidence' });
  await auditor
    .locator('input[type=file]')
    .setInputFiles({ name: 'notes.json', mimeType: 'application/json', buffer: Buffer.from('{}') });
  await expectShown(auditor.getByText('This is no evidence'));
  await auditor.locator('input[type=file]').setInputFiles(await file.path());
  await expectShown(auditor.getByRole('heading', { name: 'Evidence about web-1', level: 1 }));

  const theirs = await stage.open({ token: member.token, path });
  await expectShown(theirs.getByRole('heading', { name: 'web-1', level: 1 }));
  expect(await theirs.getByRole('button', { name: 'Evidence' }).count()).toBe(0);
});
