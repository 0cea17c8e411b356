/** Owns the differences from older programs that are meant: each with its reason, and only as wide as that reason. */
import type { Answered, Json } from '../lib/http.ts';
import type { Answers, Command } from './commands.ts';

interface Justified {
  readonly reason: string;
  readonly is: (command: Command, answers: Answers) => boolean;
}

const turned = ({ old, new: now }: Answers, from: number, to: number): boolean =>
  old.status === from && now.status === to;

const codeOf = ({ json }: Answered): unknown => json?.code;

const justified: readonly Justified[] = [
  {
    reason: 'An owner may revert every trial of the organization.',
    is: ({ method, path }, answers) =>
      method === 'POST' && /\/trials\/[^/]+\/revert$/.test(path) && turned(answers, 403, 200),
  },
  {
    reason: 'Who never agreed to be an owner does not count as the last one.',
    is: ({ method, path }, answers) =>
      /^(PATCH|DELETE) .*\/members\/[^/]+$/.test(`${method} ${path}`) &&
      answers.old.status === 200 &&
      codeOf(answers.new) === 'last_owner',
  },
];

/** Fields that the older program lacks, each with what it tells. */
const newFields: Readonly<Record<string, string>> = {
  accepted: 'whether an owner whom somebody else made one has agreed',
  until: 'when a trial ends on which a policy test depends',
  refused_addresses: 'the addresses that an isolation makes others refuse',
};

/** Operations that the older program does not know: their entries are missing in its audit. */
const newOperations: ReadonlySet<unknown> = new Set(['acceptMember']);

export const isNewEntry = (entry: Json): boolean => newOperations.has(entry?.operation);

export const isNewField = (name: string): boolean => Object.hasOwn(newFields, name);

/** Why this difference is meant; undefined where it is a defect until somebody can say why it is better. */
export const justification = (command: Command, answers: Answers): string | undefined =>
  justified.find(({ is }) => is(command, answers))?.reason;
