/** Owns what a shell offers for completion: commands, options, and names that the server is asked for, with a short time limit. */
import type { Device } from '../../api/device.ts';
import { readProfiles } from '../session/profile.ts';
import { Session } from '../session/session.ts';
import { isPrintable } from '../../policy/names/printable.ts';
import type { CommandNode, OptionNode } from '../command-line/tree.ts';
import { allDevices, deviceWords } from '../lookup/device.ts';
import { devices, groups, keys, members, organizations, tokens, users, wordsOf } from '../lookup/resource.ts';
import { protocols } from '../../policy/rule.ts';
import { services } from '../../policy/services.ts';

/** The longest wait in milliseconds for an unreachable server after a key press. */
const timeout = 1_500;

const selectorsOf = (all: readonly Device[]): readonly string[] => [
  ...new Set(all.flatMap(({ labels = [] }) => labels.map((label) => `label:${label}`))),
  'all-devices',
];

const lists: { readonly [K in NameKind]: (session: Session) => Promise<readonly string[]> } = {
  device: (session) => wordsOf(session, devices),
  label: async (session) => (await allDevices(session)).flatMap(({ labels = [] }) => labels),
  selector: async (session) => selectorsOf(await allDevices(session)),
  peer: async (session) => {
    const known = await allDevices(session);
    return [...selectorsOf(known), ...known.map(deviceWords(known)).map((word) => `device:${word}`), 'any'];
  },
  group: (session) => wordsOf(session, groups),
  org: (session) => wordsOf(session, organizations),
  token: (session) => wordsOf(session, tokens),
  key: (session) => wordsOf(session, keys),
  member: (session) => wordsOf(session, members),
  user: (session) => wordsOf(session, users),
  profile: async ({ profilesFile }) => Object.keys((await readProfiles(profilesFile)).profiles),
};

/** What the scripts of the shells take for "offer files": no name begins like an option. */
const offerFiles = '-files';

/**
 * What may stand for the last word, which is typed up to where it ends: one on each line, with what it means behind a tab. Nothing, and no complaint, where it
 * cannot be had.
 */
export async function complete(session: Session, root: CommandNode, line: readonly string[]): Promise<void> {
  const begun = line.at(-1) ?? '';
  const { candidates, commands, options, isTaken, given } = positionAfter(root, line.slice(0, -1));
  const { terminal } = session;
  const offer = (word: string, help = ''): void => {
    if (word.startsWith(begun)) terminal.fields(word, ...(help === '' ? [] : [help.split('\n')[0] ?? '']));
  };
  if (begun.startsWith('-') || (!isTaken && commands.length === 0))
    for (const { long, help } of options) offer(long, help);
  if (begun.startsWith('-')) return;
  for (const { name, summary } of commands) offer(name, summary);
  if (candidates === 'files') terminal.out(`${offerFiles}\n`);
  else if (candidates !== undefined) {
    const asking = askingSession(session, given);
    const found = await Promise.all(candidates.kinds.map((kind) => lists[kind](asking).catch(() => [])));
    // A name with invisible characters cannot be typed, and one that begins like an option would be taken for it.
    for (const name of new Set([...candidates.words, ...found.flat()]))
      if (isPrintable(name) && !name.startsWith('-')) offer(name);
  }
}

/** With the options of the line that is completed, and little time. */
function askingSession({ values, terminal, signal }: Session, given: Position['given']): Session {
  const { '--server': server, '--org': org, '--profile': profile, '--token-file': tokenFile } = given;
  return new Session({
    terminal,
    signal: AbortSignal.any([signal, AbortSignal.timeout(timeout)]),
    values: {
      ...values,
      ...(server !== undefined && { server }),
      ...(org !== undefined && { org }),
      ...(profile !== undefined && { profile }),
      ...(tokenFile !== undefined && { tokenFile }),
    },
  });
}

const nameKinds = [
  'device',
  'group',
  'org',
  'token',
  'key',
  'member',
  'user',
  'profile',
  'label',
  'selector',
  'peer',
] as const;
type NameKind = (typeof nameKinds)[number];

/** What may stand there: names that are asked for, and words that are known. */
interface Candidates {
  readonly kinds: readonly NameKind[];
  readonly words: readonly string[];
}

const isKind = (text: string): text is NameKind => nameKinds.some((kind) => kind === text);
const ofKinds = (...kinds: readonly NameKind[]): Candidates => ({ kinds, words: [] });
const ofWords = (...words: readonly string[]): Candidates => ({ kinds: [], words });

