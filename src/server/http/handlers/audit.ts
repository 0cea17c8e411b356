/** Owns the operation that reads the audit, newest first. */
import type { AuditRecord } from '../../store/data/records.ts';
import { groupReader } from '../../identity/authenticate.ts';
import type { Call, Handler } from '../call.ts';
import { answerList } from '../request/paging.ts';

type AuditCall = Pick<Call<'listAudit' | 'listServerAudit'>, 'path' | 'query' | 'inTurn'>;

/** An audit grows without end: without a limit this many come back, and a link to the rest. */
const defaultLimit = 1_000;

const limited = (call: AuditCall): AuditCall => ({ ...call, query: { limit: defaultLimit, ...call.query } });

const show = { id: (entry: AuditRecord) => entry.id, json: (entry: AuditRecord) => JSON.stringify(entry) };

const listAudit: Handler<'listAudit'> = (call, { store }) => {
  const { org_id } = call.params;
  const reader = groupReader(call.principal);
  // With groups before and after: few are read before it is known how large they are here.
  return answerList(limited(call), (part) => store.audit.list(org_id, { ...part, reader }), show, { first: 16 });
};

const listServerAudit: Handler<'listServerAudit'> = (call, { store }) =>
  answerList(limited(call), (part) => store.audit.list(undefined, part), show);

export const auditHandlers = { listAudit, listServerAudit } as const;
