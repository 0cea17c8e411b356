/** Owns the operations that tell what observed traffic says of groups: the usage of rules, what a watch-only group would have done, and proposals (reference 4.18, 4.22, 4.23). */
import type { ProposalRequest } from '../../../api/usage/proposal.ts';
import { namedBy } from '../../../organization/fleet.ts';
import { parseDeviceId, type OrganizationId } from '../../../policy/ids.ts';
import type { Organization, OrganizationDevice } from '../../../organization/organization.ts';
import { groupReader } from '../../identity/authenticate.ts';
import { groupObservation, type ObservationOptions } from '../../usage/observation.ts';
import { propose } from '../../usage/proposal.ts';
import { unusedRules } from '../../usage/unused-rules.ts';
import { groupUsage } from '../../usage/usage.ts';
import { record, type Handler, type OrganizationServices } from '../call.ts';
import { invalid, problemTable } from '../../problems.ts';

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
  // What is older is no longer kept.
  const since = Math.max(windowStart(call.query.since, until, defaultDays), until - store.ruleUsage.keptMs);
  const snapshot = await preview.read(org, call.work);
  const reader = groupReader(call.principal);
  const usage = await groupUsage({ org, group, snapshot, reader, since, until }, { store, slices: call.work });
  if (usage === undefined) throw problemTable.not_found({ what: 'group' });
  return record(usage);
};

const readUnused: Handler<'readUnusedRules'> = async (call, { store, preview, clock }) => {
  const { org_id: org } = call.params;
  const until = clock();
  const since = Math.max(windowStart(call.query.since, until, unusedDays), until - store.ruleUsage.keptMs);
  const snapshot = await preview.read(org, call.work);
  const reader = groupReader(call.principal);
  return record(await unusedRules({ org, snapshot, reader, since, until }, { store, slices: call.work }));
};

/** What devices of the organization reported about themselves. */
const statusesIn =
  (org: OrganizationId, convergence: OrganizationServices['convergence']): ObservationOptions['statuses'] =>
  async (devices) => {
    const survey = await convergence.survey(org);
    return survey.enforcementStatuses(devices.filter((id) => survey.devices.has(id)));
  };

const observe: Handler<'readSecurityGroupObservation'> = async (call, { store, preview, clock, convergence }) => {
  const { org_id: org, sg_id: group } = call.params;
  const until = clock();
  const since = windowStart(call.query.since, until, defaultDays);
  const snapshot = await preview.read(org, call.work);
  const observation = await groupObservation(
    { org, group, snapshot, since, until, limit: call.query.limit ?? defaultLimit },
    { store, slices: call.work, statuses: statusesIn(org, convergence) },
  );
  if (observation === undefined) throw problemTable.not_found({ what: 'group' });
  return record(observation);
};

/** The devices that a proposal is asked for. */
function* devicesFor(
  { device_ids, labels }: ProposalRequest,
  { devices }: Organization,
): Generator<OrganizationDevice> {
  if (labels !== undefined) yield* namedBy({ labels }, devices.values());
  for (const [index, text] of device_ids?.entries() ?? []) {
    const device = devices.get(parseDeviceId(text));
    const detail = `The organization has no device ${text}.`;
    if (device === undefined) throw invalid([{ pointer: `/device_ids/${index}`, code: 'device_unknown', detail }]);
    yield device;
  }
}

const proposeRules: Handler<'proposeRules'> = async (call, { store, preview, clock, convergence }) => {
  const { org_id: org } = call.params;
  const { body } = call;
  if ((body.device_ids === undefined) === (body.labels === undefined))
    throw invalid([{ pointer: '', code: 'one_key_only', detail: 'Give either device_ids or labels.' }]);
  const until = clock();
  const since = windowStart(body.since, until, defaultDays);
  const snapshot = await preview.read(org, call.work);
  // An id may be written in two letter cases.
  const devices = [...new Set(devicesFor(body, snapshot))];
  const proposal = await propose(
    { org, snapshot, devices, labels: body.labels, includeRefused: body.include_refused, since, until },
    { store, slices: call.work, statuses: statusesIn(org, convergence) },
  );
  return record(proposal);
};

export const usageHandlers = {
  readSecurityGroupUsage: read,
  readUnusedRules: readUnused,
  readSecurityGroupObservation: observe,
  proposeRules,
} as const;
