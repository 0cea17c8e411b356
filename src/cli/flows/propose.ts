/** Owns the command that proposes rules from observed traffic, and the policy file that it writes. */
import { writeFile } from 'node:fs/promises';
import type { Device } from '../../api/device.ts';
import type { Proposal, ProposedRule } from '../../api/usage/proposal.ts';
import { wordsFor } from '../../client/words/naming.ts';
import {
  checkWords,
  coveredWords,
  emptyDirectionWords,
  leftOutWords,
  notCoveredWords,
  proposalCoverage,
  refusedByFarEndWords,
  seenWords,
} from '../../client/words/proposal.ts';
import { ruleWords } from '../../client/words/rule.ts';
import { printable } from '../../policy/names/printable.ts';
import { parseSelectorWord } from '../../policy/fleet/selector-text.ts';
import { peerNames, type PeerNames } from '../group/peer-text.ts';
import { writeGroup } from '../group/text.ts';
import { allDevices, pickDevice } from '../lookup/device.ts';
import { allGroups, namesOfGroup } from '../lookup/group.ts';
import type { Session } from '../session/session.ts';
import { CliError, usageError } from '../terminal/exit.ts';
import { toYaml } from '../terminal/output.ts';
import { shellWord } from '../terminal/text.ts';
import { agoWords, readPastTime, shortTime } from '../terminal/time.ts';

export interface ProposeOptions {
  readonly since: string;
  readonly out?: string;
  readonly includeRefused?: true;
}

/** The labels that one word names; undefined where the words are devices. */
function readLabels(words: readonly string[]): readonly string[] | undefined {
  const selectors = words.map(parseSelectorWord);
  if (selectors.every((selector) => selector === undefined)) return undefined;
  const [only] = selectors;
  if (only !== undefined && 'fault' in only) throw usageError(only.fault);
  if (selectors.length === 1 && only !== undefined && 'labels' in only) return only.labels;
  throw usageError('name either devices, or one `label:app` or `label:app+prod`');
}

/** A rule as a sentence, its evidence, and what to check. */
const ruleLines = (proposed: ProposedRule, names: PeerNames, now: number): readonly string[] => [
  `Allow ${proposed.direction} ${ruleWords(proposed.direction, proposed.rule, names)}`,
  `    Seen: ${seenWords(proposed)}, last ${agoWords(proposed.last_seen, now)}`,
  ...checkWords(proposed).map((words) => `    Check: ${words}`),
];

/** A list of traffic, and how much more there is. */
function listed<Flow>(
  { flows, sums }: { readonly flows: readonly Flow[]; readonly sums: number },
  words: (flow: Flow) => string,
): readonly string[] {
  const more = sums - flows.length;
  return [...flows.map((flow) => `    ${words(flow)}`), ...(more > 0 ? [`    and ${more} more`] : [])];
}

function proposalLines(
  proposal: Proposal,
  names: PeerNames,
  { now, includesRefused }: { readonly now: number; readonly includesRefused: boolean },
): readonly string[] {
  const { rules, not_covered, refused_by_far_end, since } = proposal;
  const empty = emptyDirectionWords(proposal);
  return [
    ...rules.flatMap((rule) => ruleLines(rule, names, now)),
    ...(rules.length > 0 ? [''] : []),
    ...(rules.length > 0 && empty !== '' ? [empty] : []),
    ...(includesRefused || refused_by_far_end.sums === 0
      ? []
      : [refusedByFarEndWords(proposal), ...listed(refused_by_far_end, leftOutWords)]),
    coveredWords(proposal),
    ...listed(not_covered, notCoveredWords),
    `Since ${shortTime(since)}: ${proposalCoverage(proposal)}`,
  ];
}

/** The group and, where devices were named, these with the groups that they have already. */
async function draft(
  session: Session,
  { group }: Proposal,
  devices: readonly Device[],
  names: PeerNames,
): Promise<string> {
  const groups = devices.length === 0 ? [] : await allGroups(session);
  const wordOf = wordsFor(groups, namesOfGroup);
  const known = new Map(groups.map((one) => [one.id, wordOf(one)]));
  return toYaml({
    groups: [writeGroup(group, names)],
    ...(devices.length > 0 && {
      devices: devices.map(({ id, hostname, security_groups = [] }) => ({
        device: hostname || id,
        id,
        groups: [...security_groups.map((one) => known.get(one) ?? one), group.group_name],
      })),
    }),
  });
}

async function writeNew(path: string, text: string): Promise<void> {
  try {
    await writeFile(path, text, { flag: 'wx' });
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'EEXIST')
      throw new CliError('conflict', `${printable(path)} exists already: give another name with --out`);
    throw cause;
  }
}

/** The command to type next. */
async function nextSteps(
  session: Session,
  { rules, observed, group, devices }: Proposal,
  words: readonly string[],
  out: string | undefined,
): Promise<readonly string[]> {
  if (rules.length > 0 && out !== undefined)
    return [
      `Wrote ${out} with the group ${group.group_name}, which is watch only.`,
      `Next: read and edit it, then: ringfence apply ${shellWord(out)}`,
    ];
  if (rules.length > 0) return [`Next: ringfence propose ${words.map(shellWord).join(' ')} --out proposal.yaml`];
  if (observed > 0 || devices === 0) return [];
  const { name } = await (await session.client()).organizations.get(await session.organization());
  return [`Next: ringfence org edit ${shellWord(name)} --observe all`];
}

export async function propose(session: Session, words: readonly string[], options: ProposeOptions): Promise<void> {
  const labels = readLabels(words);
  const now = Date.now();
  const since = new Date(readPastTime(options.since, now)).toISOString();
  const all = await allDevices(session);
  const devices = labels === undefined ? [...new Set(words.map((word) => pickDevice(all, word)))] : [];
  const names = peerNames(all);
  const client = await session.client();
  const proposal = await client.propose(await session.organization(), {
    ...(labels === undefined ? { device_ids: devices.map(({ id }) => id) } : { labels }),
    since,
    ...(options.includeRefused && { include_refused: true }),
  });
  const { out } = options;
  const hasRules = proposal.rules.length > 0;
  if (out !== undefined && hasRules) await writeNew(out, await draft(session, proposal, devices, names));
  const steps = session.isForPeople ? await nextSteps(session, proposal, words, out) : [];
  const lines = [
    ...proposalLines(proposal, names, { now, includesRefused: options.includeRefused === true }),
    ...steps,
  ];
  await session.print({
    data: proposal,
    ids: [],
    table: () => lines.map((line) => `${printable(line)}\n`).join(''),
  });
  if (out !== undefined && !hasRules) throw new CliError('failed', 'there is no rule to write, so no file was written');
}
