/** Proves what isolation does to policies: of the isolated device, of those that it allows, and of all others. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseAddress } from '../address.ts';
import { admits, canonicalize, canonicalizeNames } from '../canonicalize.ts';
import { decide, type Decision } from '../decide.ts';
import { policyDigest } from '../digest/digest.ts';
import { effectivePolicy, type EffectivePolicy } from '../effective.ts';
import { guardedPolicy, packetOfFleet } from '../fleet/fleet.fixture.ts';
import { Fleet } from '../fleet/fleet.ts';
import { deviceIdentity } from '../fleet/identity.ts';
import { NotUnderstood } from '../fleet/not-understood.ts';
import { resolvePolicy } from '../fleet/resolve.ts';
import { parseGroupId, parseUserId, reservedId } from '../ids.ts';
import { normalizeRules } from '../normalize.ts';
import type { Direction, Peer, PolicyGroup, SecurityRule } from '../rule.ts';
import { policyAt } from '../time/policy-at.ts';
import { isolationAt, policyIsolation, withIsolation } from './isolation.ts';

const uuid = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`;
const rule = (port: number, ...ranges: string[]): SecurityRule => ({
  ip_protocol: 'tcp',
  from_port: port,
  to_port: port,
  ...(ranges.length > 0 && { ip_ranges: ranges }),
});
const group = (n: number, inbound: readonly SecurityRule[], outbound: readonly SecurityRule[] = []): PolicyGroup => ({
  id: parseGroupId(uuid(n)),
  name: `group ${n}`,
  inbound: normalizeRules(inbound),
  outbound: normalizeRules(outbound),
});
const isolated = (
  fields: { readonly until?: string; readonly allow?: readonly Peer[]; readonly not_refused?: readonly string[] } = {},
) => ({
  since: '2026-01-01T00:00:00.000Z',
  by: parseUserId(uuid(90)),
  reason: 'test',
  ...fields,
});
const [web, db, lab] = [uuid(11), uuid(12), uuid(13)];
const devices = (isolation?: ReturnType<typeof isolated>) =>
  new Fleet([
    deviceIdentity({
      id: web,
      tunnel_ip: '10.0.0.1',
      addresses: ['fd00::1'],
      ...(isolation && { isolated: isolation }),
    }),
    deviceIdentity({ id: db, tunnel_ip: '10.0.0.2' }),
    deviceIdentity({ id: lab, tunnel_ip: '10.0.0.3', labels: ['forensics'] }),
  ]);

const open: PolicyGroup = group(1, [{ ip_protocol: 'ip', from_port: 0, to_port: 0 }]);
function policyOf(id: string, fleet: Fleet, guardrails: readonly PolicyGroup[] = []): EffectivePolicy {
  const self = fleet.get(id);
  if (self === undefined) throw new Error(id);
  const policy = effectivePolicy({
    list: [open.id],
    find: () => open,
    defaultGroup: undefined,
    byLabel: guardrails,
    isolation: policyIsolation(self, fleet.isolated),
  });
  if ('missing' in policy) throw new Error('missing');
  return resolvePolicy(policy, fleet);
}
function ask(policy: EffectivePolicy, direction: Direction, remote: string, port = 22): Decision {
  const address = parseAddress(remote);
  if ('fault' in address) throw new Error(remote);
  const packet = {
    direction,
    family: address.family,
    remote: address.value,
    transport: { kind: 'tcp', dport: port },
  } as const;
  const decision = decide(policy, packet);
  expect(admits(canonicalize(policy), packet)).toBe(decision.verdict === 'accept');
  return decision;
}
const both: readonly Direction[] = ['inbound', 'outbound'];

describe('an isolated device', () => {
  it('exchanges traffic with nobody, although its groups are open', () => {
    const policy = policyOf(web, devices(isolated()));
    for (const direction of both) {
      expect(ask(policy, direction, '10.0.0.2').reason).toEqual({ kind: 'isolated' });
      expect(ask(policy, direction, '198.51.100.1').verdict).toBe('drop');
    }
  });

  it('that allows nobody has a policy without any look-up of addresses, also where no rule names a device', () => {
    const self = devices(isolated()).get(web);
    const isolation = self && policyIsolation(self, []);
    if (isolation === undefined) throw new Error('it is not isolated');
    const unresolved: EffectivePolicy = { source: 'default', groups: [open], isolation };
    const policy = policyOf(web, devices(isolated()));
    expect(policyDigest(canonicalize(unresolved))).toBe(policyDigest(canonicalize(policy)));
    expect(() => canonicalizeNames(unresolved)).not.toThrow();
    for (const direction of both) expect(ask(unresolved, direction, '10.0.0.2').verdict).toBe('drop');
  });

  it('exchanges traffic with what its isolation allows, in both directions, and with no other', () => {
    const policy = policyOf(web, devices(isolated({ allow: [{ labels: ['forensics'] }] })));
    for (const direction of both) {
      expect(ask(policy, direction, '10.0.0.3').reason.kind).toBe('isolation-allows');
      expect(ask(policy, direction, '10.0.0.2').verdict).toBe('drop');
    }
  });

  it('still obeys what the organization forbids, and nothing that it requires', () => {
    const all = { appliesTo: [{ all_devices: true }] } as const;
    const policy = policyOf(web, devices(isolated({ allow: [{ labels: ['forensics'] }] })), [
      { ...group(5, [rule(23)]), ...all, guardrail: 'forbid' },
      { ...group(6, [rule(443)]), ...all, guardrail: 'require' },
    ]);
    expect(ask(policy, 'inbound', '10.0.0.3', 23).reason.kind).toBe('forbid');
    expect(ask(policy, 'inbound', '10.0.0.3', 24).verdict).toBe('accept');
    expect(ask(policy, 'inbound', '10.0.0.2', 443).verdict).toBe('drop');
  });

  it('is not refused by the agent’s own way to the server', () => {
    const access = { addresses: { v4: [{ first: 1n, last: 1n }], v6: [] }, port: 443, resolvers: { v4: [], v6: [] } };
    const packet = { direction: 'outbound', family: 4, remote: 1n, transport: { kind: 'tcp', dport: 443 } } as const;
    const policy = policyOf(web, devices(isolated()));
    expect(decide(policy, packet, { serverAccess: access }).reason.kind).toBe('server');
    expect(decide(policy, packet).verdict).toBe('drop');
  });
});

it('goes on when a change that is being tried ends, on both sides', () => {
  const fleet = devices(isolated());
  for (const id of [web, db]) {
    const self = fleet.get(id);
    const policy = effectivePolicy({
      list: [],
      trial: { id: uuid(70), ends_at: '2026-01-01T01:00:00Z', before: { security_groups: [open.id] } },
      find: () => open,
      defaultGroup: open,
      isolation: self && policyIsolation(self, fleet.isolated),
    });
    if ('missing' in policy) throw new Error('missing');
    const after = policyAt(resolvePolicy(policy, fleet), Date.parse('2026-01-01T01:00:00Z')).policy;
    expect(after.next).toBeUndefined();
    expect(ask(after, 'inbound', id === web ? '10.0.0.2' : '10.0.0.1').verdict).toBe('drop');
  }
});

describe('every other device', () => {
  it('refuses all its addresses in both directions, before what is required', () => {
    const require: PolicyGroup = { ...group(6, [rule(22)]), appliesTo: [{ all_devices: true }], guardrail: 'require' };
    const policy = policyOf(db, devices(isolated()), [require]);
    for (const direction of both) {
      expect(ask(policy, direction, '10.0.0.1').reason).toEqual({ kind: 'far-end-isolated' });
      expect(ask(policy, direction, 'fd00::1').verdict).toBe('drop');
      expect(ask(policy, direction, '10.0.0.3').verdict).toBe('accept');
    }
  });

  it('does not refuse the addresses that were left out', () => {
    const policy = policyOf(db, devices(isolated({ not_refused: ['10.0.0.1'] })));
    expect(ask(policy, 'outbound', '10.0.0.1').verdict).toBe('accept');
    expect(ask(policy, 'outbound', 'fd00::1').reason).toEqual({ kind: 'far-end-isolated' });
  });

  it('still takes its router advertisements, which come from a link-local address', () => {
    const remote = parseAddress('fe80::1');
    if ('fault' in remote) throw new Error('fe80::1');
    const advertisement = {
      direction: 'inbound',
      family: 6,
      remote: remote.value,
      transport: { kind: 'icmpv6', type: 134 },
      hopLimit: 255,
    } as const;
    const policy = policyOf(db, devices(isolated()));
    expect(decide(policy, advertisement, { neighbourDiscovery: true }).reason).toEqual({ kind: 'discovery' });
  });

  it('that the isolation allows decides by its own policy alone', () => {
    const fleet = devices(isolated({ allow: [{ labels: ['forensics'] }] }));
    expect(policyOf(lab, fleet).isolation).toBeUndefined();
    expect(ask(policyOf(lab, fleet), 'outbound', '10.0.0.1').verdict).toBe('accept');
    expect(ask(policyOf(db, fleet), 'outbound', '10.0.0.1').verdict).toBe('drop');
  });

  it('keeps its rules and only another set while devices are isolated and released', () => {
    const [one, two] = [devices(isolated()), devices(isolated())];
    two.set(deviceIdentity({ id: lab, tunnel_ip: '10.0.0.3', isolated: isolated() }));
    const [a, b] = [canonicalizeNames(policyOf(db, one)), canonicalizeNames(policyOf(db, two))];
    const keys = (policy: typeof a): unknown =>
      policy?.inbound.forbid?.any.names?.v4.map(({ group: id, key }) => [id, key]);
    expect(keys(a)).toEqual(keys(b));
    expect(keys(a)).toHaveLength(1);
    expect(policyDigest(canonicalize(policyOf(db, one)))).not.toBe(policyDigest(canonicalize(policyOf(db, two))));
  });

  it('has the digest that it had while nothing is isolated', () => {
    const plain: EffectivePolicy = { source: 'list', groups: [open] };
    expect(policyOf(db, devices()).isolation).toBeUndefined();
    expect(policyDigest(canonicalize(policyOf(db, devices())))).toBe(policyDigest(canonicalize(plain)));
  });

  it('refuses an address that the isolated device shares with another one', () => {
    const fleet = devices(isolated({ allow: [{ device_id: db }] }));
    fleet.set(deviceIdentity({ id: lab, tunnel_ip: '10.0.0.1', isolated: isolated() }));
    expect(ask(policyOf(db, fleet), 'inbound', '10.0.0.1').verdict).toBe('drop');
  });
});

it('is not taken for a stored group that has one of its ids', () => {
  const reserved = (n: number, port: number): PolicyGroup => ({
    ...group(1, [rule(port)], [rule(port)]),
    id: parseGroupId(reservedId(n)),
    appliesTo: [{ all_devices: true }],
    ...(n === 1 && { guardrail: 'forbid' as const }),
  });
  const policy = effectivePolicy({
    list: [parseGroupId(reservedId(2))],
    find: () => reserved(2, 22),
    defaultGroup: undefined,
    byLabel: [reserved(1, 23)],
  });
  if ('missing' in policy) throw new Error('missing');
  const reasons = [22, 23, 24].map((port) => ask(policy, 'inbound', '10.0.0.2', port).reason.kind);
  expect(reasons).toEqual(['rule', 'forbid', 'no-rule']);
});

describe('an isolation that ends', () => {
  const until = '2026-01-01T01:00:00.000Z';
  const end = Date.parse(until);
  const isolationOf = (id: string) => {
    const { isolation } = policyOf(id, devices(isolated({ until })));
    if (isolation === undefined) throw new Error('no isolation');
    return isolation;
  };

  it('counts until its moment, and not from then on', () => {
    for (const id of [web, db]) {
      const isolation = isolationOf(id);
      expect(isolationAt(isolation, end - 1)).toEqual({ isolation, changesAt: end });
      expect(isolationAt(isolation, end)).toEqual({});
    }
  });

  it('leaves those that go on', () => {
    const fleet = devices(isolated({ until }));
    fleet.set(deviceIdentity({ id: lab, tunnel_ip: '10.0.0.3', isolated: isolated() }));
    const policy = policyOf(db, fleet);
    const { isolation, changesAt } = isolationAt(policy.isolation ?? { refused: [] }, end);
    expect(isolation?.refused.map(({ id }) => id)).toEqual([lab]);
    expect(changesAt).toBeUndefined();
  });
});

it('a device’s isolation with content of a newer version is not read in part', () => {
  const read = (more: object) => deviceIdentity({ id: web, isolated: { ...isolated(), ...more } });
  expect(() => read({ only_outbound: true })).toThrow(NotUnderstood);
  expect(() => read({ allow: [{ users: ['ada'] }] })).toThrow(NotUnderstood);
  expect(() => read({ until: 'soon' })).toThrow(NotUnderstood);
  expect(() => read({ not_refused: [1] })).toThrow(NotUnderstood);
});

it('means the same to `decide` and to the canonical form, whatever the policy and the packet', () => {
  fc.assert(
    fc.property(guardedPolicy, packetOfFleet, fc.boolean(), (policy, packet, own) => {
      const fleet = devices(isolated({ allow: [{ labels: ['forensics'] }] }));
      const self = fleet.get(own ? web : db);
      const isolation = self && policyIsolation(self, fleet.isolated);
      const guarded = resolvePolicy({ ...policy, ...(isolation && { isolation }) }, fleet);
      expect(admits(canonicalize(guarded), packet)).toBe(decide(guarded, packet).verdict === 'accept');
      expect(withIsolation(guarded).isolation).toBeUndefined();
    }),
  );
});
