/** Proves which rule is nearest to a refused packet, and what does not match. */
import { expect, test } from 'vitest';
import { parseAddress } from '../address.ts';
import { decide } from '../decide.ts';
import type { EffectivePolicy } from '../effective.ts';
import { parseGroupId } from '../ids.ts';
import type { Packet, Transport } from '../packet.ts';
import type { StoredRule } from '../rule.ts';
import { nearestRule } from './nearest-rule.ts';

const tcp = (port: number, range?: string): StoredRule => ({
  ip_protocol: 'tcp',
  from_port: port,
  to_port: port,
  ...(range !== undefined && { ip_ranges: [range] }),
});
const policyOf = (...inbound: readonly StoredRule[]): EffectivePolicy => ({
  source: 'list',
  groups: [{ id: parseGroupId('00000000-0000-7000-8000-000000000001'), name: 'web', inbound, outbound: [] }],
});
function packetOf(far: string, transport: Transport): Packet {
  const address = parseAddress(far);
  if ('fault' in address) throw new Error(far);
  return { direction: 'inbound', family: address.family, remote: address.value, transport };
}
const at = (port: number, kind: 'tcp' | 'udp' = 'tcp'): Transport => ({ kind, dport: port });

const rows: readonly (readonly [
  string,
  readonly StoredRule[],
  Packet,
  readonly [number, readonly string[]] | undefined,
])[] = [
  ['another port', [tcp(443)], packetOf('10.0.0.1', at(80)), [0, ['port']]],
  ['another far end', [tcp(443, '10.1.0.0/16')], packetOf('10.0.0.1', at(443)), [0, ['far']]],
  ['another protocol with the same port', [tcp(443)], packetOf('10.0.0.1', at(443, 'udp')), [0, ['ip_protocol']]],
  ['an echo beside a rule for TCP', [tcp(443)], packetOf('10.0.0.1', { kind: 'icmp', type: 8 }), [0, ['ip_protocol']]],
  ['the other family', [tcp(443, '10.0.0.0/8')], packetOf('fd00::1', at(443)), [0, ['far']]],
  [
    'a rule that has expired',
    [tcp(80), { ...tcp(443), expires_at: '2020-01-01T00:00:00Z', expired: true }],
    packetOf('10.0.0.1', at(443)),
    [1, ['expires_at']],
  ],
  [
    'the same protocol and port before another port, however much else differs',
    [tcp(22), { ...tcp(443, '10.1.0.0/16'), expires_at: '2020-01-01T00:00:00Z', expired: true }, tcp(80)],
    packetOf('10.0.0.1', at(443)),
    [1, ['expires_at', 'far']],
  ],
  [
    'the same protocol and port before the same port of another protocol',
    [tcp(443), { ...tcp(443, '10.1.0.0/16'), ip_protocol: 'udp' }],
    packetOf('10.0.0.1', at(443, 'udp')),
    [1, ['far']],
  ],
  [
    'only a rule that has expired',
    [{ ...tcp(443), expires_at: '2020-01-01T00:00:00Z', expired: true }],
    packetOf('10.0.0.1', at(443)),
    [0, ['expires_at']],
  ],
  [
    'the rule with the fewest differences, not the first',
    [tcp(22, '10.1.0.0/16'), tcp(443, '10.1.0.0/16'), tcp(80, '10.1.0.0/16')],
    packetOf('10.0.0.1', at(443)),
    [1, ['far']],
  ],
  ['the first of several that are equally near', [tcp(22), tcp(80)], packetOf('10.0.0.1', at(443)), [0, ['port']]],
  ['no rule at all', [], packetOf('10.0.0.1', at(443)), undefined],
  [
    'a peer that nobody is',
    [{ ...tcp(443), peers: [{ all_devices: true }], members: { v4: [], v6: [] } }],
    packetOf('10.0.0.1', at(443)),
    [0, ['far']],
  ],
];

test.each(rows)('%s', (_title, rules, packet, expected) => {
  const policy = policyOf(...rules);
  expect(decide(policy, packet).verdict).toBe('drop');
  const nearest = nearestRule(policy, packet);
  expect(nearest && [nearest.index, nearest.differs]).toEqual(expected);
});

test('a packet that a rule admits has no nearest rule', () => {
  expect(nearestRule(policyOf(tcp(80), tcp(443)), packetOf('10.0.0.1', at(443)))).toBeUndefined();
});

test.each([{}, { expires_at: '2020-01-01T00:00:00Z', expired: true } as const])(
  'the ranges of a large rule are read once, however many packets are asked about: %j',
  (expiry) => {
    let reads = 0;
    const ip_ranges = Array.from({ length: 1_000 }, (_, n) => `10.1.${n >> 8}.${n & 255}`);
    const counted = new Proxy(ip_ranges, {
      get(target, key) {
        if (key === Symbol.iterator) reads += 1;
        return Reflect.get(target, key) as unknown;
      },
    });
    const policy = policyOf({ ...tcp(443), ip_ranges: counted, ...expiry });
    for (let port = 1; port < 20; port += 1) {
      const packet = packetOf('10.2.0.1', at(port));
      expect(decide(policy, packet).verdict).toBe('drop');
      expect(nearestRule(policy, packet)?.differs).toContain('far');
    }
    expect(reads).toBe(1);
  },
);
