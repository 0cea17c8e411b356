/** Proves the API of isolation (reference 1.5): who isolates and lifts, what the records say, and that a device's user cannot slip away. */
import { describe, expect, test } from 'vitest';
import { eventually } from '../lib/eventually.ts';
import type { Api, Json } from '../lib/http.ts';
import { newPlace, type Place } from '../lib/server.ts';
import { useServer } from '../lib/stage.ts';

const stage = useServer();

let serial = 0;
const unique = (): string => `isolation-${(serial += 1)}`;
const inAnHour = (): string => new Date(Date.now() + 3_600_000).toISOString();

const add = (place: Place, fields: object = {}): Promise<Json> =>
  place.owner.api.expect(201, 'POST', `${place.base}/devices`, {
    public_key: unique(),
    user_id: place.member.id,
    ...fields,
  });
const pathOf = ({ base }: Place, { id }: Json): string => `${base}/devices/${id}`;
const isolate = (place: Place, device: Json, body: object = { reason: 'odd logins' }): Promise<Json> =>
  place.owner.api.expect(200, 'POST', `${pathOf(place, device)}/isolate`, body);
const codeOf = (problem: Json): string => problem.code as string;
const faults = (problem: Json): readonly string[] =>
  (problem.errors as { pointer: string; code: string }[]).map(({ pointer, code }) => `${pointer} ${code}`);

