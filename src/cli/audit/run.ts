/** Owns the reading of the audit: who changed what. */
import { usageError } from '../terminal/exit.ts';
import type { Session } from '../session/session.ts';
import { renderTable } from '../terminal/table.ts';
import { shortTime } from '../terminal/time.ts';

export interface AuditOptions {
  readonly limit: string;
  readonly allOrganizations?: boolean;
}

export async function list(session: Session, { limit, allOrganizations }: AuditOptions): Promise<void> {
  if (!/^[1-9]\d{0,4}$/.test(limit)) throw usageError(`\`${limit}\` is not a number of entries`);
  const client = await session.client();
  const options = { limit: Number(limit), signal: session.signal };
  const entries =
    allOrganizations === true
      ? await client.audit.server(options)
      : await client.audit.list(await session.organization(), options);
  await session.print({
    data: entries,
    ids: entries.map(({ id }) => id),
    table: (paint) =>
      renderTable(
        [
          { head: 'TIME', text: ({ at }) => shortTime(at) },
          { head: 'WHO', text: ({ username }) => username },
          { head: 'DID', text: ({ operation }) => operation },
          { head: 'WHAT', text: ({ subject_id }) => subject_id ?? '' },
          { head: 'FIELDS', text: ({ fields = [] }) => fields.join(', ') },
          { head: 'REVISION', text: ({ revision }) => String(revision ?? ''), align: 'right' },
          { head: 'WITH', text: ({ credential }) => credential.kind.replace('_', ' ') },
          { head: 'FROM', text: ({ address }) => address },
        ],
        entries,
        paint,
      ),
  });
}
