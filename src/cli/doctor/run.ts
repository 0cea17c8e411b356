/** Owns the doctor: it runs every check in order of dependency and shows the results. */
import type { Session } from '../session/session.ts';
import { exitCodes } from '../terminal/exit.ts';
import type { Style } from '../terminal/screen.ts';
import type { Layout } from '../terminal/table.ts';
import { printable } from '../../policy/names/printable.ts';
import type { Check, CheckState } from './check.ts';
import { deviceChecks } from './device-checks.ts';
import { serverChecks } from './server-checks.ts';

export interface DoctorOptions {
  readonly state?: string;
}

export async function examine(session: Session, { state }: DoctorOptions): Promise<void> {
  const checks = [...(await serverChecks(session)), ...(await deviceChecks(session, state))];
  await session.print({
    data: checks,
    ids: checks.filter((check) => check.state === 'failed').map(({ name }) => name),
    table: (layout) => render(checks, layout),
  });
  if (checks.some((check) => check.state === 'failed')) process.exitCode = exitCodes.failed;
}

const words: { readonly [S in CheckState]: readonly [word: string, style: Style] } = {
  ok: ['ok', 'green'],
  warning: ['warning', 'yellow'],
  failed: ['failed', 'red'],
  skipped: ['-', 'dim'],
};

function render(checks: readonly Check[], { paint }: Layout): string {
  const widest = Math.max(...checks.map(({ name }) => name.length));
  const lines = checks.flatMap(({ name, state, detail, advice }) => {
    const [word, style] = words[state];
    const indent = ' '.repeat(9 + widest + 2);
    return [
      `${paint(style, word.padEnd(7))}  ${name.padEnd(widest)}  ${printable(detail)}`,
      ...(advice === undefined ? [] : [`${indent}${paint('dim', printable(advice))}`]),
    ];
  });
  return lines.map((line) => `${line}\n`).join('');
}