describe('an owner', () => {
  test('isolates a device and lifts it: the record says since when, until when, by whom, why and whom it allows', async () => {
    const place = await newPlace(stage.server);
    const [device, lab] = [await add(place), await add(place)];
    const [begun, until] = [Date.now(), inAnHour()];
    const allow = [{ labels: ['forensics'] }, { device_id: lab.id }];
    const isolated = await isolate(place, device, { reason: 'odd logins', until, allow });
    expect(isolated).toMatchObject({
      id: device.id,
      revision: lab.revision + 1,
      isolated: { until, by: place.owner.id, reason: 'odd logins', allow },
    });
    expect(Date.parse(isolated.isolated.since)).toBeGreaterThanOrEqual(begun);
    expect((await place.member.api.expect(200, 'GET', pathOf(place, device))).isolated).toEqual(isolated.isolated);

    const again = await isolate(place, device, { reason: 'confirmed' });
    expect(again.isolated).toMatchObject({ reason: 'confirmed' });
    expect(again.isolated).not.toHaveProperty('allow');

    const lifted = await place.owner.api.expect(200, 'DELETE', `${pathOf(place, device)}/isolate`);
    expect(lifted).not.toHaveProperty('isolated');
    expect(lifted.revision).toBe(again.revision + 1);
    const same = await place.owner.api.expect(200, 'DELETE', `${pathOf(place, device)}/isolate`);
    expect(same.revision).toBe(lifted.revision);
  });

  test('finds the reason in the audit, and the states in the history', async () => {
    const place = await newPlace(stage.server);
    const device = await add(place);
    await isolate(place, device);
    await place.owner.api.expect(200, 'DELETE', `${pathOf(place, device)}/isolate`);
    const entries: Json[] = await place.owner.api.expect(200, 'GET', `${place.base}/audit`);
    const ours = entries.filter(({ subject_id }) => subject_id === device.id);
    expect(ours.find(({ operation }) => operation === 'isolateDevice')).toMatchObject({
      after: { isolated: { reason: 'odd logins' } },
    });
    expect(ours.find(({ operation }) => operation === 'liftIsolation')).toMatchObject({
      before: { isolated: { reason: 'odd logins' } },
    });
    const states: Json[] = await place.owner.api.expect(200, 'GET', `${pathOf(place, device)}/history`);
    expect(states.map(({ record }) => record?.isolated?.reason)).toContain('odd logins');
  });

  test('is told which other devices the fleet refuses with it, because they share an address', async () => {
    const place = await newPlace(stage.server);
    const device = await add(place, { tunnel_ip: '100.64.0.1/24', addresses: ['fd00::1', '10.0.0.1'] });
    const app = await add(place, { hostname: 'app', tunnel_ip: '100.64.0.1/32', addresses: ['FD00:0::1'] });
    const db = await add(place, { addresses: ['100.64.0.1'] });
    const { warnings, refused_addresses: _refused, ...record } = await isolate(place, device);
    expect(record).toEqual(await place.owner.api.expect(200, 'GET', pathOf(place, device)));
    // The one without a name comes first.
    const both = [db.id, app.id];
    expect(warnings).toMatchObject([
      { code: 'shared_address', address: '100.64.0.1', devices: both },
      {
        code: 'shared_address',
        address: 'fd00::1',
        detail: 'The other devices now refuse fd00::1 also as an address of app.',
        devices: [app.id],
      },
    ]);
    const both6 = { tunnel_ip: '100.64.0.2', addresses: ['fd00::2'] };
    expect(await isolate(place, await add(place, both6))).not.toHaveProperty('warnings');
  });

  test('is told what the fleet does not refuse: a device without an address, without one of a family, and addresses that it had before', async () => {
    const place = await newPlace(stage.server);
    const warned = async (device: Json): Promise<readonly string[]> =>
      ((await isolate(place, device)).warnings ?? []).map(({ code, address = '' }: Json) =>
        `${code} ${address}`.trim(),
      );
    expect(await warned(await add(place))).toEqual(['no_address']);
    expect(await warned(await add(place, { tunnel_ip: '100.64.0.9/24' }))).toEqual([]);
    const app = await add(place, { tunnel_ip: '100.64.0.1', addresses: ['fd00::1'] });
    const [one, two] = [await add(place, { addresses: ['fd00::2'] }), await add(place, { tunnel_ip: '100.64.0.2' })];
    expect(await warned(one)).toEqual(['no_address_of_family']);
    expect(await warned(two)).toEqual(['no_address_of_family']);
    // Its user takes its addresses out of the record before anybody isolates it.
    const path = pathOf(place, app);
    await place.member.api.expect(200, 'PATCH', path, {
      tunnel_ip: '100.64.0.7/24',
      addresses: ['fd00::7', '10.0.0.7'],
    });
    await place.member.api.expect(200, 'PATCH', path, { tunnel_ip: '100.64.0.8', addresses: ['fd00::1'] });
    // Another device has that one now.
    await add(place, { addresses: ['10.0.0.7'] });
    expect(await warned(app)).toEqual([
      'earlier_address 100.64.0.1',
      'earlier_address 100.64.0.7',
      'earlier_address fd00::7',
    ]);
    const addresses = ['fd00::1', '100.64.0.1', '100.64.0.7', 'fd00::7'];
    await place.owner.api.expect(200, 'PATCH', path, { addresses });
    expect(await warned(app)).toEqual([]);
  });

  test('is told everything that is wrong, with its place', async () => {
    const place = await newPlace(stage.server);
    const device = await add(place);
    const path = `${pathOf(place, device)}/isolate`;
    const gone = '00000000-0000-4000-8000-000000000000';
    const refuse = async (body: object): Promise<readonly string[]> =>
      faults(await place.owner.api.expect(422, 'POST', path, body));
    expect(await refuse({})).toEqual(['/reason missing_field']);
    expect(await refuse({ reason: '' })).toEqual(['/reason text_too_short']);
    expect(await refuse({ reason: 'x'.repeat(256) })).toEqual(['/reason text_too_long']);
    expect(await refuse({ reason: 'r', until: 'soon' })).toEqual(['/until not_a_timestamp']);
    expect(await refuse({ reason: 'r', until: '2020-01-01T00:00:00Z' })).toEqual(['/until expiry_past']);
    expect(await refuse({ reason: 'r', for: '4h' })).toEqual(['/for unknown_field']);
    expect(await refuse({ reason: 'r', allow: [] })).toEqual(['/allow too_few_items']);
    expect(await refuse({ reason: 'r', allow: null })).toEqual(['/allow null_not_allowed']);
    expect(await refuse({ reason: 'r', allow: [{ device_id: gone }] })).toEqual(['/allow/0/device_id device_unknown']);
    expect(await refuse({ reason: 'r', allow: [{ labels: ['A'] }, { users: ['u'] }] })).toEqual([
      '/allow/0/labels/0 label_invalid',
      '/allow/1/users unknown_field',
    ]);
    expect((await isolate(place, device, { reason: 'x'.repeat(255) })).isolated.reason).toHaveLength(255);
  });
});

