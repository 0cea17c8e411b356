/** Owns the organization's changes as sentences: who did what to which group, device or member. */
import type { AuditEntry } from '../../api/audit.ts';
import { closestWord } from '../../client/words/closest-word.ts';
import { printable } from '../../policy/names/printable.ts';
import { actorName } from '../../client/words/action.ts';
import type { NamedThing } from '../../client/words/naming.ts';
import { isUuid } from '../../policy/ids.ts';
import { allDevices, namesOfDevice } from '../lookup/device.ts';
import { allGroups, namesOfGroup } from '../lookup/group.ts';
import { sentenceNames } from '../lookup/subject-names.ts';
import type { Session } from '../session/session.ts';
import { usageError } from '../terminal/exit.ts';
import { readLabel } from '../terminal/label.ts';
import { idColumn } from '../terminal/table.ts';
import { readPastTime, shortTime } from '../terminal/time.ts';
import { belongsTo, logLine } from '../../client/words/log-lines.ts';
import { readLimit } from './run.ts';

export interface LogOptions {
  readonly limit: string;
  readonly all?: boolean;
  readonly allOrganizations?: boolean;
  readonly since?: string;
  readonly until?: string;
  readonly by?: string;
  readonly device?: string;
  readonly group?: string;
  readonly label?: string;
}

/** Entries are read in pages of so many, and no more than so many. */
const pageSize = 200;
const mostRead = 10_000;

type Filter = (entry: AuditEntry) => boolean;

export async function log(session: Session, options: LogOptions): Promise<void> {
  const limit = readLimit(options.limit);
  const isWholeServer = options.allOrganizations === true;
  const { filter, sayUnknown } = await searchOf(session, options);
  const [lines, names] = await Promise.all([
    newest(session, { limit, isWholeServer, times: timesOf(options), filter, isWhole: options.all === true }),
    sentenceNames(session, { isWholeServer }),
  ]);
  if (lines.length === 0) await sayUnknown();
  const told = lines.toReversed().map((entries) => logLine(entries, names));
  await session.printList(told, {
    none: 'No change matches.',
    columns: (layout) => [
      { head: 'TIME', text: ({ at }) => shortTime(at), whole: true },
      { head: 'REVISION', text: ({ revision }) => String(revision ?? ''), align: 'right' },
      { head: 'WHO', text: actorName },
      { head: 'WHAT', text: ({ sentence }) => sentence, wraps: true },
      { ...idColumn<AuditEntry>('ID', ({ subject_id }) => subject_id ?? '', layout), wide: true },
      { head: 'WITH', text: ({ credential }) => credential.kind.replace('_', ' '), wide: true },
      { head: 'FROM', text: ({ address }) => address, wide: true },
    ],
  });
}

/** An agent's own words on where its device is reached are no change that people look for. */
const isChange: Filter = ({ unchanged, credential, operation }) =>
  unchanged !== true && !(credential.kind === 'device_token' && operation === 'updateDevice');

/** Operations whose subject is a device, or a group, by what their names end with. */
const operationsOf = { device: /(Device|liftIsolation|createEvidence)$/, group: /SecurityGroup$/ } as const;

/** What an entry is about: by its id, or by the names that it had then. */
function isAbout(
  { operation, subject, subject_id, before, after }: AuditEntry,
  kind: keyof typeof operationsOf,
  { text, ids }: Wanted,
): boolean {
  if (subject_id !== undefined && ids.has(subject_id)) return true;
  const names = [subject?.name, ...[before, after].map((one) => one?.hostname ?? one?.group_name)];
  return operationsOf[kind].test(operation) && names.includes(text);
}

const labelsIn = ({ before, after }: AuditEntry): readonly string[] =>
  [before, after].flatMap((one) => [
    ...(one?.labels ?? []),
    ...(one?.applies_to ?? []).flatMap((selector) => ('labels' in selector ? selector.labels : [])),
    ...[...(one?.inbound_rules ?? []), ...(one?.outbound_rules ?? [])].flatMap(({ peers = [] }) =>
      peers.flatMap((peer) => ('labels' in peer ? peer.labels : [])),
    ),
  ]);

/** A device or a group that is searched for. What is called so now is found under all the names that it had. */
interface Wanted {
  readonly text: string;
  readonly ids: ReadonlySet<string>;
  /** The names of all that there are now. */
  readonly names: readonly string[];
}

