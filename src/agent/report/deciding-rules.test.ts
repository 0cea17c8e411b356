/** Proves which rules are named for recorded traffic: those of `decide`, by the policy that decided as the kernel did, and nothing beyond the bounds. */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Recorded } from '../kernel/flow-recorder.ts';
import { PolicyTrail } from '../loop/policy-trail.ts';
import { groupOf } from '../loop/agent.fixture.ts';
import { written } from '../../nft/policies.fixture.ts';
import { packet as anyPacket, policy as anyPolicy } from '../../policy/arbitrary.fixture.ts';
import { decide } from '../../policy/decide.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import { packetOf } from '../../policy/flow/protocol.ts';
import { ruleAdmits } from '../../policy/match.ts';
import { ruleIdOf } from '../../policy/rule-identity/rule-id.ts';
import type { PolicyGroup, StoredRule } from '../../policy/rule.ts';
import { judgeTraffic } from './deciding-rules.ts';

type RecordedTuple = Recorded['tuples'][number];

const list = (...groups: readonly PolicyGroup[]): EffectivePolicy => ({ source: 'list', groups });
const tuple = (port: number, more: Partial<RecordedTuple> = {}): RecordedTuple => ({
  direction: 'inbound',
  verdict: 'admitted',
  family: 4,
  far: 0x6440_0002n,
  protocol: 6,
  port,
  packets: 1,
  ...more,
});

/** In the order of time. */
function inForce(...policies: readonly (EffectivePolicy | undefined)[]): PolicyTrail {
  const trail = new PolicyTrail();
  for (const policy of policies) trail.add(policy);
  return trail;
}

/** Of each tuple the rules by group number and port; undefined where they are not known. */
async function named(tuples: readonly RecordedTuple[], trail: PolicyTrail, groups: readonly PolicyGroup[]) {
  const { report, decisionOf } = await judgeTraffic(tuples, trail);
  const names = new Map<string, string>();
  for (const { id, name, inbound, outbound } of groups) {
    for (const rule of inbound) names.set(`${id} ${ruleIdOf('inbound', rule)}`, `${name} in ${rule.from_port}`);
    for (const rule of outbound) names.set(`${id} ${ruleIdOf('outbound', rule)}`, `${name} out ${rule.from_port}`);
  }
  const nameAt = (place: number): string | undefined => {
    const { group_id = '', rule_id = '' } = report.rules?.[place] ?? {};
    return names.get(`${group_id} ${rule_id}`);
  };
  return tuples.map((each) => report.decisions?.[decisionOf.get(each) ?? -1]?.map(nameAt).toSorted());
}

const web = groupOf(1, [written('tcp', 80, 80), written('tcp', 443, 443, '100.64.0.0/24')]);
const all = groupOf(2, [written('tcp', 443, 443)], [written('udp', 53, 53)]);

