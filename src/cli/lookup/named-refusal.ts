/** Owns the entries of a change in a server's refusal: by what people call them, in place of pointers into a body that they never saw. */
import type { ChangeSetBody } from '../../api/change/change-set.ts';
import { RingfenceError } from '../../client/error.ts';

const kinds = { security_groups: 'group', devices: 'device', delete: 'record', policy_tests: 'test' } as const;

/** Names an entry of the change, and the field of it that the pointer leads to. */
export type EntryNaming = (entry: unknown, pointer: string) => string | undefined;

const entryPointer = /^\/(security_groups|devices|delete|policy_tests)\/(\d+)((?:\/[^\s:]*)?)/;

const idOf = (entry: unknown): string => {
  if (typeof entry === 'string') return entry;
  return typeof entry === 'object' && entry !== null && 'id' in entry ? String(entry.id) : '';
};

/** The same refusal of this change, in words. */
export function namedRefusal(error: RingfenceError, change: ChangeSetBody, nameEntry: EntryNaming): RingfenceError {
  const inWords = (text: string): string =>
    text.replace(entryPointer, (whole: string, list: keyof typeof kinds, index: string, rest: string) => {
      const entry: unknown = change[list]?.[Number(index)];
      if (entry === undefined) return whole;
      return nameEntry(entry, rest) ?? `${kinds[list]} ${idOf(entry)}${rest}`;
    });
  const bare = error.message.replace(/^\/\w+\/\d+: /, '');
  // The message of a single problem is the problem itself, and its pointer says where.
  const said = error.errors.find(({ pointer, detail }) => detail === bare && entryPointer.test(pointer));
  return new RingfenceError({
    ...error,
    message: said === undefined ? inWords(error.message) : `${inWords(said.pointer)}: ${said.detail}`,
    errors: error.errors.filter((one) => one !== said).map((one) => ({ ...one, pointer: inWords(one.pointer) })),
    cause: error.cause,
  });
}
