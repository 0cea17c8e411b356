/** Owns the operation that tells the usage of a group's rules (reference 4.18). */
import { groupReader } from '../../identity/authenticate.ts';
import { groupUsage } from '../../usage/usage.ts';
import { record, type Handler } from '../call.ts';
import { invalid, notFound } from '../errors.ts';

const dayMs = 86_400_000;
const defaultDays = 7;

const read: Handler<'readSecurityGroupUsage'> = async (call, { store, preview, clock }) => {
  const { org_id: org, sg_id: group } = call.params;
  const until = clock();
  const since = call.query.since === undefined ? until - defaultDays * dayMs : Date.parse(call.query.since);
  if (since >= until)
    throw invalid([{ pointer: '/since', code: 'out_of_range', detail: 'since must be in the past.' }]);
  const snapshot = await preview.read(org);
  const reader = groupReader(call.principal);
  const usage = await groupUsage({ org, group, snapshot, reader, since, until }, { store, slices: preview.slices });
  if (usage === undefined) throw notFound('group');
  return record(usage);
};

export const usageHandlers = { readSecurityGroupUsage: read } as const;
