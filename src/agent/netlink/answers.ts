/**
 * Owns the parsing of the kernel's answers. These are separate functions, so that their compiled code serves every
 * request.
 */
import { controlType, errorNumber, type Message } from './message.ts';

/** Requests that were sent as one, and what their answers are noted in. */
interface RequestBatch {
  readonly first: number;
  readonly last: number;
  /** Which of all requests the first one is. */
  readonly at: number;
  readonly numbers: number[];
  readonly visit: (index: number, message: Message) => void;
}

/** Notes what the kernel says of each request; true where it has said all. */
export function noteAnswers(answers: readonly Message[], { first, last, at, numbers, visit }: RequestBatch): boolean {
  for (const answer of answers) {
    const { sequence, type } = answer;
    if (sequence < first || sequence > last) continue;
    const index = at + sequence - first;
    if (type === controlType.error) {
      numbers[index] = errorNumber(answer);
      if (sequence === last) return true;
    } else visit(index, answer);
  }
  return false;
}

/** What is listed, and what ends the listing, if that is among the messages. */
export function partOfListing(
  messages: readonly Message[],
  sequence: number,
): { readonly part: readonly Message[]; readonly end: Message | undefined } {
  const part: Message[] = [];
  for (const message of messages) {
    if (message.sequence !== sequence) continue;
    if (message.type === controlType.error || message.type === controlType.done) return { part, end: message };
    part.push(message);
  }
  return { part, end: undefined };
}
