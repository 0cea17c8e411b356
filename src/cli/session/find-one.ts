/**
 * Owns how a thing is found by the user's text: its full id, the end of its id, or a name; never by an ambiguous text.
 */
import { couldMean, isEndOfId, type NamedThing } from '../../client/words/naming.ts';
import { isUuid } from '../../policy/ids.ts';
import { CliError, usageError } from '../terminal/exit.ts';
import { closestWord } from '../../client/words/closest-word.ts';
import { printable } from '../../policy/names/printable.ts';

/**
 * The one thing that the text means. `what` is its kind in words, for the messages.
 *
 * A full id is always an id, never a name. A word that is the name of one thing and part of the id of another is refused, as is a name
 * that two things have: the message shows the full ids.
 */
export function findOne<T>(what: string, text: string, things: readonly T[], read: (thing: T) => NamedThing): T {
  const given = text.trim();
  if (given === '') throw usageError(`no ${what} given: use its name or id`);
  const named = things.map((thing) => ({ thing, ...read(thing) }));
  const called = named.filter(({ names }) => names.includes(given));
  if (isUuid(given)) {
    const byId = named.find(({ id }) => id === given.toLowerCase());
    if (byId !== undefined) return byId.thing;
    const message = `no ${what} has the id ${given}`;
    if (called.length === 0) throw new CliError('notFound', message);
    throw new CliError('notFound', `${message}; a ${what} has this name; use its id:`, called.map(namedLine));
  }
  const found =
    called.length > 0
      ? named.filter((one) => called.includes(one) || couldMean(one.id, given))
      : named.filter(({ id }) => isEndOfId(id, given));
  const [only, second] = found;
  if (only !== undefined && second === undefined) return only.thing;
  if (second !== undefined) {
    const why =
      called.length === found.length
        ? `${found.length} ${what}s have the name ${printable(given)}`
        : called.length > 0
          ? `${printable(given)} is ambiguous: it is the name of one ${what} and part of the id of another`
          : `${found.length} ${what}s have an id that ends with ${printable(given)}`;
    throw usageError(`${why}; use an id:`, found.map(namedLine));
  }
  const near = closestWord(
    given,
    named.flatMap(({ names }) => names.filter((name) => name !== '')),
  );
  const hint = near === undefined ? '' : `; did you mean ${printable(near)}?`;
  throw new CliError('notFound', `no ${what} is called ${printable(given)}${hint}`);
}

/** A thing in a message that asks which one is meant. */
export const namedLine = ({ id, names, note = '' }: NamedThing): string =>
  [id, ...names, note]
    .filter((part) => part !== '')
    .map(printable)
    .join('  ');
