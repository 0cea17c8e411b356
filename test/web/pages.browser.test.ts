/** Proves the frame and the lists in a real browser: signing in, organizations, devices, members, and what a member is not offered. */
import { statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { expectShown, isNeeded } from '../lib/browser.ts';
import type { Json } from '../lib/http.ts';
import { newPerson, newPlace, type Place } from '../lib/server.ts';
import { useStage } from './stage.fixture.ts';

const stage = useStage();

const { open } = stage;

let key = 0;
const addDevice = (place: Place, hostname: string, more: object = {}): Promise<{ id: string; revision: number }> =>
  place.owner.api.expect(201, 'POST', `${place.base}/devices`, { public_key: `key-${(key += 1)}`, hostname, ...more });

describe('signing in', () => {
  test('a token opens the pages, is kept on reload, and signing out forgets it', async () => {
    const place = await newPlace(stage.server);
    const page = await open();
    await page.getByRole('textbox', { name: 'Token' }).fill(place.owner.token);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await expectShown(page.getByRole('heading', { name: 'Overview', level: 1 }));
    await page.reload();
    await expectShown(page.getByRole('heading', { name: 'Overview', level: 1 }));
    await page.getByRole('button', { name: `${place.owner.username}: account` }).click();
    await page.getByRole('menuitem', { name: 'Sign out' }).click();
    await expectShown(page.getByRole('button', { name: 'Sign in' }));
    expect(await page.evaluate('JSON.stringify([{ ...sessionStorage }, { ...localStorage }])')).not.toContain(
      'rf_user_',
    );
  });

  test('a wrong token, an empty field and the token of a device are refused with a reason', async () => {
    const place = await newPlace(stage.server);
    const page = await open();
    const field = page.getByRole('textbox', { name: 'Token' });
    await page.getByRole('button', { name: 'Sign in' }).click();
    await expectShown(page.getByText('Paste your token here.'));
    await field.fill('rf_user_wrong');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await expectShown(page.getByText('does not accept this token'));
    const device = await place.owner.api.expect(201, 'POST', `${place.base}/devices`, { public_key: 'with-token' });
    await field.fill(device.device_token);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await expectShown(page.getByText('belongs to a device'));
  });

  test('what the HTML says before any script stands where the script draws it: nothing moves, and nothing is drawn twice', async () => {
    const page = await open();
    const places = (): Promise<unknown> =>
      page.evaluate(
        `[...document.querySelectorAll('main.splash > *')].map((part) => [part.localName, part.getBoundingClientRect().toJSON()])`,
      );
    await page.route('**/*.js', (route) => route.abort());
    await page.reload();
    const before = await places();
    expect(before).toHaveLength(3);
    await page.unroute('**/*.js');
    // Never answered, so that the page stays between signed in and signed out.
    await page.route('**/api/auth', () => undefined);
    await page.reload();
    await expectShown(page.getByText('Signing in…'));
    expect(await places()).toEqual(before);
  });

  test('a token that is revoked ends the session, and the page says so', async () => {
    const person = await newPerson(stage.server);
    await person.api.expect(201, 'POST', '/api/organizations', { name: 'short-lived' });
    const issued = await person.api.expect(201, 'POST', '/api/users/me/tokens', {});
    const page = await open({ token: issued.token });
    await expectShown(page.getByRole('heading', { name: 'Overview', level: 1 }));
    await person.api.expect(200, 'DELETE', `/api/tokens/${issued.id}`);
    await expectShown(page.getByText('no longer valid'));
  });
});

describe('organizations', () => {
  test('someone in no organization is led to making one, and can switch between several', async () => {
    const person = await newPerson(stage.server);
    const page = await open({ token: person.token });
    await expectShown(page.getByRole('heading', { name: `Welcome, ${person.username}` }));
    await page.getByRole('button', { name: 'New organization' }).click();
    await page.getByRole('textbox', { name: 'Name' }).fill('first house');
    await page.getByRole('button', { name: 'Create' }).click();
    const steps = page.getByRole('region', { name: 'First steps' });
    await expectShown(steps.getByText('0 of 4 done'));
    await expectShown(steps.getByRole('link', { name: 'Add devices' }));
    await person.api.expect(201, 'POST', '/api/organizations', { name: 'second house' });
    await page.reload();
    await page.getByRole('button', { name: /Organization: first house/ }).click();
    await page.getByRole('menuitem', { name: /second house/ }).click();
    await expectShown(page.getByRole('button', { name: /Organization: second house/ }));
    // A new visitor starts in the organization with the most devices.
    const fullest = (await person.api.expect(200, 'GET', '/api/organizations')).at(-1);
    const device = { public_key: 'k', hostname: 'one' };
    await person.api.expect(201, 'POST', `/api/organizations/${fullest.id}/devices`, device);
    await page.evaluate('localStorage.clear()');
    await page.goto(`${stage.server.url}/ui/`);
    await expectShown(page.getByRole('button', { name: `Organization: ${fullest.name}. Switch` }));
  });

  test('an organization of others is answered with a way back', async () => {
    const [place, person] = [await newPlace(stage.server), await newPerson(stage.server)];
    const page = await open({ token: person.token, path: `/o/${place.org}/devices` });
    await expectShown(page.getByRole('heading', { name: 'You are not in this organization' }));
  });

  test('an owner adds members, shares ownership and removes them, with or without their devices; a member is offered only to leave', async () => {
    const place = await newPlace(stage.server);
    const page = await open({ token: place.owner.token, path: `/o/${place.org}/members` });
    const field = page.getByRole('textbox', { name: 'Username or e-mail of the new member' });
    await field.fill('nobody-of-this-name');
    await page.getByRole('button', { name: 'Add member' }).click();
    await expectShown(page.locator('.mantine-TextInput-error'));
    await field.fill(place.stranger.username);
    await page.getByLabel('Role of the new member').selectOption('owner');
    await page.getByRole('button', { name: 'Add member' }).click();
    await expectShown(page.getByText(`${place.stranger.username} is an owner now.`));
    const theirs = { public_key: 'of the stranger', user_id: place.stranger.id };
    const device = await place.owner.api.expect(201, 'POST', `${place.base}/devices`, theirs);
    await page.getByRole('button', { name: `Make member: ${place.stranger.username}` }).click();
    await expectShown(page.getByText(`${place.stranger.username} is a member now.`));
    await page.getByRole('button', { name: `Remove ${place.stranger.username}` }).click();
    await page.getByRole('checkbox', { name: 'Take over their 1 device instead of deleting' }).check();
    await page.getByRole('button', { name: 'Remove the member' }).click();
    await expectShown(page.getByText(`${place.stranger.username} is no longer a member.`));
    const kept = await place.owner.api.expect(200, 'GET', `${place.base}/devices/${device.id}`);
    expect(kept.user_id).toBe(place.owner.id);

    const other = await open({ token: place.member.token, path: `/o/${place.org}/members` });
    await expectShown(other.getByRole('button', { name: 'Leave the organization' }));
    expect(await other.getByRole('button', { name: 'Add member' }).count()).toBe(0);
    expect(await other.getByRole('button', { name: /^Remove/ }).count()).toBe(0);
    expect(await other.getByRole('button', { name: 'Delete the organization' }).count()).toBe(0);

    await page.getByRole('button', { name: 'Delete the organization' }).click();
    const question = page.getByRole('dialog');
    const last = question.getByRole('button', { name: 'Delete the organization' });
    expect(await last.isDisabled()).toBe(true);
    const { name } = await place.owner.api.expect(200, 'GET', place.base);
    await question.getByRole('textbox', { name: /^Type its name/ }).fill(name as string);
    await last.click();
    await expectShown(page.getByRole('heading', { name: `Welcome, ${place.owner.username}` }));
  });
});

describe('the overview', () => {
  test('tells how the fleet stands, leads to each exception and to the devices that admit everything, and follows what happens', async () => {
    const place = await newPlace(stage.server);
    const group = await place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, { group_name: 'web' });
    const report = (id: string, status: object): Promise<unknown> =>
      place.owner.api.expect(200, 'PUT', `${place.base}/devices/${id}/status`, status);
    const failing = await addDevice(place, 'failing', { security_groups: [group.id] });
    await addDevice(place, 'unseen', { security_groups: [group.id] });
    await addDevice(place, 'open-one');
    const packets = { admitted: 1_500, refused: 40 };
    await report(failing.id, { state: 'failed', detail: 'the kernel refused line 7', packets });
    await place.member.api.expect(201, 'POST', `${place.base}/enrollment_keys`, { name: 'next rack' });
    const page = await open({ token: place.owner.token });
    await expectShown(page.getByRole('heading', { name: 'Overview', level: 1 }));
    const state = page.getByRole('region', { name: 'In force' });
    await expectShown(state.getByText('of 3 devices in force'));
    const urgent = page.getByRole('region', { name: 'Needs attention' }).getByRole('listitem');
    await expect.poll(() => urgent.count()).toBe(3);
    expect(await urgent.first().innerText()).toMatch(/Failed[^]*failing[^]*the kernel refused line 7/);
    await addDevice(place, 'unseen-too', { security_groups: [group.id] });
    await expectShown(urgent.getByRole('link', { name: '3 devices' }));
    await expect.poll(() => urgent.count()).toBe(2);
    expect(await urgent.last().innerText()).toMatch(/Never seen[^]*have never reported: [^]*unseen-too/);
    await urgent.first().locator('summary').press('Enter');
    await expectShown(urgent.first().getByText('What to do: run'));
    await expectShown(page.getByRole('region', { name: 'Last changes' }).getByText('open-one'));
    await expect
      .poll(() => page.getByRole('region', { name: 'Refused packets' }).innerText(), { timeout: 60_000 })
      .toContain('40');
    expect(await page.getByRole('region', { name: 'Admitted packets' }).innerText()).toContain('1.5K');
    await report(failing.id, { state: 'reverted', detail: 'the server was cut off' });
    await expectShown(urgent.getByText('Reverted'));
    await page.getByRole('link', { name: '1 device', exact: true }).click();
    await expectShown(page.getByText('1 of 4 devices, those that admit everything'));
    await expectShown(page.getByRole('link', { name: 'open-one' }));
    await page.goBack();
    await urgent.getByRole('link', { name: '3 devices' }).click();
    await expectShown(page.getByText('3 of 4 devices'));
    expect(page.url()).toContain('state=never_seen');

    const member = await open({ token: place.member.token });
    await expectShown(member.getByRole('region', { name: 'Ends soon' }).getByText('next rack'));
    await expectShown(member.getByRole('region', { name: 'Last changes' }).getByText('open-one'));
  });

  test('is the first page, and all that it loads is less than 350 KB compressed', async () => {
    const place = await newPlace(stage.server);
    await addDevice(place, 'one');
    const page = await open({ token: place.owner.token });
    await expectShown(page.getByText('0 connected'));
    const names = (await page.evaluate(
      `performance.getEntriesByType('resource').filter(${isNeeded}).map(({ name }) => new URL(name).pathname).filter((path) => path.startsWith('/ui/'))`,
    )) as readonly string[];
    const dist = fileURLToPath(new URL('../../dist', import.meta.url));
    const sizes = [...new Set(names)].map((path) => statSync(`${dist}${path}.gz`).size);
    expect([sizes.length > 2, sizes.length < 18]).toEqual([true, true]);
    expect(sizes.reduce((sum, size) => sum + size, 0) / 1_024).toBeLessThan(350);
  });
});