function wantedOf<T>(text: string, things: readonly T[], read: (thing: T) => NamedThing): Wanted {
  const named = things.map(read);
  const called = named.filter(({ names }) => names.includes(text));
  return {
    text,
    ids: new Set([text.toLowerCase(), ...called.map(({ id }) => id)]),
    names: named.flatMap(({ names }) => names.filter((name) => name !== '')),
  };
}

/** The names of the people who may have changed something. */
async function userNamesOf(session: Session, isWholeServer: boolean): Promise<readonly string[]> {
  const client = await session.client();
  const people = isWholeServer ? client.users.list() : client.members.list(await session.organization());
  return (await people).map(({ username }) => username);
}

interface Search {
  readonly filter: Filter;
  /** Says which of the given words names nothing that exists, with the nearest name: where nothing was found. */
  readonly sayUnknown: () => Promise<void>;
}

async function searchOf(session: Session, options: LogOptions): Promise<Search> {
  const { all, by, device, group, label, allOrganizations: isWholeServer = false } = options;
  const wantedLabel = label === undefined ? undefined : readLabel(label);
  const inOrganization = [device, group, label].some((one) => one !== undefined);
  if (isWholeServer && inOrganization)
    throw usageError('--device, --group and --label need one organization: remove --all-organizations');
  const wantedDevice = device === undefined ? undefined : wantedOf(device, await allDevices(session), namesOfDevice);
  const wantedGroup = group === undefined ? undefined : wantedOf(group, await allGroups(session), namesOfGroup);
  const filter: Filter = (entry) =>
    (all === true || isChange(entry)) &&
    (by === undefined || entry.username === by || entry.user_id === by) &&
    (wantedDevice === undefined || isAbout(entry, 'device', wantedDevice)) &&
    (wantedGroup === undefined || isAbout(entry, 'group', wantedGroup)) &&
    (wantedLabel === undefined || labelsIn(entry).includes(wantedLabel));
  const sayUnknown = async (): Promise<void> => {
    const say = (kind: string, text: string, names: readonly string[]): void => {
      if (isUuid(text) || names.includes(text)) return;
      const near = closestWord(text, names);
      const hint = near === undefined ? '' : `; did you mean ${printable(near)}?`;
      session.say(`No ${kind} is called ${printable(text)}${hint || '.'}`);
    };
    if (wantedDevice !== undefined) say('device', wantedDevice.text, wantedDevice.names);
    if (wantedGroup !== undefined) say('group', wantedGroup.text, wantedGroup.names);
    if (by !== undefined && session.isForPeople) say('user', by, await userNamesOf(session, isWholeServer));
  };
  return { filter, sayUnknown };
}

interface Times {
  readonly since?: string;
  readonly until?: string;
}

function timesOf({ since, until }: LogOptions): Times {
  const read = (text: string): string => new Date(readPastTime(text, Date.now())).toISOString();
  return { ...(since !== undefined && { since: read(since) }), ...(until !== undefined && { until: read(until) }) };
}

interface LogQuery {
  readonly limit: number;
  readonly isWholeServer: boolean;
  readonly times: Times;
  readonly filter: Filter;
  /** Each entry in a line of its own, also for people. */
  readonly isWhole: boolean;
}

type Line = [AuditEntry, ...AuditEntry[]];

/** The newest lines, the newest first. Programs get a line for each entry. */
async function newest(
  session: Session,
  { limit, isWholeServer, times, filter, isWhole }: LogQuery,
): Promise<readonly Line[]> {
  const client = await session.client();
  const query = { ...times, limit: pageSize };
  const entries = isWholeServer
    ? client.audit.eachOfServer(query)
    : client.audit.each(await session.organization(), query);
  const found: Line[] = [];
  const isFolded = session.isForPeople && !isWhole;
  let read = 0;
  for await (const entry of entries) {
    read += 1;
    const last = found.at(-1);
    if (filter(entry)) {
      if (isFolded && last !== undefined && belongsTo(last, entry)) last.push(entry);
      else if (found.length === limit) break;
      else found.push([entry]);
    }
    if (found.length === limit && !isFolded) break;
    if (read === mostRead) {
      session.say(`${read} entries were searched. To search what is older, add: --until ${entry.at}`);
      break;
    }
  }
  return found;
}
