/** Owns the organization's changes as sentences: who did what to which group, device or member. */
import type { AuditEntry } from '../../api/audit.ts';
import { actorName } from '../../client/words/action.ts';
import { sentenceOf, sentenceText } from '../../client/words/sentence.ts';
import { allDevices, namesOfDevice } from '../lookup/device.ts';
import { sentenceNames } from '../lookup/subject-names.ts';
import type { Session } from '../session/session.ts';
import { usageError } from '../terminal/exit.ts';
import { readLabel } from '../terminal/label.ts';
import { idColumn, renderTable } from '../terminal/table.ts';
import { readPastTime, shortTime } from '../terminal/time.ts';
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

/** Entries are read in pages of so many, and no further back than so many pages. */
const pageSize = 200;
const mostPages = 50;

type Filter = (entry: AuditEntry) => boolean;

export async function log(session: Session, options: LogOptions): Promise<void> {
  const limit = readLimit(options.limit);
  const isWholeServer = options.allOrganizations === true;
  const since = options.since === undefined ? undefined : readPastTime(options.since, Date.now());
  const filter = await filterOf(session, options);
  const [entries, names] = await Promise.all([
    newest(session, { limit, isWholeServer, since, filter }),
    sentenceNames(session, { isWholeServer }),
  ]);
  const told = entries.toReversed().map((entry) => ({ entry, sentence: sentenceText(sentenceOf(entry, names)) }));
  await session.print({
    data: told.map(({ entry, sentence }) => ({ ...entry, sentence })),
    ids: told.map(({ entry }) => entry.id),
    table: (layout) =>
      renderTable(
        [
          { head: 'TIME', text: ({ entry }) => shortTime(entry.at), whole: true },
          { head: 'REVISION', text: ({ entry }) => String(entry.revision ?? ''), align: 'right' },
          { head: 'WHO', text: ({ entry }) => actorName(entry) },
          { head: 'WHAT', text: ({ sentence }) => sentence },
          { ...idColumn<(typeof told)[number]>('ID', ({ entry }) => entry.subject_id ?? '', layout), wide: true },
          { head: 'WITH', text: ({ entry }) => entry.credential.kind.replace('_', ' '), wide: true },
          { head: 'FROM', text: ({ entry }) => entry.address, wide: true },
        ],
        told,
        layout,
      ),
  });
}

/** An agent's own words on where its device is reached are no change that people look for. */
const isChange: Filter = ({ unchanged, credential, operation }) =>
  unchanged !== true && !(credential.kind === 'device_token' && operation === 'updateDevice');

/** What an entry is about, by its id and by the names that it had then. */
function isAbout(
  entry: AuditEntry,
  kind: 'Device' | 'SecurityGroup',
  wanted: string,
  ids: ReadonlySet<string>,
): boolean {
  if (!entry.operation.endsWith(kind)) return false;
  const names = [entry.subject?.name, ...[entry.before, entry.after].map((one) => one?.hostname ?? one?.group_name)];
  return ids.has(entry.subject_id ?? '') || entry.subject_id === wanted || names.includes(wanted);
}

const labelsIn = ({ before, after }: AuditEntry): readonly string[] =>
  [before, after].flatMap((one) => [
    ...(one?.labels ?? []),
    ...(one?.applies_to ?? []).flatMap((selector) => ('labels' in selector ? selector.labels : [])),
    ...[...(one?.inbound_rules ?? []), ...(one?.outbound_rules ?? [])].flatMap(({ peers = [] }) =>
      peers.flatMap((peer) => ('labels' in peer ? peer.labels : [])),
    ),
  ]);

async function filterOf(session: Session, options: LogOptions): Promise<Filter> {
  const { all, by, device, group, label, until } = options;
  const end = until === undefined ? undefined : readPastTime(until, Date.now());
  const wantedLabel = label === undefined ? undefined : readLabel(label);
  const inOrganization = [device, group, label].some((one) => one !== undefined);
  if (options.allOrganizations === true && inOrganization)
    throw usageError('--device, --group and --label need one organization: remove --all-organizations');
  // A device that is called so now is found under all the names that it had.
  const called =
    device === undefined ? [] : (await allDevices(session)).filter((one) => namesOfDevice(one).names.includes(device));
  const devices = new Set<string>(called.map(({ id }) => id));
  return (entry) =>
    (all === true || isChange(entry)) &&
    (end === undefined || Date.parse(entry.at) <= end) &&
    (by === undefined || entry.username === by || entry.user_id === by) &&
    (device === undefined || isAbout(entry, 'Device', device, devices)) &&
    (group === undefined || isAbout(entry, 'SecurityGroup', group, new Set())) &&
    (wantedLabel === undefined || labelsIn(entry).includes(wantedLabel));
}

interface LogQuery {
  readonly limit: number;
  readonly isWholeServer: boolean;
  /** Milliseconds; nothing before it is read. */
  readonly since: number | undefined;
  readonly filter: Filter;
}

async function newest(
  session: Session,
  { limit, isWholeServer, since, filter }: LogQuery,
): Promise<readonly AuditEntry[]> {
  const client = await session.client();
  if (isWholeServer) {
    const entries = await client.audit.server({ limit: Math.min(limit, pageSize * mostPages) });
    return entries.filter((entry) => filter(entry) && (since === undefined || Date.parse(entry.at) >= since));
  }
  const found: AuditEntry[] = [];
  let read = 0;
  for await (const entry of client.audit.each(await session.organization(), { limit: pageSize })) {
    if (since !== undefined && Date.parse(entry.at) < since) break;
    if (filter(entry)) found.push(entry);
    read += 1;
    if (found.length === limit) break;
    if (read === pageSize * mostPages) {
      session.say(`Only the newest ${read} entries were searched. To search an earlier time, use --until.`);
      break;
    }
  }
  return found;
}
