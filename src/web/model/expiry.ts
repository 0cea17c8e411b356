/** Owns how long credentials last, as choices in words, and which credentials and rules end soon. */
import type { SecurityGroup } from '../../api/group.ts';
import { ruleInSentence } from '../../client/words/rule.ts';
import type { DeviceNames } from './far-end.ts';

const hour = 3_600_000;
const day = 24 * hour;

const lengths = {
  hour: [hour, 'An hour'],
  day: [day, 'A day'],
  week: [7 * day, 'A week'],
  month: [30 * day, '30 days'],
  quarter: [90 * day, '90 days'],
  year: [365 * day, 'A year'],
} as const;

type Length = keyof typeof lengths;
const isLength = (value: string): value is Length => value in lengths;

export const lengthChoices = (...of: readonly Length[]): { readonly value: string; readonly label: string }[] =>
  of.map((value) => ({ value, label: lengths[value][1] }));

/** The end of that length from now; nothing for anything that is no length: it lasts until it is revoked. */
export const endOf = (length: string, now: number): string | undefined =>
  isLength(length) ? new Date(now + lengths[length][0]).toISOString() : undefined;

/** A key, a token or a rule that ends by itself. */
interface Ending {
  readonly id: string;
  readonly kind: 'key' | 'token' | 'rule';
  readonly name: string;
  readonly at: string;
  /** How many devices a key still admits. */
  readonly usesLeft?: number;
  /** The group of a rule. */
  readonly group?: Pick<SecurityGroup, 'id' | 'group_name'>;
}

const soon = 14 * day;
const mostEnding = 6;

const endingRules = (groups: readonly SecurityGroup[], names: DeviceNames): readonly Ending[] =>
  groups.flatMap((group) =>
    (['inbound', 'outbound'] as const).flatMap((direction) =>
      (group[`${direction}_rules`] ?? []).flatMap(({ expires_at, ...rule }, index): Ending[] =>
        expires_at === undefined
          ? []
          : [
              {
                id: `${group.id} ${direction} ${index}`,
                kind: 'rule',
                name: `${direction === 'inbound' ? 'in' : 'out'} ${ruleInSentence(direction, rule, names)}`,
                at: expires_at,
                group,
              },
            ],
      ),
    ),
  );

/** Rules, keys that still admit devices, and tokens: those that end within two weeks, the first to end first. */
export function endingSoon({
  keys,
  tokens,
  groups,
  names,
  now,
}: {
  readonly keys: readonly { id: string; name?: string; expires_at: string; uses_left: number }[];
  readonly tokens: readonly { id: string; name?: string; expires_at?: string }[];
  readonly groups: readonly SecurityGroup[];
  readonly names: DeviceNames;
  readonly now: number;
}): readonly Ending[] {
  const isSoon = (at: string): boolean => Date.parse(at) > now && Date.parse(at) - now <= soon;
  const all: readonly Ending[] = [
    ...endingRules(groups, names),
    ...keys
      .filter(({ uses_left }) => uses_left > 0)
      .map(({ id, name = '', expires_at, uses_left }) => ({
        id,
        kind: 'key' as const,
        name: name === '' ? 'A key without a name' : name,
        at: expires_at,
        usesLeft: uses_left,
      })),
    ...tokens.flatMap(({ id, name = '', expires_at }) =>
      expires_at === undefined
        ? []
        : [{ id, kind: 'token' as const, name: name === '' ? 'A token without a name' : name, at: expires_at }],
    ),
  ];
  return all
    .filter(({ at }) => isSoon(at))
    .toSorted((a, b) => Date.parse(a.at) - Date.parse(b.at))
    .slice(0, mostEnding);
}
