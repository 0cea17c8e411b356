/** Owns how a thing is found by what a person calls it: its id, or a name that only one has. */
import { isUuid } from '../../policy/ids.ts';
import { CliError, usageError } from '../terminal/exit.ts';
import { nearest } from '../../node/nearest.ts';
import { visible } from '../../node/visible.ts';

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
  const [only, second] = byName;
  if (only !== undefined && second === undefined) return only.thing;
  if (second !== undefined) {
    throw usageError(
      `${byName.length} ${what}s are called ${visible(given)}; name the one you mean by its id:`,
      byName.map(({ id, names }) => `${id}  ${visible(names.join('  '))}`),
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
