/** Proves the editing of groups in a real browser: rules in place, problems at their field, two editors, undo, guard and rights. */
import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, test } from 'vitest';
import type { Json } from '../lib/http.ts';
import { expectShown } from '../lib/browser.ts';
import { withRules } from '../lib/reported-rules.ts';
import { newPlace, type Place } from '../lib/server.ts';
import { useStage } from './stage.fixture.ts';

const stage = useStage();
let place: Place;
beforeAll(async () => {
  place = await newPlace(stage.server);
});

const open = (token: string, path: string): Promise<Page> => stage.open({ token, path: `/o/${place.org}${path}` });

const tcp = (port: number): Json => ({ ip_protocol: 'tcp', from_port: port, to_port: port });
let count = 0;
const newGroup = (inbound_rules: readonly Json[] = [tcp(443)]): Promise<Json> =>
  place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, {
    group_name: `group ${(count += 1)}`,
    inbound_rules,
  });
const read = (id: string): Promise<Json> => place.owner.api.expect(200, 'GET', `${place.base}/security_groups/${id}`);
const inbound = (page: Page, field: string, rule: number) =>
  page.getByLabel(`${field} of inbound rule ${rule}`).first();

describe('making a group', () => {
  test('rules are added blank and from services, in both directions, and stored as the server understands them', async () => {
    const page = await open(place.member.token, '/groups/new');
    await page.getByRole('textbox', { name: 'Name' }).fill('my servers');
    await expectShown(page.getByText('no connection to the device can be opened'));
    await expectShown(page.getByText('The first rule here closes everything else.'));
    await page.getByRole('button', { name: 'Add service, inbound' }).click();
    await page.getByRole('menuitem', { name: 'PostgreSQL' }).click();
    const question = page.getByRole('dialog', { name: 'PostgreSQL: from whom?' });
    await question.getByLabel('From').first().fill('10.0.0.0/8, fd00::1-fd00::ff');
    await page.keyboard.press('Enter');
    await question.getByRole('button', { name: 'Add the rule' }).click();
    await question.waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Describe inbound rule 1' }).click();
    await page.getByLabel('Description of inbound rule 1').fill('nightly import');
    await page.getByRole('button', { name: 'Add outbound rule' }).click();
    await page.getByLabel('Protocol of outbound rule 1').selectOption('ip');
    await page.getByLabel('Ports of outbound rule 1').fill('53');
    await page.getByRole('button', { name: 'Create the group' }).click();
    await expectShown(page.getByRole('heading', { name: 'my servers' }));
    const [made] = await place.member.api.expect(200, 'GET', `/api/user/${place.org}/security_groups`);
    expect(made.user_id).toBe(place.member.id);
    expect(made.inbound_rules).toEqual([
      { ...tcp(5432), ip_ranges: ['10.0.0.0/8', 'fd00::1-fd00::ff'], description: 'nightly import' },
    ]);
    expect(made.outbound_rules.map((rule: Json) => rule.ip_protocol)).toEqual(['tcp', 'udp']);
  });

  test('an owner makes one for the organization, as a copy of another', async () => {
    const group = await newGroup([tcp(8443)]);
    const page = await open(place.owner.token, `/groups/${group.id}?edit=true`);
    await page.getByRole('button', { name: 'Duplicate' }).click();
    await expectShown(page.getByText('every device of the organization can carry it'));
    await page.getByRole('button', { name: 'Create the group' }).click();
    await expectShown(page.getByRole('heading', { name: `${group.group_name} copy` }));
    const groups = await place.owner.api.expect(200, 'GET', `${place.base}/security_groups`);
    const copy = groups.find((one: Json) => one.group_name === `${group.group_name} copy`);
    expect([copy.user_id, copy.inbound_rules]).toEqual([undefined, [tcp(8443)]]);
    await page.goto(`${stage.server.url}/ui/o/${place.org}/groups/new?from=${group.id}`);
    await page.getByRole('textbox', { name: 'Name' }).fill(group.group_name);
    await page.getByRole('button', { name: 'Create the group' }).click();
    const question = page.getByRole('dialog', { name: 'Use this name twice?' });
    await question.getByRole('button', { name: 'Cancel' }).click();
    await question.waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Create the group' }).click();
    await question.getByRole('button', { name: 'Create a second group' }).click();
    await expectShown(page.getByRole('heading', { name: group.group_name, exact: true }));
  });
});