describe('the rules of recorded traffic', () => {
  test('are all by which it was admitted, or refused as a guardrail says; none where no rule decides', async () => {
    const forbid = groupOf(3, [written('tcp', 80, 80, '100.64.0.0/16')]);
    const policy = { ...list(web, all), guardrails: { forbid: [forbid], require: [] } };
    const tuples = [
      tuple(443),
      tuple(443, { far: 0x0a00_0001n }),
      tuple(80, { verdict: 'refused' }),
      tuple(80, { far: 0x0a00_0001n }),
      tuple(22, { verdict: 'refused' }),
      tuple(53, { direction: 'outbound', protocol: 17 }),
    ];
    expect(await named(tuples, inForce(policy), [web, all, forbid])).toEqual([
      ['group 1 in 443', 'group 2 in 443'],
      ['group 2 in 443'],
      ['group 3 in 80'],
      ['group 1 in 80'],
      [],
      ['group 2 out 53'],
    ]);
  });

  test('are those of `decide`, whatever the policy', async () => {
    await fc.assert(
      fc.asyncProperty(anyPolicy, fc.array(anyPacket, { maxLength: 20 }), async (policy, packets) => {
        const tuples = packets.flatMap(({ direction, family, remote, transport }): RecordedTuple[] => {
          if (transport.kind !== 'tcp' && transport.kind !== 'udp') return [];
          const protocol = transport.kind === 'tcp' ? 6 : 17;
          const one = tuple(transport.dport, { direction, family, far: remote, protocol });
          const way = direction === 'inbound' ? ('in' as const) : ('out' as const);
          const { verdict } = decide(policy, packetOf({ ...one, direction: way, port: transport.dport }));
          return [{ ...one, verdict: verdict === 'accept' ? 'admitted' : 'refused' }];
        });
        const { report, decisionOf } = await judgeTraffic(tuples, inForce(policy));
        for (const each of tuples) {
          const found = (report.decisions?.[decisionOf.get(each) ?? -1] ?? []).map(
            (place) => report.rules?.[place]?.rule_id,
          );
          const way = each.direction === 'inbound' ? ('in' as const) : ('out' as const);
          const packet = packetOf({ ...each, direction: way, port: each.port ?? 0 });
          const matches = (rule: StoredRule): boolean => ruleAdmits(rule, packet);
          const expected = policy.groups.flatMap((group) =>
            group[each.direction].filter(matches).map((rule) => ruleIdOf(each.direction, rule)),
          );
          expect(new Set(found)).toEqual(new Set(each.verdict === 'admitted' ? expected : []));
        }
      }),
      { numRuns: 200 },
    );
  });

  test('are those of the newest policy that decides as the kernel did; where none does, there is none', async () => {
    const [before, after] = [groupOf(1, [written('tcp', 80, 80)]), groupOf(1, [written('tcp', 81, 81)])];
    const tuples = [tuple(80), tuple(81), tuple(82)];
    const trail = inForce(list(before), list(after));
    expect(await named(tuples, trail, [before, after])).toEqual([['group 1 in 80'], ['group 1 in 81'], []]);
    // More policies than are held: by one of them it may have been admitted.
    const many = Array.from({ length: 20 }, () => list(after));
    expect(await named(tuples, inForce(list(before), ...many), [before, after])).toEqual([
      undefined,
      ['group 1 in 81'],
      undefined,
    ]);
  });

  test('come with the groups that were in force all the time, also where very many policies were; not at all where one is unknown', async () => {
    const groupsOf = async (...policies: readonly (EffectivePolicy | undefined)[]) =>
      (await judgeTraffic([], inForce(...policies))).report.groups;
    expect(await groupsOf(list(web, all))).toEqual([web.id, all.id]);
    expect(await groupsOf(list(all), ...Array.from({ length: 20 }, () => list(web, all)))).toEqual([all.id]);
    expect(await groupsOf(list(web, all), undefined, list(web, all))).toBeUndefined();
    expect(await groupsOf()).toBeUndefined();
  });

  test('are told of ICMP, whose type is not recorded, as far as the policy agrees with the kernel', async () => {
    const echo = groupOf(1, [written('icmp', 0, 0)]);
    const { port: _, ...ping } = tuple(0, { protocol: 1 });
    const tuples: RecordedTuple[] = [ping, { ...ping, verdict: 'refused' }];
    expect(await named(tuples, inForce(list(echo)), [echo])).toEqual([['group 1 in 0'], []]);
  });

  test('are not known beyond the bounds: of looks, of places, and of rules', async () => {
    const many = groupOf(
      1,
      Array.from({ length: 1_500 }, (_, n) => written('tcp', n + 1, n + 1)),
    );
    const tuples = Array.from({ length: 1_500 }, (_, n) => tuple(n + 1));
    const usual = await judgeTraffic(tuples, inForce(list(many)));
    // Each port is looked up among all rules.
    expect(usual.decisionOf.size).toBeGreaterThan(600);
    expect(usual.decisionOf.size).toBeLessThan(700);
    const bounds = { looks: Number.POSITIVE_INFINITY, places: 16_384 };
    const patient = await judgeTraffic(tuples, inForce(list(many)), bounds);
    expect([patient.decisionOf.size, patient.report.rules?.length]).toEqual([1_000, 1_000]);
    const few = await judgeTraffic(tuples, inForce(list(many)), { ...bounds, places: 3 });
    expect([few.decisionOf.size, few.report.decisions]).toEqual([3, [[0], [1], [2]]]);
    const same = Array.from({ length: 10 }, (_, n) => tuple(443, { far: BigInt(n) }));
    expect((await judgeTraffic(same, inForce(list(all)))).report.decisions).toEqual([[0]]);
  });
});
