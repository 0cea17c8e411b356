/** Owns the way from the records of the wire to the policy in force on a device. */
import type { Device, DeviceReport } from '../api/device.ts';
import type { SecurityGroup } from '../api/group.ts';
import { effectivePolicy, type EffectivePolicy, type MissingGroups } from '../policy/effective.ts';
import { parseAddress } from '../policy/address.ts';
import { mergeRanges, type Range, type RangeSet } from '../policy/range.ts';
import type { Family, PolicyGroup } from '../policy/rule.ts';
import type { ServerAccess } from '../policy/server-access.ts';

export const groupFromRecord = (group: SecurityGroup): PolicyGroup => ({
  id: group.id,
  name: group.group_name,
  inbound: group.inbound_rules ?? [],
  outbound: group.outbound_rules ?? [],
  ...(group.applies_to && { appliesTo: group.applies_to }),
  ...(group.guardrail && { guardrail: group.guardrail }),
});

/** The policy of a device by what is known of its organization's groups, or what is missing to know it. */
export function policyOfDevice(
  { security_groups = [], labels = [] }: Pick<Device, 'security_groups' | 'labels'>,
  groups: Iterable<SecurityGroup>,
): EffectivePolicy | MissingGroups {
  const wanted = new Set<string>(security_groups);
  const known = new Map<string, PolicyGroup>();
  const byLabel: PolicyGroup[] = [];
  let defaultGroup: PolicyGroup | undefined;
  for (const group of groups) {
    if (wanted.has(group.id)) known.set(group.id, groupFromRecord(group));
    if (group.applies_to !== undefined) byLabel.push(groupFromRecord(group));
    if (group.is_default === true) defaultGroup = groupFromRecord(group);
  }
  return effectivePolicy({ list: security_groups, find: (id) => known.get(id), defaultGroup, labels, byLabel });
}

/** What passes and is judged on a device beside its policy, by what its agent said; nothing where that is not known. */
export interface DeviceSurroundings {
  readonly serverAccess: ServerAccess | undefined;
  /** Agents guard containers unless they are told otherwise. */
  readonly containers: 'guard' | 'ignore';
}

/** What an agent reported is anybody's text: an entry that is no address is left out. */
function rangesOf(texts: readonly string[]): { readonly v4: RangeSet; readonly v6: RangeSet } {
  const addresses = texts.map((text) => parseAddress(text));
  const of = (family: Family): RangeSet =>
    mergeRanges(
      addresses.flatMap((address): Range[] =>
        'fault' in address || address.family !== family ? [] : [{ first: address.value, last: address.value }],
      ),
    );
  return { v4: of(4), v6: of(6) };
}

export function surroundingsOf(report: DeviceReport | undefined): DeviceSurroundings {
  const access = report?.server_access;
  return {
    serverAccess: access && {
      addresses: rangesOf(access.addresses),
      port: access.port,
      resolvers: rangesOf(access.resolvers),
    },
    containers: report?.containers ?? 'guard',
  };
}
