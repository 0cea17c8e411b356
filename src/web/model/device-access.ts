/**
 * Owns the effective access of a device in one direction: refusals, guardrails and the rules of its groups in the order
 * in which they decide, and what happens to the rest.
 */
import { isClosed, rulesOf } from '../../policy/decide.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import type { Direction, Peer, PolicyGroup, SecurityRule, StoredRule } from '../../policy/rule.ts';

export type RuleVerdict = 'refuse' | 'require' | 'allow';

export interface AccessRow {
  readonly verdict: RuleVerdict;
  readonly rule: SecurityRule;
  /** Where it comes from; absent for isolation. */
  readonly group?: { readonly id: string; readonly name: string };
  readonly byIsolation?: true;
}

export interface DeviceAccess {
  readonly rows: readonly AccessRow[];
  /** What happens to traffic that no row matches. */
  readonly rest: 'refuse' | 'allow';
}

/** Every protocol and port, to or from these peers. */
const everythingOf = (peers: readonly Peer[]): SecurityRule => ({ ip_protocol: 'ip', from_port: 0, to_port: 0, peers });

const rowsOf = (groups: readonly PolicyGroup[], direction: Direction, verdict: RuleVerdict): readonly AccessRow[] =>
  groups.flatMap(({ id, name, ...rules }) =>
    rulesOf({ id, name, ...rules }, direction)
      // An expired rule matches nothing.
      .filter(({ expired }) => expired !== true)
      .map((rule) => ({ verdict, rule, group: { id, name } })),
  );

const byIsolation = true as const;

/** For a policy of this moment (`policyAt`). */
export function deviceAccess(policy: EffectivePolicy, direction: Direction): DeviceAccess {
  const { groups, guardrails, isolation } = policy;
  const isolated = (isolation?.refused ?? []).map(({ id }): Peer => ({ device_id: id }));
  const refused: readonly AccessRow[] = [
    ...(isolated.length === 0 ? [] : [{ verdict: 'refuse' as const, rule: everythingOf(isolated), byIsolation }]),
    ...rowsOf(guardrails?.forbid ?? [], direction, 'refuse'),
  ];
  const own = isolation?.own;
  if (own !== undefined) {
    const allowed =
      own.allow.length === 0 ? [] : [{ verdict: 'allow' as const, rule: everythingOf(own.allow), byIsolation }];
    return { rows: [...refused, ...allowed], rest: 'refuse' };
  }
  return {
    rows: [
      ...refused,
      ...rowsOf(guardrails?.require ?? [], direction, 'require'),
      ...rowsOf(groups, direction, 'allow'),
    ],
    rest: isClosed(policy, direction) ? 'refuse' : 'allow',
  };
}

/** The same of one group or guardrail. A guardrail says nothing about the rest. */
export function groupAccess(
  rules: readonly StoredRule[],
  direction: Direction,
  guardrail: PolicyGroup['guardrail'],
): Omit<DeviceAccess, 'rest'> & Partial<DeviceAccess> {
  const verdict = guardrail === undefined ? 'allow' : guardrail === 'forbid' ? 'refuse' : 'require';
  const rows = rules.map((rule): AccessRow => ({ verdict, rule }));
  if (guardrail !== undefined) return { rows };
  return { rows, rest: direction === 'inbound' || rules.length > 0 ? 'refuse' : 'allow' };
}