describe('devices', () => {
  test('are listed with what applies, found by search, filtered by group and user, and sorted', async () => {
    const place = await newPlace(stage.server);
    const group = await place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, { group_name: 'web' });
    await addDevice(place, 'alpha', { tunnel_ip: '100.64.0.9' });
    await addDevice(place, 'beta', { tunnel_ip: '100.64.0.10', security_groups: [group.id] });
    await addDevice(place, 'gamma', { user_id: place.member.id });
    const page = await open({ token: place.owner.token, path: `/o/${place.org}/devices` });
    const rows = page.getByRole('region', { name: 'Devices' }).getByRole('listitem');
    const names = async (): Promise<string[]> => rows.locator('a').allInnerTexts();
    await expectShown(page.getByText('3 devices'));
    await expect.poll(names).toEqual(['alpha', 'beta', 'gamma']);
    await page.getByRole('button', { name: /Sort by Name/ }).click();
    await expect.poll(names).toEqual(['gamma', 'beta', 'alpha']);
    await page.getByRole('textbox', { name: 'Search devices' }).fill('64.0.1');
    await expectShown(page.getByText('1 of 3 devices'));
    await expect.poll(names).toEqual(['beta']);
    await page.getByRole('textbox', { name: 'Search devices' }).fill('nowhere');
    // Offered twice: beside the filters, and a moment later where the list would be.
    await expectShown(page.getByRole('heading', { name: 'No device matches' }));
    // Closed lists are not rendered.
    expect(await page.locator('[role=option]').count()).toBe(0);
    const filters = page.getByRole('search', { name: 'Devices' });
    await filters.getByRole('button', { name: 'Show every device' }).click();
    await page.getByRole('button', { name: 'Filter', exact: true }).click();
    await page.getByRole('combobox', { name: 'Filter by group' }).click();
    await page.getByRole('option', { name: 'web' }).click();
    await expectShown(page.getByText('1 of 3 devices'));
    expect(await rows.innerText()).toContain('web');
    await page.goto(`${stage.server.url}/ui/o/${place.org}/devices?user=${place.member.id}`);
    await expectShown(page.getByText('1 of 3 devices'));
    await expect.poll(names).toEqual(['gamma']);
  });

  test('are filtered by state, version and label in the address, sorted with the worst first, and a view is kept as a link', async () => {
    const place = await newPlace(stage.server);
    const report = async (hostname: string, more: object, status?: object): Promise<void> => {
      const { id } = await addDevice(place, hostname, more);
      if (status !== undefined)
        await place.owner.api.expect(200, 'PUT', `${place.base}/devices/${id}/status`, { state: 'applied', ...status });
    };
    await report('a-old', { labels: ['edge'] }, { agent_version: '0.9.0' });
    await report('b-new', { labels: ['edge'] }, { agent_version: '0.10.0' });
    await report('c-failed', {}, { state: 'failed', agent_version: '0.10.0', detail: 'no nft' });
    await report('d-silent', { labels: ['edge'] });
    const page = await open({ token: place.owner.token, path: `/o/${place.org}/devices?sort=state` });
    const rows = page.getByRole('region', { name: 'Devices' }).getByRole('listitem');
    const names = async (): Promise<string[]> => rows.locator('a').allInnerTexts();
    await expectShown(rows.first().getByText('Failed'));
    await expect.poll(names).toEqual(['c-failed', 'a-old', 'b-new', 'd-silent']);
    await expectShown(page.getByRole('button', { name: 'Sort by Groups' }));
    await page.getByRole('button', { name: 'Filter', exact: true }).click();
    await page.getByRole('combobox', { name: 'Filter by version' }).click();
    await page.getByRole('option', { name: '0.10.0 (2)' }).click();
    await expect.poll(names).toEqual(['c-failed', 'b-new']);
    await page.getByRole('button', { name: 'Sort by Name' }).click();
    await expect.poll(names).toEqual(['b-new', 'c-failed']);
    await page.getByRole('button', { name: 'Show every device' }).click();
    await page.getByRole('combobox', { name: 'Filter by state' }).click();
    await page.getByRole('option', { name: 'Never seen (1)' }).click();
    await page.getByRole('textbox', { name: 'Search devices' }).fill('silent');
    await page.waitForURL(/q=silent/);
    const link = page.url();
    const other = await open({ token: place.member.token, path: link.slice(link.indexOf('/o/')) });
    await expectShown(other.getByText('1 of 4 devices'));
    expect(await other.getByRole('textbox', { name: 'Search devices' }).inputValue()).toBe('silent');
    await expectShown(other.getByRole('link', { name: 'd-silent' }));
  });

  test('are selected and changed many at a time as one change, after a look at what it does, and undone as one', async () => {
    const place = await newPlace(stage.server);
    const group = await place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, { group_name: 'web' });
    for (const name of ['one', 'two', 'three', 'four']) await addDevice(place, name);
    const stored = async (): Promise<readonly Json[]> => place.owner.api.expect(200, 'GET', `${place.base}/devices`);
    const page = await open({ token: place.owner.token, path: `/o/${place.org}/devices` });
    const bar = page.getByRole('region', { name: 'Selected devices' });
    await page.getByRole('checkbox', { name: 'Select all 4 devices' }).click();
    await expectShown(bar.getByText('4 devices selected'));
    await page.getByRole('checkbox', { name: 'Select four' }).click();
    await expectShown(bar.getByText('3 devices selected'));
    await bar.getByRole('button', { name: 'Groups' }).click();
    await page.getByRole('menuitem', { name: 'Add a group…' }).click();
    await page.getByRole('combobox', { name: 'Group', exact: true }).click();
    await page.getByRole('option', { name: 'web' }).click();
    await expectShown(page.getByRole('dialog').getByText('3 devices admit less.'));
    await page.getByRole('button', { name: 'Add to 3 devices' }).click();
    await expectShown(page.getByText('The group is added to 3 devices.'));
    const lists = async () => (await stored()).map(({ security_groups }) => security_groups);
    expect(await lists()).toEqual([[group.id], [group.id], [group.id], undefined]);
    await page.getByRole('button', { name: 'Undo' }).click();
    await expectShown(page.getByText('Undone.'));
    expect(await lists()).toEqual([undefined, undefined, undefined, undefined]);

    await page.getByRole('checkbox', { name: 'Select one' }).click();
    await page.getByRole('checkbox', { name: 'Select two' }).click();
    await bar.getByRole('button', { name: 'Labels' }).click();
    await page.getByRole('menuitem', { name: 'Add labels…' }).click();
    await page.getByRole('dialog').getByLabel('Labels').first().fill('app');
    await page.keyboard.press('Enter');
    // Users choose names, so the dialog says whose devices they are, and by which ids they are known.
    const named = page.getByRole('dialog').getByRole('list', { name: 'Devices' }).getByRole('listitem');
    const [one, two] = await stored();
    expect(await named.allInnerTexts()).toEqual(
      [one, two].map((device) => expect.stringMatching(new RegExp(`${device?.hostname}\\s.*(you).*, ${device?.id}`))),
    );
    await page.getByRole('button', { name: 'Add to 2 devices' }).click();
    await expectShown(page.getByText('The labels are added to 2 devices.'));
    expect((await stored()).map(({ labels }) => labels)).toEqual([['app'], ['app'], undefined, undefined]);

    await page.getByRole('checkbox', { name: 'Select all 4 devices' }).click();
    await page.getByRole('checkbox', { name: 'Select one' }).click();
    await bar.getByRole('button', { name: 'Delete' }).click();
    await expectShown(page.getByRole('heading', { name: 'Delete 3 devices?' }));
    await page.getByRole('button', { name: 'Delete 3 devices' }).click();
    await expectShown(page.getByText('Deleted: 3 devices.'));
    expect((await stored()).map(({ hostname }) => hostname)).toEqual(['one']);
  });

  test('appear, change and go on the open page as they do on the server', async () => {
    const place = await newPlace(stage.server);
    const page = await open({ token: place.owner.token, path: `/o/${place.org}/devices` });
    await expectShown(page.getByRole('heading', { name: 'No devices yet' }));
    const device = await addDevice(place, 'arrives');
    await expectShown(page.getByRole('link', { name: 'arrives' }));
    await place.owner.api.expect(200, 'PATCH', `${place.base}/devices/${device.id}`, { hostname: 'renamed' });
    await expectShown(page.getByRole('link', { name: 'renamed' }));
    await place.owner.api.expect(200, 'DELETE', `${place.base}/devices/${device.id}`);
    await expectShown(page.getByRole('heading', { name: 'No devices yet' }));
  });

  test('an enrollment key is made with the lines to run, which do not hold it, and the device is told of as it joins', async () => {
    const place = await newPlace(stage.server);
    const page = await open({ token: place.member.token, path: `/o/${place.org}/devices` });
    await page.getByRole('button', { name: 'Add devices' }).first().click();
    await page.getByRole('button', { name: 'Make the key' }).click();
    const command = page.getByLabel('The command');
    expect(await command.innerText()).toMatch(/^sudo ringfence-enroll --interface wg0$/m);
    const secret = await page.getByLabel('The key').filter({ hasText: 'rf_enroll_' }).innerText();
    expect(secret).toMatch(new RegExp(`^rf_enroll_[\\w-]{43}:${place.org}@http`));
    // Arguments are seen by everybody on a machine: the key is in none of them.
    expect(await command.innerText()).not.toContain(secret);
    await expectShown(page.getByText('is this machine only'));
    await page.getByText('By hand', { exact: true }).click();
    await expectShown(page.getByText('--enroll-file'));
    await expectShown(page.getByText('Waiting for the device…'));
    await stage.server.nobody
      .as(secret)
      .expect(201, 'POST', `${place.base}/devices`, { public_key: 'joins', hostname: 'web-3' });
    await expectShown(page.getByRole('status', { name: 'Joined' }).getByText('web-3 joined'));
    await page.getByRole('button', { name: 'Done' }).click();
    await command.waitFor({ state: 'detached' });
    expect(await page.content()).not.toContain('rf_enroll_');
  });

  test('groups are attached, ordered and detached on the device, with what applies, and undone', async () => {
    const place = await newPlace(stage.server);
    const make = (group_name: string, port: number): Promise<{ id: string }> =>
      place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, {
        group_name,
        inbound_rules: [{ ip_protocol: 'tcp', from_port: port, to_port: port }],
      });
    const [web, ssh] = [await make('web', 443), await make('ssh', 22)];
    const device = await addDevice(place, 'one');
    const listOf = async (): Promise<unknown> =>
      (await place.owner.api.expect(200, 'GET', `${place.base}/devices/${device.id}`)).security_groups;
    const page = await open({ token: place.owner.token, path: `/o/${place.org}/devices/${device.id}` });
    await expectShown(page.getByText('The first group you attach replaces it.'));
    for (const name of ['web', 'ssh']) {
      await page.getByRole('combobox', { name: 'Attach a group' }).click();
      await page.getByRole('option', { name }).click();
      await expectShown(page.getByText(`${name} applies to one.`));
    }
    await expectShown(page.getByText('2 groups instead of the default'));
    expect(await listOf()).toEqual([web.id, ssh.id]);
    const rules = page.getByRole('region', { name: 'inbound rules' });
    expect(await rules.getByRole('listitem').allInnerTexts()).toEqual([
      expect.stringMatching(/^TCP 443 \(HTTPS\) from\s+any address\s+web/),
      expect.stringMatching(/^TCP 22 \(SSH\) from\s+any address\s+ssh/),
      expect.stringContaining('Everything else is refused.'),
    ]);
    await page.getByRole('button', { name: 'Move ssh up' }).click();
    await expectShown(page.getByText('The order is changed.'));
    expect(await listOf()).toEqual([ssh.id, web.id]);
    await page.getByRole('button', { name: 'Detach web' }).click();
    await expectShown(page.getByText('web is off one.'));
    expect(await listOf()).toEqual([ssh.id]);
    const toast = page.getByRole('alert').filter({ hasText: 'web is off one.' });
    await toast.getByRole('button', { name: 'Undo' }).click();
    await expectShown(page.getByText('Undone.'));
    expect(await listOf()).toEqual([ssh.id, web.id]);
  });

  test('labels are set by an owner on the device and by a key, wrong ones are told, and the list is filtered by them', async () => {
    const place = await newPlace(stage.server);
    const device = await addDevice(place, 'one', { user_id: place.member.id });
    await addDevice(place, 'two', { labels: ['app'] });
    const labelsOf = async (): Promise<unknown> =>
      (await place.owner.api.expect(200, 'GET', `${place.base}/devices/${device.id}`)).labels;
    const page = await open({ token: place.owner.token, path: `/o/${place.org}/devices/${device.id}` });
    const field = page.getByLabel('What is this device?').first();
    await field.fill('DB');
    await page.keyboard.press('Enter');
    await expectShown(page.getByText('“DB” has upper-case letters'));
    expect(await labelsOf()).toBeUndefined();
    await page.keyboard.press('Backspace');
    await field.fill('prod, app');
    await page.keyboard.press('Enter');
    await expectShown(page.getByText('Labels of one: app, prod.'));
    expect(await labelsOf()).toEqual(['app', 'prod']);
    await page.getByRole('button', { name: 'Undo' }).click();
    await expectShown(page.getByText('Undone.'));
    expect(await labelsOf()).toBeUndefined();

    const member = await open({ token: place.member.token, path: `/o/${place.org}/devices/${device.id}` });
    await expectShown(member.getByText('Only an owner sets labels.'));
    expect(await member.getByLabel('What is this device?').count()).toBe(0);

    await page.goto(`${stage.server.url}/ui/o/${place.org}/devices`);
    await page.getByRole('button', { name: 'Filter', exact: true }).click();
    await page.getByRole('combobox', { name: 'Filter by label' }).click();
    await page.getByRole('option', { name: 'app' }).click();
    await expectShown(page.getByText('1 of 2 devices'));
    expect(page.url()).toContain('label=app');
    await page.getByRole('button', { name: 'Add devices' }).first().click();
    await page.getByLabel('Labels that the devices get').first().fill('web');
    await page.keyboard.press('Enter');
    await expectShown(page.getByText('No device has label “web” yet.'));
    await page.getByRole('button', { name: 'Make the key' }).click();
    await expectShown(page.getByText('The key is shown only now.'));
    const [issued] = await place.owner.api.expect(200, 'GET', `${place.base}/enrollment_keys`);
    expect(issued.labels).toEqual(['web']);
  });

  test('an owner isolates a device with a reason, an end and what it still allows, and releases it; a member only reads it', async () => {
    const place = await newPlace(stage.server);
    const device = await addDevice(place, 'web-7');
    const addresses = ['192.0.2.7', '192.0.2.53'];
    await place.owner.api.expect(200, 'PATCH', `${place.base}/devices/${device.id}`, { addresses });
    const path = `/o/${place.org}/devices/${device.id}`;
    const [owner, member] = [
      await open({ token: place.owner.token, path }),
      await open({ token: place.member.token, path }),
    ];
    await owner.getByRole('button', { name: 'Isolate', exact: true }).click();
    const dialog = owner.getByRole('dialog', { name: 'Isolate web-7?' });
    expect(await dialog.getByRole('button', { name: 'Isolate the device' }).isDisabled()).toBe(true);
    await dialog.getByLabel('Reason').fill('odd logins');
    await dialog.getByRole('combobox', { name: 'How long' }).click();
    await owner.getByRole('option', { name: 'for 8 hours' }).click();
    await dialog.getByLabel('Still allow devices with one of these labels').first().fill('forensics');
    await owner.keyboard.press('Enter');
    await expectShown(dialog.getByText(`set by ${place.owner.username}`).first());
    await dialog.getByRole('checkbox', { name: '192.0.2.53' }).uncheck();
    await dialog.getByRole('button', { name: 'Isolate the device' }).click();
    await dialog.waitFor({ state: 'detached' });
    const { isolated } = await place.owner.api.expect(200, 'GET', `${place.base}/devices/${device.id}`);
    expect(isolated).toMatchObject({
      reason: 'odd logins',
      allow: [{ labels: ['forensics'] }],
      not_refused: ['192.0.2.53'],
    });
    const hours = (Date.parse(isolated.until) - Date.parse(isolated.since)) / 3_600_000;
    expect(Math.round(hours)).toBe(8);
    for (const page of [owner, member]) {
      const banner = page.getByRole('region', { name: 'Isolation' });
      await expectShown(banner.getByText('odd logins'));
      await expectShown(banner.getByText(/In force on 0 of 1 device/));
    }
    expect(await member.getByRole('button', { name: 'Release' }).count()).toBe(0);
    await owner.getByRole('button', { name: 'Release' }).click();
    await owner.getByRole('region', { name: 'Isolation' }).waitFor({ state: 'detached' });
    expect(await place.owner.api.expect(200, 'GET', `${place.base}/devices/${device.id}`)).not.toHaveProperty(
      'isolated',
    );
  });

  test("a member sees another's device but is offered no change; the owner deletes it after a question", async () => {
    const place = await newPlace(stage.server);
    const path = `/o/${place.org}/devices/${(await addDevice(place, 'not-yours')).id}`;
    const member = await open({ token: place.member.token, path });
    await expectShown(member.getByText("Only the device's user and the organization's owner"));
    expect(await member.getByRole('button', { name: 'Delete' }).count()).toBe(0);
    expect(await member.getByRole('combobox').count()).toBe(0);
    const owner = await open({ token: place.owner.token, path });
    await owner.getByRole('button', { name: 'Delete' }).click();
    await owner.getByRole('button', { name: 'Delete the device' }).click();
    await expectShown(owner.getByRole('heading', { name: 'No devices yet' }));
    await expectShown(member.getByRole('heading', { name: 'This device is gone' }));
  });
});

