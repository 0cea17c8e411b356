/** Owns the splitting of a change that is too large for one change set: into several, in an order in which each can be written. */
import type { ChangeSetBody } from '../api/change/change-set.ts';
import { limits } from '../api/limits.ts';

type Entry =
  | { readonly list: 'security_groups'; readonly value: NonNullable<ChangeSetBody['security_groups']>[number] }
  | { readonly list: 'devices'; readonly value: NonNullable<ChangeSetBody['devices']>[number] }
  | { readonly list: 'delete'; readonly value: string };

/** What the records of one change set may weigh, with room for tests: a server bounds the bytes of a body, and its fields. */
const most = { bytes: limits.body / 2, fields: 20_000 } as const;

/** Groups come first, because devices name them. Deletions come last, when no device names the group any more. */
const entriesOf = ({ security_groups = [], devices = [], delete: gone = [] }: ChangeSetBody): readonly Entry[] => [
  ...security_groups.map((value) => ({ list: 'security_groups' as const, value })),
  ...devices.map((value) => ({ list: 'devices' as const, value })),
  ...gone.map((value) => ({ list: 'delete' as const, value })),
];

function bodyOf(entries: readonly Entry[]): ChangeSetBody {
  const security_groups = entries.flatMap((one) => (one.list === 'security_groups' ? [one.value] : []));
  const devices = entries.flatMap((one) => (one.list === 'devices' ? [one.value] : []));
  const gone = entries.flatMap((one) => (one.list === 'delete' ? [one.value] : []));
  return {
    ...(security_groups.length > 0 && { security_groups }),
    ...(devices.length > 0 && { devices }),
    ...(gone.length > 0 && { delete: gone }),
  };
}

/**
 * The change as bodies for `changes.apply`, to be sent one after the other; mostly one. Only each of them is written as a whole. Tests go with the last
 * one, because they hold for the whole change.
 */
export function changeParts({
  policy_tests,
  policy_tests_revision,
  ...records
}: ChangeSetBody): readonly ChangeSetBody[] {
  const parts: Entry[][] = [[]];
  let [bytes, fields] = [0, 0];
  for (const entry of entriesOf(records)) {
    const text = JSON.stringify(entry.value);
    const named = text.split('":').length;
    const isFull = bytes + text.length > most.bytes || fields + named > most.fields;
    const part = parts.at(-1) ?? [];
    if (part.length > 0 && (isFull || part.length >= limits.changeSetRecords)) {
      parts.push([entry]);
      [bytes, fields] = [text.length, named];
    } else {
      part.push(entry);
      bytes += text.length;
      fields += named;
    }
  }
  const tests = {
    ...(policy_tests !== undefined && { policy_tests }),
    ...(policy_tests_revision !== undefined && { policy_tests_revision }),
  };
  return parts.map((part, index) => ({ ...bodyOf(part), ...(index === parts.length - 1 && tests) }));
}
