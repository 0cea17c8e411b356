/** Owns how a thing is found by what a person calls it: its id, or a name that only one has. */
import { isUuid } from '../../policy/ids.ts';
import { CliError, usageError } from '../terminal/exit.ts';
import { nearest } from '../../node/nearest.ts';
import { visible } from '../../node/visible.ts';

/** As tables show an id: its last eight digits, or more of them. */
const isEndOf = (id: string, text: string): boolean => /^[0-9a-f-]{8,}$/i.test(text) && id.endsWith(text.toLowerCase());

export interface Named {
  readonly id: string;
  /** What it is called, most telling first. */
  readonly names: readonly string[];
}

/** The one thing that the text means. `what` is its kind in words, for the messages. */
export function findOne<T>(what: string, text: string, things: readonly T[], read: (thing: T) => Named): T {
  const given = text.trim();
  if (given === '') throw usageError(`no ${what} given: use its name or id`);
  const named = things.map((thing) => ({ thing, ...read(thing) }));
  const byId = named.find(({ id }) => id === given.toLowerCase());
  if (byId !== undefined) return byId.thing;
  const byName = named.filter(({ names }) => names.includes(given));
  const found = byName.length > 0 ? byName : named.filter(({ id }) => isEndOf(id, given));
  const [only, second] = found;
  if (only !== undefined && second === undefined) return only.thing;
  if (second !== undefined) {
    throw usageError(
      `${found.length} ${what}s are called ${visible(given)}; name the one you mean by its id:`,
      found.map(({ id, names }) => `${id}  ${visible(names.join('  '))}`),
    );
  }
  const near = nearest(
    given,
    named.flatMap(({ names }) => names.filter((name) => name !== '')),
  );
  const hint = near === undefined ? '' : `; did you mean ${visible(near)}?`;
  throw new CliError(
    'notFound',
    `no ${what} ${isUuid(given) ? `has the id ${given}` : `is called ${visible(given)}`}${hint}`,
  );
}