describe('addresses', () => {
  test('a page that does not exist says so, and groups are listed by whose they are', async () => {
    const place = await newPlace(stage.server);
    await place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, { group_name: 'shared' });
    await place.member.api.expect(201, 'POST', `/api/user/${place.org}/security_groups`, { group_name: 'personal' });
    const page = await open({ token: place.member.token, path: '/nowhere' });
    await expectShown(page.getByRole('heading', { name: 'There is no such page' }));
    await page.goto(`${stage.server.url}/ui/o/${place.org}/groups`);
    await expectShown(page.getByRole('region', { name: 'Default group' }));
    expect(await page.getByRole('region', { name: 'Yours' }).innerText()).toContain('personal');
    expect(await page.getByRole('region', { name: "The organization's" }).innerText()).toContain('shared');
  });

  test('groups stand on a line each with their rules in short, and are found by name, port and address', async () => {
    const place = await newPlace(stage.server);
    const make = (group_name: string, port: number, range: string): Promise<Json> =>
      place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, {
        group_name,
        inbound_rules: [{ ip_protocol: 'tcp', from_port: port, to_port: port, ip_ranges: [range] }],
      });
    const database = await make('database', 5432, '10.1.0.0/16');
    await make('mail', 25, '192.0.2.0/24');
    await place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, {
      group_name: 'no-telnet',
      guardrail: 'forbid',
      applies_to: [{ labels: ['guarded'] }],
      inbound_rules: [{ ip_protocol: 'tcp', from_port: 23, to_port: 23 }],
    });
    await addDevice(place, 'db-1', { security_groups: [database.id] });
    const page = await open({ token: place.owner.token, path: `/o/${place.org}/groups` });
    const rows = page.getByRole('region', { name: "The organization's" }).getByRole('listitem');
    await expectShown(rows.first());
    // How devices stand comes after the groups.
    await expectShown(rows.first().getByText('in force'));
    const [first, second, third] = await rows.allInnerTexts();
    expect(first).toMatch(/database.*tcp 5432 ←.*10\.1\.0\.0\/16.*everything goes out.*0 of 1 in force/s);
    expect(second).toMatch(/mail.*not in use/s);
    // A reader must not take a forbidden rule for an admitted one.
    expect(third).toMatch(/no-telnet.*guardrail: forbid.*tcp 23/s);
    expect(third).not.toContain('goes out');
    const search = page.getByRole('textbox', { name: 'Search groups' });
    for (const [text, found] of [
      ['5432', 'database'],
      ['192.0.2', 'mail'],
      ['MAI', 'mail'],
    ] as const) {
      await search.fill(text);
      await expectShown(page.getByText('1 of 4 groups'));
      await expect.poll(() => page.getByRole('listitem').getByRole('link').allInnerTexts()).toEqual([found]);
    }
    await search.fill('nowhere');
    await page.getByRole('button', { name: 'Show every group' }).click();
    await expectShown(page.getByText('4 groups.'));
  });
});

