/** Proves that a policy by name outlives a restart whole: with the addresses of its peers, and with its guardrails; and that older agents refuse it. */
import { expect, test } from 'vitest';
import { parseInterfaceName } from '../../nft/names.ts';
import { canonicalize } from '../../policy/canonicalize.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import { Fleet } from '../../policy/fleet/fleet.ts';
import { deviceIdentity } from '../../policy/fleet/identity.ts';
import { resolvePolicy } from '../../policy/fleet/resolve.ts';
import { parseGroupId } from '../../policy/ids.ts';
import type { PolicyGroup, StoredRule } from '../../policy/rule.ts';
import { parseLastGoodPolicy, printLastGoodPolicy } from './last-good-policy.ts';
import { UnusablePolicy } from './unusable-policy.ts';

const id = (number: number) => parseGroupId(`00000000-0000-4000-8000-00000000000${number}`);
const rule = (port: number, fields: Partial<StoredRule> = {}): StoredRule => ({
  ip_protocol: 'tcp',
  from_port: port,
  to_port: port,
  ...fields,
});
const groupOf = (
  number: number,
  inbound: readonly StoredRule[],
  outbound: readonly StoredRule[] = [],
): PolicyGroup => ({
  id: id(number),
  name: `group ${number}`,
  inbound,
  outbound,
});

const fleet = new Fleet([
  deviceIdentity({ id: 'a', tunnel_ip: '100.64.0.2', addresses: ['fd7f::2'], labels: ['app'] }),
  deviceIdentity({ id: 'b', tunnel_ip: '100.64.0.3', labels: ['app', 'bad'] }),
]);
const app = { peers: [{ labels: ['app'] }] };
const nobody = { peers: [{ labels: ['nobody'] }] };
const saved = (policy: EffectivePolicy) => ({
  policy: resolvePolicy(policy, fleet),
  revision: 7,
  interface: parseInterfaceName('wg0'),
  neighbourDiscovery: true,
});
const plain: EffectivePolicy = { source: 'list', groups: [groupOf(1, [rule(22, { ip_ranges: ['10.0.0.0/8'] })])] };
const byName: EffectivePolicy = {
  source: 'list',
  groups: [groupOf(1, [rule(22, app), rule(23, { ip_ranges: ['10.0.0.0/8'], ...app })], [rule(53, nobody)])],
  guardrails: {
    forbid: [{ ...groupOf(2, [rule(22, { peers: [{ labels: ['bad'] }] })]), guardrail: 'forbid' }],
    require: [{ ...groupOf(3, [rule(9100)]), guardrail: 'require' }],
  },
};

/** The same, with members that are written out already. */
function written(policy: EffectivePolicy): EffectivePolicy {
  const rules = (list: readonly StoredRule[]): StoredRule[] =>
    list.map((each) =>
      each.members === undefined ? each : { ...each, members: { v4: each.members.v4, v6: each.members.v6 } },
    );
  const groups = (list: readonly PolicyGroup[]): PolicyGroup[] =>
    list.map((each) => ({ ...each, inbound: rules(each.inbound), outbound: rules(each.outbound) }));
  const { guardrails } = policy;
  return {
    ...policy,
    groups: groups(policy.groups),
    ...(guardrails && { guardrails: { forbid: groups(guardrails.forbid), require: groups(guardrails.require) } }),
  };
}

test('a policy by name is read back as it was in force, nobody included', () => {
  const before = saved(byName);
  const after = parseLastGoodPolicy(printLastGoodPolicy(before));
  expect(after).toEqual({ ...before, policy: written(before.policy) });
  expect(canonicalize(after.policy)).toEqual(canonicalize(before.policy));
});

test('the isolation of the device is read back with its end and its reason', () => {
  const own = { until: 5_000, reason: 'a stolen key', allow: [{ labels: ['app'] }] };
  const before = saved({ ...plain, isolation: { own, refused: [] } });
  const { policy } = parseLastGoodPolicy(printLastGoodPolicy(before));
  expect(policy.isolation?.own).toMatchObject(own);
  expect(canonicalize(policy)).toEqual(canonicalize(before.policy));
});

test('only a policy by name has a format that an earlier agent refuses', () => {
  expect(printLastGoodPolicy(saved(plain))).toContain('"format":1');
  for (const policy of [
    byName,
    { ...byName, guardrails: byName.guardrails ?? { forbid: [], require: [] }, groups: [] },
  ])
    expect(printLastGoodPolicy(saved(policy))).toContain('"format":2');
  expect(printLastGoodPolicy(saved({ source: 'list', groups: byName.groups }))).toContain('"format":2');
});

test.each([
  ['no addresses beside a rule that names devices', (text: string) => text.replace(/,"members":\[[^\]]*\]/, '')],
  [
    'addresses beside a rule that names none',
    (text: string) => text.replace('"to_port":9100', '"to_port":9100,"members":[]'),
  ],
  ['members that are no addresses', (text: string) => text.replace('"100.64.0.2/31"', '"everybody"')],
  ['guardrails that are no object', (text: string) => text.replace(/"guardrails":.*\}\}$/, '"guardrails":[]}')],
])('a file with %s is refused', async (_, damage) => {
  const { createHash } = await import('node:crypto');
  const [, content = ''] = printLastGoodPolicy(saved(byName)).split('\n');
  const damaged = damage(content);
  expect(damaged).not.toBe(content);
  const text = `sha256 ${createHash('sha256').update(damaged).digest('hex')}\n${damaged}\n`;
  expect(() => parseLastGoodPolicy(text)).toThrow(UnusablePolicy);
});
