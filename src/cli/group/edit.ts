/** Owns the editing of a group: in an editor that reopens after an error, from a file, or by options. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SecurityGroup } from '../../api/group.ts';
import { RingfenceError } from '../../client/error.ts';
import type { GroupInput } from '../../policy/group.ts';
import { printDryRun } from './dry-run.ts';
import { openEditor } from './editor.ts';
import { sayHostBits, askAboutName, askAboutLabels, askAboutTrial } from './doubts.ts';
import { CliError, usageError } from '../terminal/exit.ts';
import { sameWritten } from '../../client/words/rule.ts';
import { problemLines, sameSelectors, writeGroup } from './text.ts';
import { namesFor } from './peer-text.ts';
import { pathText, problemLine, readOrRefuse, readWritten } from './written-group.ts';
import { readOneInput } from '../terminal/input-file.ts';
import { toYaml } from '../terminal/output.ts';
import type { Session } from '../session/session.ts';
import { writeOrAsk } from '../lookup/write-changes.ts';
import { findGroup } from '../lookup/group.ts';
import { printChange, readSelectors, updateGroup } from './run.ts';

export interface EditOptions {
  readonly name?: string;
  readonly description?: string;
  readonly file?: string;
  readonly appliesTo?: readonly string[];
}

export async function edit(session: Session, text: string, options: EditOptions): Promise<void> {
  const { name, description, file, appliesTo } = options;
  const group = await findGroup(session, text);
  if ([name, description, file, appliesTo].every((given) => given === undefined)) return editByHand(session, group);
  const input = file === undefined ? undefined : await readOneInput(file, session);
  const body: GroupInput = {
    ...(input === undefined ? {} : readOrRefuse(input, 'update', await namesFor(session, [input.value]))),
    ...(appliesTo !== undefined && { applies_to: readSelectors(appliesTo) }),
    ...(name !== undefined && { group_name: name }),
    ...(description !== undefined && { group_description: description }),
  };
  return write(session, group, body);
}

async function write(session: Session, group: SecurityGroup, body: GroupInput): Promise<void> {
  const news = differing(group, body);
  if (Object.keys(news).length === 0) return session.say('Nothing to change: already up to date.');
  sayHostBits(session, [...(news.inbound_rules ?? []), ...(news.outbound_rules ?? [])]);
  await askAboutLabels(session, news, group);
  // With other devices it is another question.
  if (news.applies_to === undefined) await askAboutTrial(session, group);
  if (session.values.dryRun === true) return printDryRun(session, { before: group, after: { ...group, ...news } });
  if (news.group_name !== undefined) await askAboutName(session, news.group_name, group);
  const client = await session.client();
  const how = { ifMatch: group.revision, ...session.groupQuery };
  const changed = await writeOrAsk(session, (asked) => updateGroup(client, group, news, { ...how, ...asked }));
  return printChange(session, 'Changed', changed);
}

/** Only the fields that say something else than the group does. */
function differing(group: SecurityGroup, body: GroupInput): GroupInput {
  const { group_name, group_description, inbound_rules, outbound_rules, applies_to, mode } = body;
  const sameRules = (a: SecurityGroup['inbound_rules'] = [], b: SecurityGroup['inbound_rules'] = []): boolean =>
    a.length === b.length && a.every((rule, index) => b[index] !== undefined && sameWritten(rule, b[index]));
  return {
    ...(group_name !== undefined && group_name !== group.group_name && { group_name }),
    ...(group_description !== undefined && group_description !== group.group_description && { group_description }),
    ...(inbound_rules !== undefined && !sameRules(group.inbound_rules, inbound_rules) && { inbound_rules }),
    ...(outbound_rules !== undefined && !sameRules(group.outbound_rules, outbound_rules) && { outbound_rules }),
    ...(applies_to !== undefined && !sameSelectors(group.applies_to, applies_to) && { applies_to }),
    ...(mode !== undefined && mode !== (group.mode ?? 'enforce') && { mode }),
  };
}

const help = [
  'The order of rules does not matter. Each rule allows traffic: PROTOCOL [PORTS] [from|to ADDRESSES, label:NAME, device:NAME, all-devices].',
  'A description comes after ` # `; then the rule needs quotes: "tcp 22 from label:admin # on call".',
  'Without inbound rules, only replies come in. Without outbound rules, all traffic goes out.',
  'To apply, save and exit. To cancel, exit without changes.',
];
const comments = (lines: readonly string[]): string => lines.map((line) => `# ${line}\n`).join('');
const withoutComments = (text: string): string => text.replace(/^#.*\n?/gm, '');

async function editByHand(session: Session, group: SecurityGroup): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'ringfence-'));
  const file = join(folder, 'group.yaml');
  const names = await namesFor(session, [JSON.stringify(writeGroup(group))]);
  const first = await toYaml(writeGroup(group, names));
  let keep = false;
  try {
    await writeFile(file, comments(help) + first, { mode: 0o600 });
    let shown = first;
    for (;;) {
      const edited = await inEditor(session, file);
      if (edited.trim() === '' || edited === first) return session.say('Nothing was changed.');
      // From here on the text is somebody's work: it stays until it is in force.
      keep = true;
      const problems = await tryOut(session, group, edited);
      if (problems === undefined) {
        keep = false;
        return;
      }
      if (edited === shown) throw usageError('the group is not valid; nothing was written:', problems);
      shown = edited;
      await writeFile(
        file,
        comments(['Fix these errors:', ...problems.map((line) => `  ${line}`), '', ...help]) + edited,
      );
    }
  } catch (error) {
    if (keep) session.terminal.note(`Your text is saved in ${file}`);
    throw error;
  } finally {
    if (!keep) await rm(folder, { recursive: true, force: true });
  }
}

async function inEditor({ terminal, signal }: Session, file: string): Promise<string> {
  const code = await openEditor(file, terminal.env);
  signal.throwIfAborted();
  if (code !== 0) throw new CliError('failed', `the editor exited with code ${code}; nothing was changed`);
  return withoutComments(await readFile(file, 'utf8'));
}

/** Applies the text; undefined when it is in force, otherwise what is wrong with it. */
async function tryOut(session: Session, group: SecurityGroup, text: string): Promise<readonly string[] | undefined> {
  try {
    const { readYaml } = await import('../terminal/read-yaml.ts');
    let value: unknown;
    try {
      value = readYaml(text);
    } catch (error) {
      return [error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error)];
    }
    const { group: body, problems } = readWritten(value, 'update', await namesFor(session, [value]));
    if (problems.length > 0) return problems.map((problem) => problemLine(problem, pathText(problem.path)));
    await write(session, group, { inbound_rules: [], outbound_rules: [], applies_to: [], mode: 'enforce', ...body });
    return undefined;
  } catch (error) {
    if (error instanceof CliError && error.exit === 'usage') return [error.message, ...error.details];
    if (error instanceof RingfenceError && error.status === 422) {
      return problemLines({ problems: error.errors, more: error.moreErrors });
    }
    throw error;
  }
}