describe('editing a group', () => {
  test('wrong input is told at its field in the words of the stage.server, and cannot be saved', async () => {
    const group = await newGroup();
    const page = await open(place.owner.token, `/groups/${group.id}?edit=true`);
    await inbound(page, 'Ports', 1).fill('70000');
    await expectShown(page.getByText('a port must be between 1 and 65535, got 70000.'));
    await inbound(page, 'Addresses', 1).fill('10.0.0.300');
    await page.keyboard.press('Enter');
    const fault = page.getByText(/"10\.0\.0\.300"/);
    await expectShown(fault);
    const refused = await place.owner.api.ask('PATCH', `${place.base}/security_groups/${group.id}`, {
      body: { inbound_rules: [{ ...tcp(1), ip_ranges: ['10.0.0.300'] }] },
    });
    expect(await fault.first().innerText()).toBe(refused.json.errors[0].detail);
    expect(await page.getByRole('button', { name: 'Save' }).isDisabled()).toBe(true);
    await expectShown(page.getByText(/problems? to solve before saving/));
    await page.getByRole('button', { name: 'Discard' }).click();
    await page.getByRole('region', { name: 'Unsaved changes' }).waitFor({ state: 'detached' });
  });

  test('the preview begins with who gains access by name, shows rules and nftables behind it, and the save can be undone', async () => {
    const group = await newGroup();
    await place.owner.api.expect(201, 'POST', `${place.base}/devices`, {
      public_key: 'carrier',
      hostname: 'carrier',
      security_groups: [group.id],
    });
    const page = await open(place.owner.token, `/groups/${group.id}?edit=true`);
    await page.getByRole('button', { name: 'Copy inbound rule 1' }).click();
    await inbound(page, 'Ports', 2).fill('8000-8100');
    await page.getByRole('button', { name: 'Preview' }).click();
    const dialog = page.getByRole('dialog');
    await expectShown(dialog.getByText('1 device admits more.'));
    await expectShown(dialog.getByText('carrier accepts tcp 8000-8100 from any address'));
    await expectShown(dialog.getByText('The present policy is not in force on carrier (never seen)'));
    await dialog.getByText('Exact addresses and ports').click();
    await expectShown(dialog.getByRole('cell', { name: '0.0.0.0/0, ::/0' }));
    await dialog.getByText('1 change of the group').click();
    await expectShown(dialog.getByText('Inbound TCP 8000-8100, any address'));
    await dialog.getByText('nftables', { exact: true }).click();
    await expectShown(dialog.getByText(/8000-8100 : goto from-/));
    await dialog.getByRole('button', { name: 'Save these changes' }).click();
    await expectShown(page.getByText('On its way to 1 device.'));
    expect((await read(group.id)).inbound_rules).toHaveLength(2);
    await page.getByRole('button', { name: 'Undo' }).click();
    await expectShown(page.getByText('Undone.'));
    expect((await read(group.id)).inbound_rules).toEqual([tcp(443)]);
    await page.getByLabel('Ports of inbound rule 2').waitFor({ state: 'detached' });
  });

  test('its timeline tells who changed which rule, and an older state comes back after a look at what that changes', async () => {
    const group = await newGroup([tcp(443)]);
    const url = `${place.base}/security_groups/${group.id}`;
    await place.owner.api.expect(200, 'PATCH', url, { inbound_rules: [tcp(443), tcp(22)] });
    await place.owner.api.expect(200, 'PATCH', url, { inbound_rules: [tcp(22)] });
    const page = await open(place.owner.token, `/groups/${group.id}?edit=true`);
    const moments = page.getByRole('region', { name: 'Timeline' }).locator('.moment');
    await expectShown(moments.nth(2));
    const [now, middle, first] = await moments.allInnerTexts();
    expect(now).toContain('in tcp 443 from any');
    expect(middle).toContain('in tcp 22 from any');
    expect(first).toContain(`${place.owner.username} created it`);
    const restore = moments.nth(1).getByRole('button', { name: /^Restore this/ });
    await restore.click();
    const dialog = page.getByRole('dialog');
    await expectShown(dialog.getByText('Inbound TCP 443 (HTTPS), any address'));
    await expectShown(dialog.getByText('Open to everybody who can reach a device: SSH.'));
    // Somebody saves between the look and the step: the step is refused, and the look shows what is there now.
    await place.owner.api.expect(200, 'PATCH', url, { inbound_rules: [] });
    await expectShown(dialog.getByText('Inbound TCP 22 (SSH), any address'));
    await page.getByRole('button', { name: 'Restore it' }).click();
    await expectShown(page.getByText(`${group.group_name} is restored.`));
    await expectShown(inbound(page, 'Ports', 2));
    expect((await read(group.id)).inbound_rules.map(({ from_port }: Json) => from_port)).toEqual([443, 22]);
    await page.getByRole('button', { name: 'Undo' }).click();
    await expectShown(page.getByText('Undone.'));
    expect((await read(group.id)).inbound_rules).toBeUndefined();
  });

  test('two people edit at once: the second sees both sides and keeps both', async () => {
    const group = await newGroup([tcp(80), tcp(22)]);
    const [first, second] = [
      await open(place.owner.token, `/groups/${group.id}?edit=true`),
      await open(place.owner.token, `/groups/${group.id}?edit=true`),
    ];
    await inbound(second, 'Ports', 1).fill('8080');
    await first.getByRole('button', { name: 'Remove inbound rule 2' }).click();
    await first.getByRole('button', { name: 'Save' }).click();
    await expectShown(second.getByText('Someone else just saved this group.'));
    await second.getByRole('button', { name: 'Save' }).click();
    const dialog = second.getByRole('dialog');
    await expectShown(dialog.getByRole('region', { name: 'Their changes' }).getByText('Inbound TCP 22 (SSH)'));
    await expectShown(dialog.getByRole('region', { name: 'Your changes' }).getByText('Inbound TCP 8080'));
    await dialog.getByRole('button', { name: 'Keep both' }).click();
    await dialog.waitFor({ state: 'detached' });
    expect((await read(group.id)).inbound_rules).toEqual([tcp(8080)]);
    // The first has nothing unsaved: it follows by itself.
    await first.waitForFunction(`document.querySelector('[aria-label="Ports of inbound rule 1"]')?.value === '8080'`);
  });

  test('shows which rules the observed traffic used, and drafts the group without the others', async () => {
    const { owner, base } = place;
    await owner.api.expect(200, 'PATCH', base, { observe: 'all' });
    const group = await owner.api.expect(201, 'POST', `${base}/security_groups`, {
      group_name: 'observed',
      inbound_rules: [tcp(5432), tcp(9100)],
    });
    const device = await owner.api.expect(201, 'POST', `${base}/devices`, {
      public_key: 'observed',
      security_groups: [group.id],
    });
    await stage.server.nobody.as(device.device_token).expect(200, 'POST', `${base}/devices/${device.id}/flows`, {
      since: new Date(Date.now() - 60_000).toISOString(),
      until: new Date().toISOString(),
      observed: 'all',
      not_recorded: 0,
      ...withRules(
        [{ direction: 'in', verdict: 'admitted', far: '100.64.0.7', protocol: 'tcp', port: 5432, packets: 2 }],
        [group],
      ),
    });
    const page = await open(owner.token, `/groups/${group.id}`);
    const usage = page.getByRole('region', { name: 'Usage' });
    await expectShown(usage.getByText('2 packets'));
    await usage.getByRole('button', { name: 'Draft without the 1 unused rule' }).click();
    await page.getByLabel('Ports of inbound rule 2').waitFor({ state: 'detached' });
    expect(await inbound(page, 'Ports', 1).inputValue()).toBe('5432');
  });

  test('leaving with unsaved changes is asked about', async () => {
    const group = await newGroup();
    const page = await open(place.owner.token, `/groups/${group.id}?edit=true`);
    await page.getByRole('textbox', { name: 'Description', exact: true }).fill('half written');
    await page.getByRole('link', { name: 'Devices' }).first().click();
    await page.getByRole('button', { name: 'Stay here' }).click();
    expect(await page.getByRole('textbox', { name: 'Description', exact: true }).inputValue()).toBe('half written');
    await page.getByRole('link', { name: 'Devices' }).first().click();
    await page.getByRole('button', { name: 'Leave and lose them' }).click();
    await expectShown(page.getByRole('heading', { name: 'Devices', level: 1 }));
    expect((await read(group.id)).group_description).toBe('');
  });

  test('opens from the read view, which shows rules as sentences with counts, and goes back to it', async () => {
    await place.owner.api.expect(201, 'POST', `${place.base}/devices`, { public_key: 'read', labels: ['read'] });
    const group = await newGroup([{ ...tcp(443), peers: [{ labels: ['read'] }] }]);
    const page = await open(place.owner.token, `/groups/${group.id}`);
    const rules = page.getByRole('region', { name: 'inbound rules' });
    await expectShown(rules.getByText('read · 1 device'));
    await expectShown(page.getByRole('region', { name: 'Usage' }).getByText('unknown', { exact: true }));
    expect(await page.getByRole('group', { name: 'Group editor' }).count()).toBe(0);
    await page.getByRole('button', { name: 'Edit', exact: true }).click();
    await inbound(page, 'Ports', 1).fill('8443');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await expectShown(page.getByText(/^Saved\./));
    await page.getByRole('button', { name: 'Done', exact: true }).click();
    await expectShown(rules.getByText('8443'));
    expect(await page.getByRole('group', { name: 'Group editor' }).count()).toBe(0);
  });

  test('works by keyboard alone, and asks before a second group gets the same name', async () => {
    const group = await newGroup();
    const other = await newGroup();
    await place.owner.api.expect(200, 'PATCH', `${place.base}/security_groups/${other.id}`, { group_name: 'taken' });
    const page = await open(place.owner.token, `/groups/${group.id}`);
    await page.getByRole('button', { name: 'Edit', exact: true }).focus();
    await page.keyboard.press('Enter');
    await inbound(page, 'Ports', 1).focus();
    await page.keyboard.press('Control+a');
    await page.keyboard.type('8443');
    await page.keyboard.press('Control+s');
    await expectShown(page.getByText(/^Saved\./));
    expect((await read(group.id)).inbound_rules).toEqual([tcp(8443)]);
    await page.getByRole('textbox', { name: 'Name' }).fill('taken');
    await page.keyboard.press('Control+s');
    const question = page.getByRole('dialog', { name: 'Use this name twice?' });
    await expectShown(question);
    await page.keyboard.press('Escape');
    await question.waitFor({ state: 'detached' });
    expect((await read(group.id)).group_name).not.toBe('taken');
    await page.getByRole('textbox', { name: 'Name' }).focus();
    await page.keyboard.press('Control+s');
    await question.getByRole('button', { name: 'Rename it' }).click();
    await expect.poll(async () => (await read(group.id)).group_name).toBe('taken');
  });
});