const serviceWords: readonly string[] = services.flatMap(({ words }) => words);
/** The first words of a rule. */
const ruleWords: readonly string[] = [...protocols, ...serviceWords];

/** By the names that help gives to arguments; `<group|device>` may be either. */
function candidatesOf(path: string, { name, choices }: CommandNode['arguments'][number]): Candidates | undefined {
  if (choices.length > 0) return ofWords(...choices);
  if (name === 'direction') return ofWords('in', 'out');
  if (name === 'rule') return ofWords(...ruleWords, 'from', 'to');
  if (name === 'ends') return { kinds: ['device'], words: serviceWords };
  if (name === 'kinds') return ofWords('device', 'security-groups');
  if (name === 'user' && path.startsWith('member ') && path !== 'member add') return ofKinds('member');
  const kinds = name.split('|').map((word) => word.replace(/s$/, ''));
  return kinds.every(isKind) ? ofKinds(...kinds) : undefined;
}

const optionKinds: Readonly<Record<string, NameKind>> = {
  '--org': 'org',
  '--group': 'group',
  '--user': 'member',
  '--profile': 'profile',
  '--device': 'device',
  '--by': 'member',
  '--far': 'device',
  '--label': 'label',
  '--applies-to': 'selector',
  '--on': 'selector',
  '--allow': 'peer',
};
/** Options whose value is a rule: mostly a service, more needs quotes. */
const ruleOptions: ReadonlySet<string> = new Set(['--in', '--out']);

function candidatesOfOption({ long, flags, choices }: OptionNode): Candidates | undefined {
  const isEnd = long === '--from' || long === '--to';
  // A policy test names devices as a rule does, an explanation by their names.
  const endKind = flags.includes('<devices|') ? 'peer' : flags.includes('<device|') ? 'device' : undefined;
  const kind = isEnd ? endKind : optionKinds[long];
  if (long === '--port') return ofWords(...serviceWords);
  if (ruleOptions.has(long) && !flags.includes('<file>')) return ofWords(...ruleWords);
  return choices.length > 0 ? ofWords(...choices) : kind === undefined ? undefined : ofKinds(kind);
}

const isFileOption = ({ flags, takesValue }: OptionNode): boolean => takesValue && /<(file|dir|folder)/.test(flags);
const isFileArgument = ({ name }: CommandNode['arguments'][number]): boolean => /^(file|folder)s?$/.test(name);

/** What may come after some words of a command line. */
interface Position {
  /** What belongs there: undefined where it is nobody's guess, as the name of a new group; `files` is for the shell to complete. */
  readonly candidates: Candidates | 'files' | undefined;
  /** Commands below, where the words name no argument yet. */
  readonly commands: readonly CommandNode[];
  readonly options: readonly OptionNode[];
  /** Whether a value or an argument is expected: options are offered there only to those who begin one. */
  readonly isTaken: boolean;
  /** Options given on the line so far, by their long names. */
  readonly given: Readonly<Record<string, string>>;
}

/** What belongs after these words, the program's own name left out. */
function positionAfter(root: CommandNode, words: readonly string[]): Position {
  let node = root;
  let position = 0;
  const given: Record<string, string> = {};
  for (let index = 0; index < words.length; index += 1) {
    const word = words[index] ?? '';
    const child =
      position === 0 ? node.children.find(({ name, aliases }) => name === word || aliases.includes(word)) : undefined;
    if (child !== undefined) {
      node = child;
    } else if (word.startsWith('-') && word !== '-') {
      const [flag = '', inline] = word.split(/=(.*)/s);
      const option = node.options.find(({ long, short }) => long === flag || short === flag);
      if (option?.takesValue !== true) continue;
      const value = inline ?? words[(index += 1)];
      if (value === undefined) {
        const candidates = isFileOption(option) ? 'files' : candidatesOfOption(option);
        return { candidates, commands: [], options: [], isTaken: true, given };
      }
      given[option.long] = value;
    } else position += 1;
  }
  const last = node.arguments.at(-1);
  const argument = node.arguments[position] ?? (last?.isMany === true ? last : undefined);
  return {
    candidates: argument === undefined ? undefined : candidatesOfArgument(node, argument, words.at(-1)),
    commands: position === 0 ? node.children : [],
    options: node.options,
    isTaken: argument !== undefined,
    given,
  };
}

function candidatesOfArgument(
  { path }: CommandNode,
  argument: CommandNode['arguments'][number],
  before: string | undefined,
): Position['candidates'] {
  if (argument.name === 'rule' && (before === 'from' || before === 'to')) return ofKinds('peer');
  return isFileArgument(argument) ? 'files' : candidatesOf(path, argument);
}
