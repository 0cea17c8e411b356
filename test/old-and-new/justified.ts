/** Owns the differences from older programs that are meant: each with its reason, and only as wide as that reason. */
import type { Answers } from './two-servers.ts';
import type { Command } from './commands.ts';

interface Justified {
  readonly reason: string;
  readonly is: (command: Command, answers: Answers) => boolean;
}

const turned = ({ old, new: now }: Answers, from: number, to: number): boolean =>
  old.status === from && now.status === to;

const justified: readonly Justified[] = [
  {
    reason: 'An owner may revert every trial of the organization.',
    is: ({ method, path }, answers) =>
      method === 'POST' && /\/trials\/[^/]+\/revert$/.test(path) && turned(answers, 403, 200),
  },
];

/** Why this difference is meant; undefined where it is a defect until somebody can say why it is better. */
export const justification = (command: Command, answers: Answers): string | undefined =>
  justified.find(({ is }) => is(command, answers))?.reason;