describe('names', () => {
  const device = (hostname: string, more: object = {}): Promise<Json> =>
    place.owner.api.expect(201, 'POST', `${place.base}/devices`, { public_key: hostname, hostname, ...more });

  test('labels and devices are suggested with what they stand for, stored as peers, and shown by name', async () => {
    await device('peer-1', { labels: ['peers'], tunnel_ip: '100.64.7.1' });
    const gone = await device('peer-2', { tunnel_ip: '100.64.7.2' });
    const group = await newGroup([
      { ...tcp(22), ip_ranges: ['100.64.7.1'], peers: [{ device_id: gone.id }] },
      tcp(5432),
    ]);
    await place.owner.api.expect(200, 'DELETE', `${place.base}/devices/${gone.id}`);
    const page = await open(place.owner.token, `/groups/${group.id}?edit=true`);
    const rules = page.getByRole('region', { name: 'inbound rules' });
    await expectShown(rules.getByText('100.64.7.1 peer-1'));
    await expectShown(rules.getByText('gone', { exact: true }));
    await inbound(page, 'Addresses', 2).fill('label:peer');
    await expectShown(page.getByRole('option', { name: /label:peers.*1 device/ }));
    await page.getByRole('option', { name: /label:peers/ }).click();
    await inbound(page, 'Addresses', 2).fill('device:peer-1, label:Wrong');
    await page.keyboard.press('Enter');
    await expectShown(page.getByText(/"Wrong" has upper-case letters/));
    expect(await page.getByRole('button', { name: 'Save' }).isDisabled()).toBe(true);
    await page.keyboard.press('Backspace');
    await inbound(page, 'Addresses', 2).fill('lable:app');
    await page.keyboard.press('Enter');
    await expectShown(page.getByText('“lable:app” names no devices. Did you mean “label:app”?'));
    await page.keyboard.press('Backspace');
    await inbound(page, 'Addresses', 2).fill('label:peer');
    await page.keyboard.press('Enter');
    await expectShown(page.getByText('No device has label “peer”. Did you mean “peers”?'));
    await page.keyboard.press('Backspace');
    await page.getByText('No device has label “peer”').waitFor({ state: 'detached' });
    // The syntax is behind a question mark.
    expect(await page.getByText('labels trust owners only').count()).toBe(0);
    await page.getByRole('button', { name: 'How to write inbound rules' }).click();
    await expectShown(page.getByText('labels trust owners only'));
    await page.keyboard.press('Escape');
    await page.getByLabel('Applies to').first().fill('label:db');
    await page.keyboard.press('Enter');
    await expectShown(page.getByText('No device has label “db” yet.'));
    await page.keyboard.press('Control+s');
    await expectShown(page.getByText(/^Saved\./));
    const saved = await read(group.id);
    expect(saved.applies_to).toEqual([{ labels: ['db'] }]);
    expect(saved.inbound_rules[1].peers).toEqual([{ labels: ['peers'] }, { device_id: expect.any(String) }]);
    await expectShown(page.getByText('applies to label:db'));
  });

  test('an owner makes a guardrail, and a rule that it makes void is warned of when it is saved', async () => {
    const page = await open(place.owner.token, '/groups/new');
    await page.getByText('Guardrail: forbid', { exact: true }).click();
    await page.getByRole('textbox', { name: 'Name' }).fill('no telnet');
    await page.getByRole('button', { name: 'Add inbound rule' }).click();
    await inbound(page, 'Ports', 1).fill('23');
    await expectShown(page.getByText('A guardrail needs applies_to'));
    await page.getByLabel('Applies to').first().fill('label:guarded');
    await page.keyboard.press('Enter');
    await page.keyboard.press('Tab');
    await page.getByRole('button', { name: 'Create the group' }).click();
    await expectShown(page.getByText('guardrail: forbid'));
    await device('guarded-1', { labels: ['guarded'] });
    const group = await newGroup();
    await place.owner.api.expect(200, 'PATCH', `${place.base}/security_groups/${group.id}`, {
      applies_to: [{ labels: ['guarded'] }],
    });
    await page.goto(`${stage.server.url}/ui/o/${place.org}/groups/${group.id}?edit=true`);
    await inbound(page, 'Ports', 1).fill('23');
    await page.keyboard.press('Control+s');
    await expectShown(page.getByRole('status').filter({ hasText: 'no telnet' }));
  });
});