describe('addresses that a device lists to harm others', () => {
  const dns = '192.0.2.53';
  const addressesOf = (answer: Json): readonly string[] =>
    answer.refused_addresses.map(({ address }: Json) => address as string);

  test('are not taken where no device has them for itself: when it is registered, when it is changed, in a change set', async () => {
    const place = await newPlace(stage.server);
    const { member, base } = place;
    const device = await add(place, { addresses: [dns, 'fd00::1'], tunnel_ip: '100.64.0.1/24' });
    const kinds = {
      unspecified: ['0.0.0.0', '::'],
      loopback: ['127.0.0.1', '127.255.255.254', '::1', '::ffff:127.0.0.1'],
      'link-local': ['169.254.169.254', 'fe80::1', 'febf::1'],
      multicast: ['224.0.0.251', '239.255.255.255', 'ff02::1'],
      broadcast: ['255.255.255.255'],
    };
    for (const [kind, texts] of Object.entries(kinds)) {
      for (const text of texts) {
        const bodies = { '/addresses/1': { addresses: ['10.0.0.1', text] }, '/tunnel_ip': { tunnel_ip: text } };
        for (const [pointer, body] of Object.entries(bodies)) {
          for (const problem of [
            await member.api.expect(422, 'POST', `${base}/devices`, { public_key: unique(), ...body }),
            await member.api.expect(422, 'PATCH', pathOf(place, device), body),
          ]) {
            expect(faults(problem)).toEqual([`${pointer} address_not_own`]);
            expect(problem.errors[0].detail).toContain(`a ${kind} address`);
          }
        }
      }
    }
    const broadcast = { tunnel_ip: '100.64.0.255/24' };
    expect(faults(await member.api.expect(422, 'PATCH', pathOf(place, device), broadcast))).toEqual([
      '/tunnel_ip address_not_own',
    ]);
    const set = { devices: [{ id: device.id, addresses: ['ff02::1'] }] };
    expect(faults(await member.api.expect(422, 'POST', `${base}/changes`, set))).toEqual([
      '/devices/0/addresses/0 address_not_own',
    ]);
    for (const tunnel_ip of ['', '100.64.0.0/31', '128.0.0.1', '223.255.255.255', '2001:db8::1/64'])
      await member.api.expect(200, 'PATCH', pathOf(place, device), { tunnel_ip });
  });

  test('are shown with who set them before and after the isolation, and those that are left out are not refused', async () => {
    const place = await newPlace(stage.server);
    const { owner, member } = place;
    const app = await add(place, { tunnel_ip: '100.64.0.2', addresses: [dns] });
    const device = await add(place, { tunnel_ip: '100.64.0.1/24' });
    await member.api.expect(200, 'PATCH', pathOf(place, device), { addresses: ['fd00::1', dns] });
    await member.api.expect(200, 'PATCH', pathOf(place, device), { hostname: 'rogue' });
    const by = ({ id, username }: Place['owner']) => ({ user_id: id, username, at: expect.any(String) });
    const all = [
      { address: '100.64.0.1', set_by: by(owner) },
      { address: 'fd00::1', set_by: by(member) },
      { address: dns, set_by: by(member), devices: [app.id] },
    ];
    const path = `${pathOf(place, device)}/isolate`;
    expect(await owner.api.expect(200, 'GET', path)).toEqual({ refused_addresses: all });
    expect((await isolate(place, device)).refused_addresses).toEqual(all);

    const isolated = await isolate(place, device, { reason: 'r', addresses: ['FD00:0::1', '100.64.0.1'] });
    expect(isolated.refused_addresses).toEqual(all.slice(0, 2));
    expect(isolated.isolated.not_refused).toEqual([dns]);
    expect((isolated.warnings ?? []).filter(({ code }: Json) => code === 'shared_address')).toEqual([]);
    const verdict = async (to: string): Promise<string> => {
      const query = `from=${app.id}&to=${encodeURIComponent(to)}&protocol=udp&port=53`;
      const { sides } = await member.api.expect(200, 'GET', `${place.base}/explain?${query}`);
      return sides[0].reason as string;
    };
    expect([await verdict(dns), await verdict('100.64.0.1')]).toEqual(['open', 'far-end-isolated']);

    // What the device gets later is refused.
    await owner.api.expect(200, 'PATCH', pathOf(place, device), { addresses: [dns, 'fd00::1', 'fd00::2'] });
    expect(addressesOf(await owner.api.expect(200, 'GET', path))).toEqual(['100.64.0.1', 'fd00::1', 'fd00::2']);
    expect(addressesOf(await isolate(place, device, { reason: 'r', addresses: [] }))).toEqual([]);
    expect(faults(await owner.api.expect(422, 'POST', path, { reason: 'r', addresses: ['10.9.9.9', 'x'] }))).toEqual([
      '/addresses/0 address_unknown',
      '/addresses/1 address_unknown',
    ]);
  });
});

test('an isolation whose time is over goes from the record, as a change of its own', async () => {
  const place = await newPlace(stage.server);
  const device = await add(place);
  const isolated = await isolate(place, device, { reason: 'r', until: new Date(Date.now() + 5_000).toISOString() });
  const other = await isolate(place, await add(place), { reason: 'r', until: inAnHour() });
  const read = (): Promise<Json> => place.member.api.expect(200, 'GET', pathOf(place, device));
  await eventually('the isolation is gone', async () => !('isolated' in (await read())));
  expect((await read()).revision).toBeGreaterThan(isolated.revision);
  const [entry]: Json[] = await place.owner.api.expect(200, 'GET', `${place.base}/audit?subject_id=${device.id}`);
  expect(entry).toMatchObject({
    operation: 'liftIsolation',
    credential: { kind: 'server' },
    before: { isolated: { reason: 'r' } },
  });
  expect((await place.member.api.expect(200, 'GET', pathOf(place, other))).isolated).toBeDefined();
});

