/** Owns the reading of the audit, newest first. */
import type { AuditRecord } from '../../store/contract/records.ts';
import type { Call, Handler, ListAnswer } from '../call.ts';
import { page, probe } from '../request/paging.ts';

/** An audit grows without end: without a limit this many come back, and a link to the rest. */
const defaultLimit = 1_000;

const limited = (call: Call): Call => ({ ...call, query: { limit: defaultLimit, ...call.query } });

const show = (call: Call, entries: readonly AuditRecord[]): ListAnswer =>
  page(call, entries, { id: (entry) => entry.id, json: (entry) => JSON.stringify(entry) });

const listAudit: Handler = async (given, { store }) => {
  const call = limited(given);
  return show(call, await store.audit.list(call.params.org_id, probe(call.query)));
};

const listServerAudit: Handler = async (given, { store }) => {
  const call = limited(given);
  return show(call, await store.audit.list(undefined, probe(call.query)));
};

export const auditHandlers = { listAudit, listServerAudit } as const;