describe('the command palette', () => {
  test('opens under Ctrl+K, finds devices, groups, pages and actions by keyboard, and goes there', async () => {
    const place = await newPlace(stage.server);
    await addDevice(place, 'edge-7', { tunnel_ip: '100.64.0.77' });
    await place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, { group_name: 'edges' });
    const page = await open({ token: place.owner.token, path: `/o/${place.org}/devices` });
    await expectShown(page.getByRole('link', { name: 'edge-7' }));
    const finder = page.getByRole('combobox', { name: 'Find a page, an action, a group or a device' });
    const go = async (text: string, found: string, ...keys: readonly string[]): Promise<void> => {
      await page.keyboard.press('Control+k');
      await finder.fill(text);
      // Until the list is filtered, Enter would go where another option leads.
      await page.getByRole('option').first().filter({ hasText: found }).waitFor();
      for (const press of [...keys, 'Enter']) await page.keyboard.press(press);
    };
    await go('0.77', 'edge-7');
    await expectShown(page.getByRole('heading', { name: 'edge-7', level: 1 }));
    await go('edge', 'edges', 'ArrowDown', 'ArrowUp');
    await expectShown(page.getByRole('heading', { name: 'edges', level: 1 }));
    await go('reach', 'Reachability');
    await expectShown(page.getByRole('heading', { name: 'Reachability', level: 1 }));
    await page.getByRole('button', { name: /Find/ }).click();
    await finder.fill('no such thing at all');
    await expectShown(page.getByText('No matches.'));
    await page.keyboard.press('Escape');
    await go('new group', 'New group');
    await expectShown(page.getByRole('heading', { name: 'New group', level: 1 }));
  });

  test('opens for a Ctrl+K that came before the sidebar was drawn', async () => {
    const place = await newPlace(stage.server);
    const page = await open({ token: place.owner.token, path: `/o/${place.org}/devices` });
    await expectShown(page.getByRole('heading', { name: 'Devices', level: 1 }));
    let release = (): void => {};
    const released = new Promise<void>((resolve) => (release = resolve));
    await page.route('**/api/users/me', (route) => released.then(() => route.continue()));
    await page.reload();
    await expectShown(page.getByText('Signing in…'));
    await page.keyboard.press('Control+k');
    release();
    await expectShown(page.getByRole('combobox', { name: /^Find/ }));
  });

  test('keeps what is typed before it is there: it is loaded when it is first opened', async () => {
    const place = await newPlace(stage.server);
    const page = await open({ token: place.owner.token, path: `/o/${place.org}/devices` });
    await expectShown(page.getByRole('heading', { name: 'Devices', level: 1 }));
    await page.keyboard.press('Control+k');
    await page.keyboard.type('web server');
    await expect.poll(() => page.getByRole('combobox', { name: /^Find/ }).inputValue()).toBe('web server');
    await page.keyboard.type('s');
    await expect.poll(() => page.getByRole('combobox', { name: /^Find/ }).inputValue()).toBe('web servers');
  });
});

describe('the frame', () => {
  test('stays while a long page scrolls: the menu and the account are always in sight', async () => {
    const place = await newPlace(stage.server);
    const rule = { ip_protocol: 'tcp', from_port: 1, to_port: 1 };
    const group = await place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, {
      group_name: 'long',
      inbound_rules: Array.from({ length: 60 }, (_, port) => ({ ...rule, from_port: port + 1, to_port: port + 1 })),
    });
    const page = await open({ token: place.owner.token, path: `/o/${place.org}/groups/${group.id}?edit=true` });
    await expectShown(page.getByLabel('Ports of inbound rule 60'));
    await page.evaluate('scrollTo(0, document.body.scrollHeight)');
    await page.waitForFunction('scrollY > 500');
    for (const inSight of [
      page.getByRole('link', { name: 'Ringfence, overview' }),
      page.getByRole('link', { name: 'Devices', exact: true }),
      page.getByRole('button', { name: `${place.owner.username}: account` }),
    ]) {
      const box = await inSight.boundingBox();
      const height = page.viewportSize()?.height ?? 0;
      expect(box !== null && box.y >= 0 && box.y + box.height <= height).toBe(true);
    }
  });
});