describe('the user of an isolated device', () => {
  const refused = async (api: Api, method: string, path: string, body?: object): Promise<string> =>
    codeOf(await api.expect(403, method, path, body));

  test('neither isolates nor lifts, moves no address, and does not end it by deleting the device or by leaving', async () => {
    const place = await newPlace(stage.server);
    const { member, owner, base } = place;
    const device = await add(place, { tunnel_ip: '100.64.0.1' });
    const path = pathOf(place, device);
    expect(await refused(member.api, 'POST', `${path}/isolate`, { reason: 'r' })).toBe('forbidden');
    await isolate(place, device);
    expect(await refused(member.api, 'DELETE', `${path}/isolate`)).toBe('forbidden');
    expect(await refused(member.api, 'PATCH', path, { tunnel_ip: '100.64.0.2' })).toBe('address_by_owner');
    expect(await refused(member.api, 'PATCH', path, { addresses: ['10.0.0.9'] })).toBe('address_by_owner');
    expect(await refused(member.api, 'DELETE', path)).toBe('isolated_by_owner');
    expect(await refused(member.api, 'DELETE', `${base}/members/${member.id}`)).toBe('isolated_by_owner');
    expect(await refused(member.api, 'POST', `${base}/changes`, { delete: [device.id] })).toBe('isolated_by_owner');
    const changed = await member.api.expect(200, 'PATCH', path, { hostname: 'other' });
    expect(changed.isolated).toMatchObject({ reason: 'odd logins' });
    expect((await owner.api.expect(200, 'PATCH', path, { tunnel_ip: '100.64.0.3' })).isolated).toBeDefined();
    await owner.api.expect(200, 'DELETE', path);
    await member.api.expect(200, 'DELETE', `${base}/members/${member.id}`);
  });

  test('moves no address by a change set either, nor by the way back from one of before', async () => {
    const place = await newPlace(stage.server);
    const { member, base } = place;
    const device = await add(place, { tunnel_ip: '100.64.0.1' });
    const write = (tunnel_ip: string) => ({ devices: [{ id: device.id, tunnel_ip }] });
    const { change_id } = await member.api.expect(200, 'POST', `${base}/changes`, write('100.64.0.2'));
    await isolate(place, device);
    expect(await refused(member.api, 'POST', `${base}/changes`, write('100.64.0.3'))).toBe('address_by_owner');
    expect(await refused(member.api, 'POST', `${base}/changes/${change_id}/revert`)).toBe('address_by_owner');
    expect((await member.api.expect(200, 'GET', pathOf(place, device))).tunnel_ip).toBe('100.64.0.2');
  });

  test('keeps it isolated when an owner takes the device over', async () => {
    const place = await newPlace(stage.server);
    const device = await add(place);
    await isolate(place, device);
    await place.owner.api.expect(200, 'DELETE', `${place.base}/members/${place.member.id}?keep=devices`);
    const kept = await place.owner.api.expect(200, 'GET', pathOf(place, device));
    expect(kept).toMatchObject({ user_id: place.owner.id, isolated: { reason: 'odd logins' } });
  });
});

test('explain says that an end is isolated, on both sides, and what is allowed is not', async () => {
  const place = await newPlace(stage.server);
  const web = await add(place, { tunnel_ip: '100.64.0.1' });
  const db = await add(place, { tunnel_ip: '100.64.0.2' });
  const lab = await add(place, { tunnel_ip: '100.64.0.3', labels: ['forensics'] });
  const sides = async (from: Json, to: Json): Promise<readonly string[]> => {
    const answer = await place.member.api.expect(
      200,
      'GET',
      `${place.base}/explain?from=${from.id}&to=${to.id}&port=22`,
    );
    return (answer.sides as { verdict: string; reason: string }[]).map(({ verdict, reason }) => `${verdict} ${reason}`);
  };
  expect(await sides(db, web)).toEqual(['allowed open', 'allowed rule']);
  await isolate(place, web, { reason: 'r', allow: [{ labels: ['forensics'] }] });
  expect(await sides(db, web)).toEqual(['refused far-end-isolated', 'refused isolated']);
  expect(await sides(web, db)).toEqual(['refused isolated', 'refused far-end-isolated']);
  expect(await sides(lab, web)).toEqual(['allowed open', 'allowed isolation-allows']);
  expect(await sides(lab, db)).toEqual(['allowed open', 'allowed rule']);
});
