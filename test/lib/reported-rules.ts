/** Owns a report of observed traffic as an agent sends it: with the rules that decided, by the policy of these groups. */
import type { FlowReport, FlowTuple } from '../../src/api/flows/flow-report.ts';
import { parseAddress } from '../../src/policy/address.ts';
import { decidingRules } from '../../src/policy/decide.ts';
import type { EffectivePolicy } from '../../src/policy/effective.ts';
import { readGroupRecord } from '../../src/policy/fleet/group-record.ts';
import { resolveGroup } from '../../src/policy/fleet/resolve.ts';
import { packetOf, protocolNumber } from '../../src/policy/flow/protocol.ts';
import { ruleIdOf } from '../../src/policy/rule-identity/rule-id.ts';
import type { Json } from './http.ts';

const nobody = { addressesOf: () => ({ v4: [], v6: [] }) };

/** The records are those of all groups and guardrails of the device. Devices that their rules name have no address. */
export function withRules(
  tuples: readonly object[],
  records: readonly Json[],
): Pick<FlowReport, 'tuples' | 'rules' | 'decisions' | 'groups'> {
  const groups = records.map((record) => resolveGroup(readGroupRecord(record), nobody));
  const policy: EffectivePolicy = {
    source: 'list',
    groups: groups.filter(({ guardrail }) => guardrail === undefined),
    guardrails: {
      forbid: groups.filter(({ guardrail }) => guardrail === 'forbid'),
      require: groups.filter(({ guardrail }) => guardrail === 'require'),
    },
  };
  const rules: { readonly group_id: string; readonly rule_id: string }[] = [];
  const decisions: (readonly number[])[] = [];
  const placed = (tuples as readonly FlowTuple[]).map((tuple) => {
    const far = parseAddress(tuple.far);
    if ('fault' in far) throw new Error(tuple.far);
    const { direction, port = 0 } = tuple;
    const protocol = protocolNumber(tuple.protocol) ?? 0;
    const found = decidingRules(policy, packetOf({ direction, family: far.family, far: far.value, protocol, port }));
    const isAsDecided = (found.verdict === 'accept') === (tuple.verdict === 'admitted');
    const places = (isAsDecided ? found.rules : []).map((rule) => {
      const named = { group_id: rule.group.id, rule_id: ruleIdOf(rule.direction, rule.rule) };
      return rules.push(named) - 1;
    });
    return { ...tuple, decision: decisions.push(places) - 1 };
  });
  return { tuples: placed, rules, decisions, groups: groups.map(({ id }) => id) };
}
