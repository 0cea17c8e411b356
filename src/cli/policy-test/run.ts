/** Owns the output of policy tests: each with its state; a failing one with the pair, the reason and the fix. */
import type { PolicyTestResult } from '../../api/policy-tests/policy-test.ts';
import { failureInWords, testInWords } from '../../policy/policy-test/words.ts';
import type { Session } from '../session/session.ts';
import { exitCodes } from '../terminal/exit.ts';
import { renderTable, type Layout } from '../terminal/table.ts';

export interface TestOptions {
  readonly vacuousFails?: boolean;
}

const colors = { passing: 'green', failing: 'red', vacuous: 'yellow' } as const;

function render(results: readonly PolicyTestResult[], layout: Layout): string {
  if (results.length === 0) return 'There are no policy tests.\n';
  const table = renderTable<PolicyTestResult>(
    [
      { head: 'STATE', text: ({ state }) => layout.paint(colors[state], state), whole: true },
      { head: 'TEST', text: ({ name }) => name },
      { head: 'WHAT', text: (result) => testInWords(result) },
    ],
    results,
    layout,
  );
  const failures = results.flatMap((result) =>
    result.failure === undefined ? [] : [`${result.name}: ${failureInWords(result, result.failure)}\n`],
  );
  return failures.length === 0 ? table : `${table}\n${failures.join('')}`;
}

export async function test(session: Session, options: TestOptions): Promise<void> {
  const client = await session.client();
  const results = await client.policyTests.list(await session.organization());
  await session.print({
    data: results,
    ids: results.map(({ name }) => name),
    table: (layout) => render(results, layout),
  });
  const isBad = ({ state }: PolicyTestResult): boolean =>
    state === 'failing' || (state === 'vacuous' && options.vacuousFails === true);
  if (results.some(isBad)) process.exitCode = exitCodes.failed;
}
