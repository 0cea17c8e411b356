/** Owns the maps of named devices: the name of each, and the addresses that it holds (docs/decisions/ruleset.md). */
import type { NamedPeers } from '../../policy/canonical.ts';
import { sha256Hex } from '#sha256';
import type { Direction, Members } from '../../policy/rule.ts';
import type { PeerMap, Rule, TableRules } from '../ast.ts';
import { countersOf, groupCounter } from '../counters.ts';
import { parseObjectName, type ObjectName } from '../names.ts';
import { recordSetsOf } from '../recording.ts';

const digestDigits = 32;
const form = /^(?:peers|forbid)[46]-[0-9a-f]{32}$/;

/** Whether the name is one that we give to maps. */
export const isPeerMapName = (name: string): boolean => form.test(name);

/** What a map is about: whom it names, and who counts them; the first that an address belongs to does. */
export interface PeerMapDefinition extends Pick<PeerMap, 'family' | 'verdict'> {
  readonly direction: Direction;
  readonly names: readonly NamedPeers[];
}

/** A map is named after whom it is about and not after who that is now, so its name stays while members come and go. */
function nameOf({ direction, verdict, family, names }: PeerMapDefinition, salt: string): ObjectName {
  const text = [salt, direction, ...names.map(({ group, key }) => `${group} ${key}`)].join('\n');
  const digest = sha256Hex(text).slice(0, digestDigits);
  return parseObjectName(`${verdict === 'accept' ? 'peers' : 'forbid'}${family}-${digest}`);
}

/** Who the devices are that rules name: by the key of the peers. */
export type MembersByKey = ReadonlyMap<string, Members>;

const nobody: Members = { v4: [], v6: [] };

/** Who is in the map now: the first of those named that an address belongs to counts its packets. */
function elementsOf({ family, names }: Pick<PeerMap, 'family' | 'names'>, now: MembersByKey): Map<bigint, ObjectName> {
  const elements = new Map<bigint, ObjectName>();
  for (const { key, counter } of names) {
    for (const { first, last } of (now.get(key) ?? nobody)[family === 4 ? 'v4' : 'v6']) {
      for (let address = first; address <= last; address += 1n) {
        if (!elements.has(address)) elements.set(address, counter);
      }
    }
  }
  return elements;
}

/**
 * A map whose elements are worked out when somebody looks. A class: an object that is written down with getters costs ten times as much to
 * make. It holds on to nothing of the map before, or all that ever were would stay in memory.
 */
class LazyPeerMap implements PeerMap {
  readonly name: ObjectName;
  readonly family: PeerMap['family'];
  readonly verdict: PeerMap['verdict'];
  readonly counters: PeerMap['counters'];
  readonly names: PeerMap['names'];
  readonly #now: MembersByKey;
  #elements: PeerMap['elements'] | undefined;

  constructor({ name, family, verdict, counters, names }: Omit<PeerMap, 'elements'>, now: MembersByKey) {
    this.name = name;
    this.family = family;
    this.verdict = verdict;
    this.counters = counters;
    this.names = names;
    this.#now = now;
  }

  get elements(): PeerMap['elements'] {
    return (this.#elements ??= elementsOf(this, this.#now));
  }
}

/** The map, with these members. */
export const withMembers = (map: Omit<PeerMap, 'elements'>, now: MembersByKey): PeerMap => new LazyPeerMap(map, now);

/** Collects maps, each definition once. */
export class PeerMaps {
  readonly #salt: string;
  readonly #maps = new Map<string, PeerMap>();

  constructor(salt = '') {
    this.#salt = salt;
  }

  add(definition: PeerMapDefinition): ObjectName {
    const name = nameOf(definition, this.#salt);
    if (!this.#maps.has(name)) {
      const { family, verdict, direction } = definition;
      const names = definition.names.map(({ group, key }) => ({ key, counter: groupCounter(direction, group) }));
      const counters = [...new Set(names.map(({ counter }) => counter))];
      const now = new Map(definition.names.map(({ key, members }) => [key, members]));
      this.#maps.set(name, withMembers({ name, family, verdict, counters, names }, now));
    }
    return name;
  }

  /** What these rules refer to: counters, maps of named devices with the counters of those, and sets that they record into. */
  objectsOf(chains: readonly { readonly rules: readonly Rule[] }[]): Pick<TableRules, 'counters' | 'maps' | 'sets'> {
    const counters = countersOf(chains);
    const maps = this.#usedBy(chains);
    const sets = recordSetsOf(chains);
    return {
      counters: maps.length === 0 ? counters : [...new Set([...counters, ...maps.flatMap((map) => map.counters)])],
      ...(maps.length > 0 && { maps }),
      ...(sets.length > 0 && { sets }),
    };
  }

  #usedBy(chains: readonly { readonly rules: readonly Rule[] }[]): readonly PeerMap[] {
    const names = new Set(chains.flatMap(({ rules }) => rules.flatMap(({ counterMap }) => counterMap?.map ?? [])));
    return [...names].flatMap((name) => this.#maps.get(name) ?? []);
  }
}
