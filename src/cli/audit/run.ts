/** Owns the reading of the audit: who changed what, as sentences. */
import type { AuditEntry } from '../../api/audit.ts';
import { sentenceOf, sentenceText } from '../../client/words/sentence.ts';
import { usageError } from '../terminal/exit.ts';
import type { Session } from '../session/session.ts';
import { idColumn } from '../terminal/table.ts';
import { shortTime } from '../terminal/time.ts';
import { sentenceNames } from '../lookup/subject-names.ts';

export interface AuditOptions {
  readonly limit: string;
  readonly allOrganizations?: boolean;
}

export async function list(session: Session, { limit, allOrganizations }: AuditOptions): Promise<void> {
  if (!/^[1-9]\d{0,4}$/.test(limit)) throw usageError(`\`${limit}\` is not a number of entries`);
  const client = await session.client();
  const options = { limit: Number(limit) };
  const entries =
    allOrganizations === true
      ? await client.audit.server(options)
      : await client.audit.list(await session.organization(), options);
  const names = await sentenceNames(session, { isWholeServer: allOrganizations === true });
  await session.printList(entries, {
    columns: (layout) => [
      { head: 'TIME', text: ({ at }) => shortTime(at), whole: true },
      { head: 'WHO', text: ({ username }) => username },
      { head: 'DID', text: (entry) => sentenceText(sentenceOf(entry, names)) },
      { head: 'REVISION', text: ({ revision }) => String(revision ?? ''), align: 'right', wide: true },
      { ...idColumn<AuditEntry>('WHAT', ({ subject_id = '' }) => subject_id, layout), wide: true },
      { head: 'WITH', text: ({ credential }) => credential.kind.replace('_', ' '), wide: true },
      { head: 'FROM', text: ({ address }) => address, wide: true },
    ],
  });
}
