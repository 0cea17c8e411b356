/** Owns the differences from older programs that are meant: each with its reason, and only as wide as that reason. */
import type { Answers } from './two-servers.ts';
import type { Command } from './commands.ts';

interface Justified {
  readonly reason: string;
  readonly is: (command: Command, answers: Answers) => boolean;
}

const justified: readonly Justified[] = [];

/** Why this difference is meant; undefined where it is a defect until somebody can say why it is better. */
export const justification = (command: Command, answers: Answers): string | undefined =>
  justified.find(({ is }) => is(command, answers))?.reason;
