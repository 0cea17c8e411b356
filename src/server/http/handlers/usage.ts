/** Owns the operations that tell what observed traffic says of groups: the usage of rules, and what a watch-only group would have done (reference 4.18, 4.22). */
import { groupReader } from '../../identity/authenticate.ts';
import { groupObservation } from '../../usage/observation.ts';
import { unusedRules } from '../../usage/unused-rules.ts';
import { groupUsage } from '../../usage/usage.ts';
import { record, type Handler } from '../call.ts';
import { invalid, notFound } from '../errors.ts';

const dayMs = 86_400_000;
const defaultDays = 7;
const unusedDays = 30;
const defaultLimit = 100;

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

const observe: Handler<'readSecurityGroupObservation'> = async (call, { store, preview, clock, convergence }) => {
  const { org_id: org, sg_id: group } = call.params;
  const until = clock();
  const since = windowStart(call.query.since, until, defaultDays);
  const snapshot = await preview.read(org);
  const observation = await groupObservation(
    { org, group, snapshot, since, until, limit: call.query.limit ?? defaultLimit },
    {
      store,
      slices: preview.slices,
      statuses: async (devices) => {
        const survey = await convergence.survey(org);
        return survey.enforcementStatuses(devices.filter((id) => survey.devices.has(id)));
      },
    },
  );
  if (observation === undefined) throw notFound('group');
  return record(observation);
};

export const usageHandlers = {
  readSecurityGroupUsage: read,
  readUnusedRules: readUnused,
  readSecurityGroupObservation: observe,
} as const;
