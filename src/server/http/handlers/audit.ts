/** Owns the reading of the audit, newest first. */
import type { AuditRecord } from '../../store/contract/records.ts';
import type { Call, Handler, ListAnswer } from '../call.ts';
import { page, probe } from '../request/paging.ts';

type AuditCall = Pick<Call<'listAudit' | 'listServerAudit'>, 'path' | 'query'>;

/** An audit grows without end: without a limit this many come back, and a link to the rest. */
const defaultLimit = 1_000;

const limited = ({ path, query }: AuditCall): AuditCall => ({ path, query: { limit: defaultLimit, ...query } });

const show = (call: AuditCall, entries: readonly AuditRecord[]): ListAnswer =>
  page(call, entries, { id: (entry) => entry.id, json: (entry) => JSON.stringify(entry) });

const listAudit: Handler<'listAudit'> = async (given, { store }) => {
  const call = limited(given);
  return show(call, await store.audit.list(given.params.org_id, probe(call.query)));
};

const listServerAudit: Handler<'listServerAudit'> = async (given, { store }) => {
  const call = limited(given);
  return show(call, await store.audit.list(undefined, probe(call.query)));
};

export const auditHandlers = { listAudit, listServerAudit } as const;
