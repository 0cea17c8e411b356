/** Owns the operations about the usage of rules: of one group, and the unused ones of all groups (reference 4.18). */
import { groupReader } from '../../identity/authenticate.ts';
import { unusedRules } from '../../usage/unused-rules.ts';
import { groupUsage } from '../../usage/usage.ts';
import { record, type Handler } from '../call.ts';
import { invalid, notFound } from '../errors.ts';

const dayMs = 86_400_000;
const defaultDays = 7;
const unusedDays = 30;

/** The start of the window: as asked for, or so many days ago. */
function windowStart(since: string | undefined, until: number, days: number): number {
  const start = since === undefined ? until - days * dayMs : Date.parse(since);
  if (start < until) return start;
  throw invalid([{ pointer: '/since', code: 'out_of_range', detail: 'since must be in the past.' }]);
}

const read: Handler<'readSecurityGroupUsage'> = async (call, { store, preview, clock }) => {
  const { org_id: org, sg_id: group } = call.params;
  const until = clock();
  const since = windowStart(call.query.since, until, defaultDays);
  const snapshot = await preview.read(org);
  const reader = groupReader(call.principal);
  const usage = await groupUsage({ org, group, snapshot, reader, since, until }, { store, slices: preview.slices });
  if (usage === undefined) throw notFound('group');
  return record(usage);
};

const readUnused: Handler<'readUnusedRules'> = async (call, { store, preview, clock }) => {
  const { org_id: org } = call.params;
  const until = clock();
  // What is older is no longer kept.
  const since = Math.max(windowStart(call.query.since, until, unusedDays), until - store.flows.keptMs);
  const snapshot = await preview.read(org);
  const reader = groupReader(call.principal);
  return record(await unusedRules({ org, snapshot, reader, since, until }, { store, slices: preview.slices }));
};

export const usageHandlers = { readSecurityGroupUsage: read, readUnusedRules: readUnused } as const;
