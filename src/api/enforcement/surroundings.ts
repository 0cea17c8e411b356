/** Owns the parts of an agent's report beside the policy: traffic that always passes, and whether containers are guarded. */
import type { DeviceReport } from '../device.ts';
import { parseAddress } from '../../policy/address.ts';
import { mergeRanges, type Range, type RangeSet } from '../../policy/range.ts';
import type { Family } from '../../policy/rule.ts';
import type { ServerAccess } from '../../policy/server-access.ts';

/** What passes and is judged on a device beside its policy, by what its agent said; nothing where that is not known. */
export interface DeviceSurroundings {
  readonly serverAccess: ServerAccess | undefined;
  /** Agents guard containers by default. */
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
