/** Proves the question who may reach whom: both ends are asked, and what is not known is not guessed. */
import { describe, expect, it } from 'vitest';
import type { Device } from '../../api/device.ts';
import { parseGroupId } from '../../policy/ids.ts';
import { defaultInboundRules, type StoredRule } from '../../policy/rule.ts';
import { labelClusters, ReachTable, addressOf, reach, type Endpoint } from './reachability.ts';

const device = (id: string, tunnel_ip: string): Device => ({ id, tunnel_ip, hostname: id }) as unknown as Device;

function endpoint(
  id: string,
  tunnel_ip: string,
  rules: { inbound?: readonly StoredRule[]; outbound?: readonly StoredRule[] },
): Endpoint {
  const one = device(id, tunnel_ip);
  const group = {
    id: parseGroupId('00000000-0000-4000-8000-000000000001'),
    name: 'group',
    inbound: rules.inbound ?? [],
    outbound: rules.outbound ?? [],
  };
  return { device: one, policy: { source: 'list', groups: [group] }, address: addressOf(one) };
}
const tcp = (port: number, ...ip_ranges: string[]): StoredRule => ({
  ip_protocol: 'tcp',
  from_port: port,
  to_port: port,
  ip_ranges,
});
const ssh = { kind: 'tcp', port: 22 } as const;

describe('reach', () => {
  const open = endpoint('open', '10.0.0.1', { inbound: defaultInboundRules });

  it('needs the outbound of the one and the inbound of the other', () => {
    const guarded = endpoint('guarded', '10.0.0.2', { inbound: [tcp(22, '10.0.0.1')] });
    const bound = endpoint('bound', '10.0.0.3', { outbound: [tcp(443, '10.0.0.0/24')] });
    expect(reach(open, guarded, ssh).kind).toBe('yes');
    expect(reach(bound, guarded, ssh)).toMatchObject({
      kind: 'no',
      outbound: { decision: { verdict: 'drop' } },
      inbound: { decision: { verdict: 'drop' } },
    });
    expect(reach(bound, open, ssh)).toMatchObject({
      kind: 'no',
      outbound: { decision: { verdict: 'drop' } },
      inbound: { decision: { verdict: 'accept' } },
    });
    expect(reach(bound, open, { kind: 'tcp', port: 443 }).kind).toBe('yes');
  });

  it('asks a ping of the family that the devices have', () => {
    const six = endpoint('six', 'fd00::1', { inbound: [{ ip_protocol: 'icmpv6', from_port: 0, to_port: 0 }] });
    const other = endpoint('other', 'fd00::2', {});
    expect(reach(other, six, { kind: 'ping', port: 0 }).kind).toBe('yes');
    expect(reach(six, other, { kind: 'ping', port: 0 }).kind).toBe('no');
  });

  it('says that it does not know, and why', () => {
    const nowhere = endpoint('nowhere', '', {});
    const six = endpoint('six', 'fd00::1', {});
    const hidden: Endpoint = { ...open, device: device('hidden', '10.0.0.9'), policy: { missing: 'default' } };
    expect(reach(open, nowhere, ssh)).toMatchObject({
      kind: 'unknown',
      why: expect.stringContaining('nowhere') as string,
    });
    expect(reach(open, six, ssh)).toMatchObject({ kind: 'unknown', why: expect.stringContaining('IPv6') as string });
    expect(reach(open, hidden, ssh).kind).toBe('unknown');
    expect(reach(open, open, ssh).kind).toBe('self');
  });

  it('reads an address with or without a prefix length', () => {
    expect(addressOf(device('a', '10.0.0.1/24'))).toEqual({ family: 4, value: 0x0a00_0001n });
    expect(addressOf(device('a', 'somewhere'))).toBeUndefined();
    expect(addressOf(device('a', '10.0.0.1-10.0.0.9'))).toBeUndefined();
  });
});

describe('a table of many', () => {
  it('counts for each pair of clusters what the pairs of their devices answer one by one', () => {
    const policies = [
      { inbound: defaultInboundRules },
      { inbound: [tcp(22, '10.0.0.0-10.0.0.9')] },
      { inbound: [tcp(22, '10.0.0.3')], outbound: [tcp(22, '10.0.0.0/29')] },
    ];
    const made = policies.map((rules, index) => endpoint(`policy-${index}`, `10.9.0.${index}`, rules).policy);
    const endpoints = Array.from({ length: 20 }, (_, index): Endpoint => {
      const one = endpoint(`d-${index}`, index === 7 ? '' : index === 8 ? 'fd00::8' : `10.0.0.${index}`, {});
      return { ...one, policy: made[index % 3] ?? one.policy };
    });
    const clusters = [
      { key: 'even', name: 'even', members: [0, 2, 4, 6, 8, 10, 12] },
      { key: 'some', name: 'some', members: [1, 2, 3, 5, 7, 8] },
    ];
    const table = new ReachTable(endpoints, ssh);
    for (const from of clusters) {
      for (const to of clusters) {
        const answers = from.members.flatMap((a) =>
          to.members.flatMap((b) => {
            const [one, other] = [endpoints[a], endpoints[b]];
            return a === b || one === undefined || other === undefined ? [] : [reach(one, other, ssh).kind];
          }),
        );
        const of = (kind: string): number => answers.filter((answer) => answer === kind).length;
        expect(table.count(from, to)).toEqual({ yes: of('yes'), unknown: of('unknown'), total: answers.length });
        expect(of('yes') * of('no')).toBeGreaterThan(0);
      }
    }
  });

  it('puts devices under each of their labels, the largest first, and those without last', () => {
    const labelled = (id: string, ...labels: string[]): Device => ({ ...device(id, ''), labels });
    const devices = [labelled('a'), labelled('b', 'db'), labelled('c', 'app', 'db'), labelled('d')];
    expect(labelClusters(devices).map(({ name, members }) => [name, members])).toEqual([
      ['db', [1, 2]],
      ['app', [2]],
      ['no label', [0, 3]],
    ]);
  });
});
