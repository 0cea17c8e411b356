/** Owns the commands about policy tests: running them, with the pair, the reason and the fix of those that fail, and changing them. */
import type { PolicyTestResult } from '../../api/policy-tests/policy-test.ts';
import { readPolicyTests } from '../../policy/policy-test/read-tests.ts';
import { failureInWords, testInWords } from '../../policy/policy-test/words.ts';
import { printable } from '../../policy/names/printable.ts';
import { namesFor } from '../group/peer-text.ts';
import { keepTest, replaceTests } from '../lookup/stored-tests.ts';
import { readTestEnd, readTestPort } from '../policy/written-test.ts';
import type { Session } from '../session/session.ts';
import { CliError, exitCodes, usageError } from '../terminal/exit.ts';
import { renderTable, type Layout } from '../terminal/table.ts';
import type { OfflineOptions } from './offline.ts';

export interface TestOptions extends OfflineOptions {
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
    result.failure === undefined
      ? []
      : [`${printable(result.name)}: ${printable(failureInWords(result, result.failure))}\n`],
  );
  return failures.length === 0 ? table : `${table}\n${failures.join('')}`;
}

const printResults = (session: Session, results: readonly PolicyTestResult[]): Promise<void> =>
  session.print({
    data: results,
    ids: results.map(({ name }) => name),
    table: (layout) => render(results, layout),
  });

const storedResults = async (session: Session): Promise<readonly PolicyTestResult[]> =>
  (await session.client()).policyTests.list(await session.organization());

export async function runTests(session: Session, given: readonly string[], options: TestOptions): Promise<void> {
  const files = [...(options.file ?? []), ...given];
  if (files.length === 0 && (options.snapshot !== undefined || options.prune === true))
    throw usageError('--snapshot and --prune need policy files');
  const results =
    files.length === 0
      ? await storedResults(session)
      : await (await import('./offline.ts')).testFiles(session, files, options);
  await printResults(session, results);
  const isBad = ({ state }: PolicyTestResult): boolean =>
    state === 'failing' || (state === 'vacuous' && options.vacuousFails === true);
  if (results.some(isBad)) process.exitCode = exitCodes.failed;
}

export const listTests = async (session: Session): Promise<void> => printResults(session, await storedResults(session));

export interface AddOptions {
  readonly from: string;
  readonly to: string;
  readonly proto: string;
  readonly port?: string;
  readonly expect: string;
  readonly note?: string;
}

export async function addTest(session: Session, name: string, options: AddOptions): Promise<void> {
  const names = await namesFor(session, [options.from, options.to]);
  const { proto, port, expect, note } = options;
  const { tests, problems } = readPolicyTests([
    {
      name,
      from: readTestEnd(options.from, names),
      to: readTestEnd(options.to, names),
      protocol: proto,
      ...(port !== undefined && { port: readTestPort(port, proto) }),
      expect,
      ...(note !== undefined && { note }),
    },
  ]);
  const [test] = tests;
  if (test === undefined || problems.length > 0) throw usageError(problems.map(({ detail }) => detail).join(' '));
  const { record, sentence } = await keepTest(session, test);
  await session.printRecord(record, sentence, name);
}

export async function removeTest(session: Session, name: string): Promise<void> {
  const known = (await storedResults(session)).find((test) => test.name === name);
  if (known === undefined) throw new CliError('notFound', `no policy test is called ${printable(name)}`);
  if (session.values.dryRun === true)
    return session.printRecord(known, `- test ${name}: ${testInWords(known)}. Nothing was written.`, name);
  if (!(await session.confirm(`Remove test ${printable(name)}: ${printable(testInWords(known))}?`)))
    return session.say('Nothing was changed.');
  await replaceTests(session, (tests) => tests.filter((test) => test.name !== name));
  return session.printRecord(known, `Removed test ${name}.`, name);
}