describe('a group and its devices', () => {
  test('it is attached to several devices and detached from its own page, and deleted off those that carry it', async () => {
    const group = await newGroup();
    const make = (hostname: string, labels: readonly string[] = []): Promise<Json> =>
      place.owner.api.expect(201, 'POST', `${place.base}/devices`, { public_key: hostname, hostname, labels });
    const shelf = { group_name: 'shelf', applies_to: [{ labels: ['shelf'] }] };
    await place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, shelf);
    await make('attach-three', ['shelf']);
    const [one, two] = [await make('attach-one'), await make('attach-two')];
    const listOf = async (device: Json): Promise<Json> =>
      (await place.owner.api.expect(200, 'GET', `${place.base}/devices/${device.id}`)).security_groups;
    const page = await open(place.owner.token, `/groups/${group.id}`);
    await page.getByRole('button', { name: 'Attach to devices' }).click();
    await page.getByRole('textbox', { name: 'Search devices' }).fill('attach-');
    const rows = page.getByRole('dialog').getByRole('listitem');
    await expectShown(rows.filter({ hasText: 'attach-one' }).getByText('default group'));
    await expectShown(rows.filter({ hasText: 'attach-three' }).getByText('1 group'));
    await page.getByRole('checkbox', { name: 'attach-one' }).check();
    await page.getByRole('checkbox', { name: 'attach-two' }).check();
    await page.getByRole('button', { name: 'Attach to 2 devices' }).click();
    await expectShown(page.getByText('applies to 2 more devices.'));
    expect([await listOf(one), await listOf(two)]).toEqual([[group.id], [group.id]]);
    await page.getByRole('button', { name: 'Detach from attach-one' }).click();
    await expectShown(page.getByText('the default group applies there again'));
    expect(await listOf(one)).toBeUndefined();
    await page.getByRole('button', { name: 'Delete' }).click();
    await expectShown(page.getByRole('dialog').getByText('attach-two uses the group. It is taken off it.'));
    await expectShown(page.getByRole('dialog').getByText('attach-two accepts udp from any address'));
    await page.getByRole('button', { name: 'Take it off and delete it' }).click();
    await expectShown(page.getByRole('heading', { name: 'Groups', level: 1 }));
    expect((await place.owner.api.get(`${place.base}/security_groups/${group.id}`)).status).toBe(404);
    expect(await listOf(two)).toBeUndefined();
  });

  test('the default group is reset, never deleted', async () => {
    const url = `${place.base}/security_groups/${place.defaultGroup}`;
    await place.owner.api.expect(200, 'PATCH', url, { inbound_rules: [] });
    const page = await open(place.owner.token, `/groups/${place.defaultGroup}`);
    await page.getByRole('button', { name: 'Reset' }).click();
    await page.getByRole('button', { name: 'Reset it' }).click();
    await expectShown(page.getByText('as it was in the beginning'));
    const groups = await place.owner.api.expect(200, 'GET', `${place.base}/security_groups`);
    expect(groups.find((group: Json) => group.is_default).inbound_rules).toHaveLength(4);
  });

  test("a member reads the organization's group and is offered no change; the server refuses one too", async () => {
    const group = await newGroup();
    const page = await open(place.member.token, `/groups/${group.id}`);
    await expectShown(page.getByText("Only the organization's owner changes this group."));
    await expectShown(page.getByRole('region', { name: 'inbound rules' }).getByText('443'));
    for (const name of ['Delete', 'Add inbound rule', 'Save']) {
      expect(await page.getByRole('button', { name }).count()).toBe(0);
    }
    const url = `${place.base}/security_groups/${group.id}`;
    expect((await place.member.api.patch(url, { inbound_rules: [] })).status).toBe(403);
  });
});
