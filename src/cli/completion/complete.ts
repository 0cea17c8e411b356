/** Owns what a shell offers for completion: commands, options, and names that the server is asked for, with a short time limit. */
import type { Device } from '../../api/device.ts';
import { readProfiles } from '../session/profile.ts';
import { Session } from '../session/session.ts';
import { isPrintable } from '../../policy/names/printable.ts';
import type { CommandNode } from '../command-line/tree.ts';
import { positionAfter, type NameKind, type Position } from './candidates.ts';
import { allDevices, deviceWords } from '../lookup/device.ts';
import { devices, groups, keys, members, organizations, tokens, users, wordsOf } from '../lookup/resource.ts';

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
