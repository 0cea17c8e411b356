/**
 * Owns the fast path between two targets that differ only in the members of their peers: it changes map elements only.
 */
import { rulesOfTable, tableNames, type Command, type PeerMap, type Ruleset } from '../../nft/ast.ts';
import type { CompileOptions } from '../../nft/compile/compile.ts';
import type { Installed, InstalledMembers, InstalledTables } from '../../nft/read/listing.ts';
import { planMembers } from '../../nft/plan/member-plan.ts';
import type { MembersByKey } from '../../nft/compile/peer-maps.ts';
import type { CanonicalPolicy } from '../../policy/canonical.ts';
import { sameServerAccess } from '../../policy/server-access.ts';

/** Who is named, and in what. */
export interface Membership {
  /** A policy with peers by name. Policies that differ only in the members of their peers share one object. */
  readonly form: CanonicalPolicy;
  readonly members: MembersByKey;
}

/** A target, as far as it makes the rules. */
interface NamedTarget extends Omit<CompileOptions, 'salt'> {
  readonly membership?: Membership | undefined;
}

const sameOptions = (a: NamedTarget, b: NamedTarget): boolean =>
  a.interface === b.interface &&
  a.neighbourDiscovery === b.neighbourDiscovery &&
  a.forwarding === b.forwarding &&
  a.mostSets === b.mostSets &&
  a.mostAlone === b.mostAlone &&
  a.fewestInCommon === b.fewestInCommon &&
  a.longestList === b.longestList &&
  a.observe === b.observe &&
  a.refuseWith === b.refuseWith &&
  sameServerAccess(a.serverAccess, b.serverAccess);

/** How the kernel gets from what is in force to the target; nothing where more differs, or what changed is not remembered. */
export function memberUpdate(
  inForce: { readonly target: NamedTarget; readonly ruleset: Ruleset },
  target: NamedTarget,
): { readonly ruleset: Ruleset; readonly batches: readonly (readonly Command[])[] } | undefined {
  const [before, after] = [inForce.target.membership, target.membership];
  if (before === undefined || after === undefined || before.form !== after.form) return undefined;
  return sameOptions(inForce.target, target) ? planMembers(inForce.ruleset, before.members, after.members) : undefined;
}

/** What a map holds, worked out when somebody looks. No closure: within the function below that would hold on to all that was installed before. */
class MembersOfMap implements InstalledMembers {
  readonly family: PeerMap['family'];
  readonly #map: PeerMap;

  constructor(map: PeerMap) {
    this.family = map.family;
    this.#map = map;
  }

  get elements(): PeerMap['elements'] {
    return this.#map.elements;
  }
}

/** What the kernel holds once the maps of the ruleset, which are there, hold what it says. */
export function holding(installed: InstalledTables, ruleset: Ruleset): InstalledTables {
  const [service, forward] = tableNames.map((name): Installed | undefined => {
    const table = installed[name];
    const maps = new Map((rulesOfTable(ruleset, name)?.maps ?? []).map((map) => [map.name as string, map]));
    if (table === undefined || maps.size === 0) return table;
    const objects = table.objects.map((each) => {
      const map = each.object === 'map' ? maps.get(each.name) : undefined;
      return map === undefined ? each : { object: each.object, name: each.name, members: new MembersOfMap(map) };
    });
    return { ...table, objects };
  });
  return { service, 'service-forward': forward };
}
