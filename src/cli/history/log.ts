/** Owns the organization's changes as sentences: who did what to which group, device or member. */
import type { AuditEntry } from '../../api/audit.ts';
import { sentenceOf, sentenceText } from '../../client/words/sentence.ts';
import { sentenceNames } from '../lookup/subject-names.ts';
import type { Session } from '../session/session.ts';
import { renderTable } from '../terminal/table.ts';
import { shortTime } from '../terminal/time.ts';
import { readLimit } from './run.ts';

export interface LogOptions {
  readonly limit: string;
  readonly all?: boolean;
}

/** Entries are read in pages of so many, and no further back than so many pages. */
const pageSize = 200;
const mostPages = 50;

export async function log(session: Session, options: LogOptions): Promise<void> {
  const limit = readLimit(options.limit);
  const [entries, names] = await Promise.all([
    newest(session, limit, options.all === true),
    sentenceNames(session, { isWholeServer: false }),
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
  for await (const entry of client.audit.each(organization, { limit: Math.min(pageSize, limit) })) {
    if (all || isChange(entry)) found.push(entry);
    read += 1;
    if (found.length === limit || read === pageSize * mostPages) break;
  }
  return found;
}
