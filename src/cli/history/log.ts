/** Owns the organization's changes as sentences: who did what to which group, device or member. */
import type { AuditEntry } from '../../api/audit.ts';
import type { SecurityGroup } from '../../api/group.ts';
import type { DevicePolicy } from '../../api/history/states.ts';
import { allGroups } from '../lookup/group.ts';
import type { Session } from '../session/session.ts';
import { renderTable } from '../terminal/table.ts';
import { shortTime } from '../terminal/time.ts';
import { deviceChanges, groupChanges, type Line } from './changes.ts';
import { groupNames, readLimit } from './run.ts';

export interface LogOptions {
  readonly limit: string;
  readonly all?: boolean;
}

/** Entries are read in pages of so many, and no further back than so many pages. */
const pageSize = 200;
const mostPages = 50;

export async function log(session: Session, options: LogOptions): Promise<void> {
  const limit = readLimit(options.limit);
  const [entries, groups] = await Promise.all([newest(session, limit, options.all === true), allGroups(session)]);
  const told = entries.toReversed().map((entry) => ({ entry, sentence: sentenceOf(entry, groupNames(groups)) }));
  await session.print({
    data: told.map(({ entry, sentence }) => ({ ...entry, sentence })),
    ids: told.map(({ entry }) => entry.id),
    table: (layout) =>
      renderTable(
        [
          { head: 'TIME', text: ({ entry }) => shortTime(entry.at), whole: true },
          { head: 'REVISION', text: ({ entry }) => String(entry.revision ?? ''), align: 'right' },
          { head: 'WHO', text: ({ entry }) => entry.username },
          { head: 'WHAT', text: ({ sentence }) => sentence },
        ],
        told,
        layout,
      ),
  });
}

/** An agent's own words on where its device is reached are no change that people look for. */
const isChange = ({ unchanged, credential, operation }: AuditEntry): boolean =>
  unchanged !== true && !(credential.kind === 'device_token' && operation === 'updateDevice');

async function newest(session: Session, limit: number, all: boolean): Promise<readonly AuditEntry[]> {
  const client = await session.client();
  const organization = await session.organization();
  const found: AuditEntry[] = [];
  let read = 0;
  for await (const entry of client.audit.each(organization, {
    limit: Math.min(pageSize, limit),
    signal: session.signal,
  })) {
    if (all || isChange(entry)) found.push(entry);
    read += 1;
    if (found.length === limit || read === pageSize * mostPages) break;
  }
  return found;
}

const isGroup = (record: object | undefined): record is SecurityGroup => record !== undefined && 'group_name' in record;
const isDevice = (record: object | undefined): record is DevicePolicy => record !== undefined && 'hostname' in record;

/** What was done, in the words of an operation's name. A newer server's operations are readable too. */
const verbs: Readonly<Record<string, string>> = {
  create: 'created',
  add: 'added',
  update: 'changed',
  delete: 'deleted',
  remove: 'removed',
  revoke: 'revoked',
  rotate: 'rotated',
  restore: 'restored',
};

function actionOf(operation: string): { readonly verb: string; readonly what: string } {
  const [first = '', ...rest] = operation
    .replace(/([a-z])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(' ');
  const what = rest.join(' ').replace(/^(user )?security group$/, 'group');
  return { verb: verbs[first] ?? first, what };
}

const shownLines = 3;

function listed(lines: readonly Line[]): string {
  if (lines.length === 0) return '';
  const shown = lines.slice(0, shownLines).map(([sign, text]) => (sign === '~' ? text : `${sign} ${text}`));
  const more = lines.length - shown.length;
  return `: ${shown.join('; ')}${more > 0 ? `; and ${more} more` : ''}`;
}

export function sentenceOf(entry: AuditEntry, nameOf: (id: string) => string): string {
  const { before, after, subject_id = '', fields = [] } = entry;
  const { verb, what } = actionOf(entry.operation);
  const record = after ?? before;
  if (isGroup(record)) {
    const name = `${verb} ${what} ${record.group_name}`;
    if (isGroup(before) && isGroup(after)) return `${name}${listed(groupChanges(before, after))}`;
    if (after === undefined) return record.is_default === true ? 'reset the default group' : `${name} (${subject_id})`;
    const count = (record.inbound_rules?.length ?? 0) + (record.outbound_rules?.length ?? 0);
    return `${name} with ${count} ${count === 1 ? 'rule' : 'rules'}`;
  }
  if (isDevice(record)) {
    const name = `${verb} ${what} ${record.hostname || record.id}`;
    if (isDevice(before) && isDevice(after)) return `${name}${listed(deviceChanges(before, after, nameOf))}`;
    return after === undefined ? `${name} (${subject_id})` : name;
  }
  const given = fields.length === 0 ? '' : `: ${fields.join(', ')}`;
  const subject = what === 'group' ? nameOf(subject_id) : subject_id;
  return `${[verb, what, subject].filter((word) => word !== '').join(' ')}${verb === 'changed' ? given : ''}`;
}
