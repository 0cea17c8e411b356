/** Proves that the device's policy is given whole or not at all, on streams that are fed by hand. */
import { afterEach, describe, expect, test } from 'vitest';
import type { WatchKind } from '../../api/kinds.ts';
import { FakeStream, fakeNetwork, problem, turn, type RecordedRequest } from '../../client/fake.fixture.ts';
import { device, deviceId, group, groupId, organization } from '../../client/records.fixture.ts';
import { InformerSource } from './informer-policy-source.ts';

type FakeResponder = (request: RecordedRequest) => Response;

const ssh = { ip_protocol: 'tcp', from_port: 22, to_port: 22 } as const;
const change = (kind: WatchKind, value: object) => ({ type: 'change', kind, value });
const gone = (kind: WatchKind, value: object) => ({ type: 'delete', kind, value });
const tail = (kind: WatchKind) => ({ type: 'tail', kind });
const everyone = group(1, 1, { is_default: true, inbound_rules: [ssh] });

const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

/** A source that runs, and the streams it opened. `answers` overrule the stream that a request would get. */
function follow(answers: readonly (FakeResponder | undefined)[] = []) {
  const streams: FakeStream[] = [];
  const network = fakeNetwork((request) => {
    const stream = new FakeStream(request.signal);
    streams.push(stream);
    return answers[streams.length - 1]?.(request) ?? stream.response;
  });
  const faults: unknown[] = [];
  const source = new InformerSource({
    client: network.client,
    organization,
    device: deviceId(1),
    onFault: (fault) => faults.push(fault),
  });
  let changes = 0;
  source.onChange(() => void (changes += 1));
  const abort = new AbortController();
  const ended = source.run({ signal: abort.signal });
  ends.push(async () => {
    abort.abort();
    await ended;
  });
  const stream = (): FakeStream => {
    const last = streams.at(-1);
    if (last === undefined) throw new Error('no stream was opened');
    return last;
  };
  const send = async (...documents: readonly object[]): Promise<void> => {
    stream().send(...documents);
    await turn(5);
  };
  /** What is known, in short. */
  const known = (): string => {
    const knowledge = source.read();
    if (knowledge.kind === 'unknown') return `unknown: ${knowledge.why}`;
    const { policy, revision } = knowledge;
    return `${revision} ${policy.source} ${policy.groups.map(({ name }) => name).join('+')}`;
  };
  const list = async (devices: readonly object[], groups: readonly object[]): Promise<void> => {
    await turn(3);
    await send(
      ...devices.map((each) => change('device', each)),
      tail('device'),
      ...groups.map((each) => change('security-groups', each)),
      tail('security-groups'),
    );
  };
  return { ...network, source, streams, stream, send, known, list, faults, changes: () => changes };
}

describe('the policy of the device', () => {
  test('is unknown until everything was listed, and nothing is wrong with that', async () => {
    const { source, send, known } = follow();
    await turn(3);
    expect(source.read()).toMatchObject({ kind: 'unknown', early: true });
    await send(change('device', device(1, 2)), tail('device'), change('security-groups', everyone));
    expect(known()).toMatch(/^unknown: the server has not sent data/);
    await send(tail('security-groups'));
    expect(known()).toBe('2 default group-1');
  });

  test('is that of its list, as soon as the list or a group in it changes', async () => {
    const { list, send, known, changes } = follow();
    await list([device(1, 2)], [everyone, group(2, 3, { inbound_rules: [ssh] })]);
    const before = changes();
    await send(change('device', device(1, 4, { security_groups: [groupId(2)] })));
    expect(known()).toBe('4 list group-2');
    await send(change('security-groups', group(2, 5, { group_name: 'renamed' })));
    expect(known()).toBe('5 list renamed');
    await send(change('device', device(1, 6)));
    expect(known()).toBe('6 default group-1');
    expect(changes()).toBeGreaterThan(before);
  });

  test('ignores watch-only groups, by list and by label, and follows when one enforces', async () => {
    const { list, send, known } = follow();
    const watched = { mode: 'observe', inbound_rules: [ssh] } as const;
    const own = device(1, 2, { security_groups: [groupId(2)], labels: ['db'] });
    await list([own], [everyone, group(2, 3, watched), group(3, 4, { ...watched, applies_to: [{ labels: ['db'] }] })]);
    expect(known()).toBe('4 default group-1');
    await send(change('security-groups', group(2, 5)));
    expect(known()).toBe('5 list group-2');
    await send(change('security-groups', group(3, 6, { applies_to: [{ labels: ['db'] }] })));
    expect(known()).toBe('6 list group-2+group-3');
    await send(change('security-groups', group(2, 7, watched)));
    expect(known()).toBe('7 list group-3');
  });

  test('does not depend on other devices, and no copy of them is kept', async () => {
    const { source, list, send, known } = follow();
    await list([device(1, 1), device(2, 2, { security_groups: [groupId(9)] }), device(3, 3)], [everyone]);
    expect(known()).toBe('3 default group-1');
    expect(source.devices).toBe(3);
    await send(change('device', device(4, 4)));
    expect(known()).toBe('4 default group-1');
    expect(source.devices).toBe(3);
  });

  test('stays unknown, and is not that of the default group, while its list names a group that is not to be seen', async () => {
    const { list, send, known } = follow();
    await list([device(1, 2, { security_groups: [groupId(2)] })], [everyone]);
    expect(known()).toBe(`unknown: the group ${groupId(2)} is missing`);
    await send(change('security-groups', group(2, 3)));
    expect(known()).toBe('3 list group-2');
  });

  test('is unknown when a group of its list leaves the view, and known when it comes back', async () => {
    const { list, send, known } = follow();
    await list([device(1, 2, { security_groups: [groupId(2), groupId(3)] })], [everyone, group(2, 3), group(3, 4)]);
    await send(gone('security-groups', { id: groupId(3), org_id: organization, revision: 5 }));
    expect(known()).toMatch(/^unknown: the group .* is missing$/);
    await send(change('security-groups', group(3, 6)));
    expect(known()).toBe('6 list group-2+group-3');
  });

  test('follows a reset of the default group, and is unknown in between', async () => {
    const { list, send, known } = follow();
    await list([device(1, 2)], [everyone]);
    await send(gone('security-groups', { ...everyone, revision: 3 }));
    expect(known()).toBe('unknown: the default group is missing');
    await send(change('security-groups', group(5, 4, { is_default: true })));
    expect(known()).toBe('4 default group-5');
  });

  test('is unknown when the device is deleted', async () => {
    const { list, send, known } = follow();
    await list([device(1, 2)], [everyone]);
    await send(gone('device', device(1, 3)));
    expect(known()).toBe('unknown: the organization has no such device');
  });

  test('is unknown while a group holds a rule that is not understood, in any group that applies and no other', async () => {
    const { list, send, known, faults } = follow();
    const odd = { inbound_rules: [{ ...ssh, ip_protocol: 'quic' }] } as never;
    await list([device(1, 2, { security_groups: [groupId(2)] })], [everyone, group(2, 3), group(3, 4, odd)]);
    expect(known()).toBe('4 list group-2');
    await send(change('security-groups', group(2, 5, odd)));
    expect(known()).toMatch(/^unknown: the group .* has content that this version does not understand: .*quic/);
    await send(change('security-groups', group(2, 6)));
    expect(known()).toBe('6 list group-2');
    expect(faults).toEqual([]);
  });

  test.each<[string, object]>([
    ['a rule for some hours of the day', { inbound_rules: [{ ...ssh, hours: '09:00-17:00' }] }],
    ['a peer of another kind', { inbound_rules: [{ ...ssh, peers: [{ users: ['ada'] }] }] }],
    ['a group with a priority', { priority: 10 }],
  ])('is not read without a field that this agent does not know: %s', async (_, fields) => {
    const { list, send, known, source } = follow();
    await list([device(1, 2, { security_groups: [groupId(2)] })], [everyone, group(2, 3, { inbound_rules: [ssh] })]);
    expect(known()).toBe('3 list group-2');
    await send(change('security-groups', { ...group(2, 4), ...fields }));
    expect(source.read()).toMatchObject({ kind: 'unknown', code: 'not_understood' });
    await send(change('security-groups', group(2, 5, { inbound_rules: [ssh] })));
    expect(known()).toBe('5 list group-2');
  });

  test('is not understood while any group has such a field, because it may say to whom the group applies', async () => {
    const { list, send, known, source } = follow();
    await list([device(1, 2)], [everyone]);
    await send(change('security-groups', { ...group(7, 3), priority: 10 }));
    expect(source.read()).toMatchObject({ kind: 'unknown', code: 'not_understood' });
    expect(known()).toMatch(/^unknown: the group .* has content that this version does not understand: .*"priority"/);
    await send(gone('security-groups', group(7, 4)));
    expect(known()).toBe('4 default group-1');
  });

  test.each([
    ['its own record', 1],
    ['the record of any device', 2],
  ])('is not understood while %s has a field that this agent does not know', async (_, number) => {
    const { list, send, known, source } = follow();
    await list([device(1, 2)], [everyone]);
    await send(change('device', { ...device(number, 3), quarantined: true }));
    expect(source.read()).toMatchObject({ kind: 'unknown', code: 'not_understood', revision: 3 });
    expect(known()).toMatch(
      /^unknown: the device .* has content that this version does not understand: .*"quarantined"/,
    );
    await send(change('device', device(3, 4)));
    expect(source.read()).toMatchObject({ kind: 'unknown', code: 'not_understood', revision: 4 });
    await send(change('device', device(number, 5)));
    expect(known()).toBe('5 default group-1');
  });

  test('is understood again when a device with such a field is deleted, seen or unseen', async () => {
    const { list, send, known, source, stream, clock } = follow([
      undefined,
      () => problem(410, { code: 'revision_gone' }),
    ]);
    const strange = (number: number, revision: number) => ({ ...device(number, revision), quarantined: true });
    await list([device(1, 2), strange(2, 3), strange(3, 4)], [everyone]);
    expect(source.read()).toMatchObject({ kind: 'unknown', code: 'not_understood' });
    await send(gone('device', strange(2, 5)));
    expect(source.read()).toMatchObject({ kind: 'unknown', code: 'not_understood', revision: 5 });
    stream().end();
    await clock.advance(2_000);
    await list([device(1, 2)], [everyone]);
    expect(known()).toBe('2 default group-1');
  });

  test('is given as it was while the server is away, and while it lists anew', async () => {
    const { clock, list, send, known, source, stream, streams } = follow([undefined, () => problem(503, {})]);
    await list([device(1, 2)], [everyone]);
    expect(source.connection).not.toHaveProperty('lastLiveAt');
    const cutAt = clock.now();
    stream().cut();
    await turn(5);
    expect(known()).toBe('2 default group-1');
    await clock.advance(10_000);
    expect(source.connection.lastError?.message).toBe('the server answered 503');
    // Since when nothing was heard, however many attempts there were.
    expect(source.connection.lastLiveAt).toBe(cutAt);
    expect(known()).toBe('2 default group-1');
    expect(streams).toHaveLength(3);
    await send(change('device', device(1, 7, { security_groups: [groupId(2)] })), tail('device'));
    expect(known()).toBe('2 default group-1');
    await send(change('security-groups', group(2, 6)), tail('security-groups'));
    expect(known()).toBe('7 list group-2');
    expect(source.connection).not.toHaveProperty('lastLiveAt');
  });

  test('is that of a new listing after a revision that is gone, and the old one until then', async () => {
    const { clock, list, known, stream, streams, seen, send } = follow([
      undefined,
      () => problem(410, { code: 'revision_gone' }),
    ]);
    await list([device(1, 20, { security_groups: [groupId(2)] })], [everyone, group(2, 21)]);
    stream().end();
    await clock.advance(2_000);
    expect(streams).toHaveLength(3);
    expect(seen.at(-1)?.body).toEqual([{ kind: 'device', view: 'identity' }, { kind: 'security-groups' }]);
    await send(change('device', device(1, 3)), tail('device'));
    expect(known()).toBe('21 list group-2');
    // A server restored from a backup knows less, and has it right.
    await send(change('security-groups', everyone), tail('security-groups'));
    expect(known()).toBe('3 default group-1');
  });

  test.each([401, 403, 404])('is asked for again and again after %i: the right may come back', async (status) => {
    const { clock, source, streams, list, known } = follow([
      () => problem(status, { detail: 'no' }),
      () => problem(status, {}),
    ]);
    await turn(5);
    expect(source.connection).toMatchObject({ phase: 'waiting', lastError: { message: 'no' } });
    await clock.advance(120_000);
    expect(streams.length).toBeGreaterThan(2);
    await list([device(1, 2)], [everyone]);
    expect(known()).toBe('2 default group-1');
  });
});
