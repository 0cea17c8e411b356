/** Owns the operations about enforcement (reference 4.10): what agents report, and whether the policy is in force. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { inForceWords, type InForce } from '../../../api/enforcement/in-force.ts';
import type { DeviceReport } from '../../../api/device.ts';
import { defaultAgentSettings, type AgentSettings } from '../../../api/organization.ts';
import { pathFor } from '../../../api/paths.ts';
import type { DeviceId } from '../../../policy/ids.ts';
import { isObject } from '../../../policy/json.ts';
import type { Converged, EnforcementStatus } from '../../convergence/contract.ts';
import { credentialId, type Principal } from '../../identity/authenticate.ts';
import type { StreamReservation, StreamQuota } from '../../limits/stream-quota.ts';
import { record, type Call, type Handler, type Services } from '../call.ts';
import { HttpError, invalid } from '../../problems.ts';
import { answerList } from '../request/paging.ts';
import { readableChangeSet } from './changes.ts';

/** Without packet counts where the organization records nothing, whatever an agent sends (reference 4.17). */
function observedReport(report: DeviceReport, { observe }: AgentSettings): DeviceReport {
  if (observe !== 'off') return report;
  const { packets: _packets, group_packets: _groups, ...rest } = report;
  return rest;
}

const report: Handler<'reportDeviceStatus'> = async (call, services) => {
  const { store, clock, sampler, receipts, onRefused, tokenMaxAgeMs } = services;
  const { org_id, device_id } = call.params;
  const settings = (await store.organizations.settings(org_id)) ?? defaultAgentSettings;
  // Packets are the fleet's, not the device's state: they are added up and not kept with it.
  const { next_token_digest: next, ...body } = call.body;
  const { packets, ...status } = observedReport(body, settings);
  await store.receipts.report(org_id, device_id, status, call.by);
  receipts.reported(org_id);
  sampler.see(org_id, packets);
  // Where agents also record what they refuse, reports of traffic tell it (4.17).
  if (settings.observe === 'counters') onRefused(org_id, packets?.refused ?? 0);
  const { principal } = call;
  const isDue = principal.kind === 'device' && isRenewalDue(principal, clock(), tokenMaxAgeMs);
  // Only then: who has stolen a token must not be able to take it over at any time.
  const isOffered = principal.kind === 'device' && isDue && next !== undefined;
  if (isOffered) await store.tokens.offerSecret(principal, Buffer.from(next, 'hex'));
  return record({
    device_id,
    reported_at: new Date(clock()).toISOString(),
    status: body,
    settings,
    ...(isDue && { renew_token: true }),
  });
};

/** Early enough that a device which is away for some days still renews it in time. */
const renewedAfter = 0.8;

const isRenewalDue = (
  { secret_since, renewal_asked }: Extract<Principal, { kind: 'device' }>,
  now: number,
  maxAgeMs: number,
): boolean => renewal_asked || (maxAgeMs > 0 && now - Date.parse(secret_since) > renewedAfter * maxAgeMs);

/** Packet counts are for owners and for the device's own user (reference 2.11). */
function statusFor(mayCount: (device: DeviceId) => boolean): (enforcement: EnforcementStatus) => string {
  return ({ revision: _revision, observed_revision: _observed, ...enforcement }) => {
    const { status } = enforcement;
    if (!isObject(status) || status['group_packets'] === undefined || mayCount(enforcement.device_id))
      return JSON.stringify(enforcement);
    const { group_packets: _packets, ...rest } = status;
    return JSON.stringify({ ...enforcement, status: rest });
  };
}

/** The devices whose traffic the caller may read: an owner that of all, a member that of its own devices, a device none. */
export async function readableTraffic(
  { subjects, principal, params }: Pick<Call<'listDeviceStatuses'>, 'subjects' | 'principal' | 'params'>,
  { store }: Pick<Services, 'store'>,
): Promise<(device: DeviceId) => boolean> {
  if (subjects.byOwner) return () => true;
  if (principal.kind !== 'user') return () => false;
  const own = new Set(await store.devices.ofUser(params.org_id, principal.user_id));
  return (device) => own.has(device);
}

/** Those after an id, as far as they are asked for. */
function partOf<T extends EnforcementStatus>(
  all: readonly T[],
  { after = '', limit }: { after?: string | undefined; limit: number },
) {
  const from = all.findIndex(({ device_id }) => device_id > after);
  return from === -1 ? [] : all.slice(from, from + limit);
}

const listStatuses: Handler<'listDeviceStatuses'> = async (call, services) => {
  const { devices } = await services.convergence.read(call.params.org_id);
  const json = statusFor(await readableTraffic(call, services));
  const readPart = async (part: {
    after?: string | undefined;
    limit: number;
  }): Promise<readonly EnforcementStatus[]> => {
    // Each part is written in its own turn of the event loop. Other requests run in between.
    await nextTurn();
    return partOf(devices, part);
  };
  return answerList(call, readPart, { id: ({ device_id }) => device_id, json });
};

export const pendingOf = ({
  device_id,
  hostname,
  in_force,
  revision,
  observed_revision,
  last_seen_at,
  code,
  detail,
}: EnforcementStatus) => ({
  device_id,
  hostname,
  in_force,
  ...(revision !== undefined && { revision }),
  ...(observed_revision !== undefined && { observed_revision }),
  ...(last_seen_at !== undefined && { last_seen_at }),
  ...(code !== undefined && { code }),
  ...(detail !== undefined && { detail }),
});

/** The number of devices in each state: the pending ones by their states, all others in force. */
export function countPending({ devices, pending }: Omit<Converged, 'revision'>) {
  const counts = Object.fromEntries(inForceWords.map((word) => [word, 0])) as Record<InForce, number>;
  for (const { in_force } of pending) counts[in_force] += 1;
  const { yes: _none, ...others } = counts;
  return { devices, in_force: devices - pending.length, ...others };
}

/** Devices that are written in one turn of the event loop. */
const writtenAtOnce = 1_000;

/** The record with all pending devices, of which there may be a hundred thousand. */
async function* inParts(head: object, pending: readonly EnforcementStatus[]): AsyncGenerator<string> {
  yield `${JSON.stringify(head).slice(0, -1)},"pending":[`;
  for (let from = 0; from < pending.length; from += writtenAtOnce) {
    const part = pending.slice(from, from + writtenAtOnce).map((device) => JSON.stringify(pendingOf(device)));
    yield `${from === 0 ? '' : ','}${part.join(',')}`;
    await nextTurn();
  }
  yield ']}';
}

/** Seconds after which it makes sense to wait again. */
const retryAfter = 5;

/** A reservation among those of the user, or of the device, who wait. */
async function reserve(principal: Principal, streamQuota: StreamQuota): Promise<StreamReservation> {
  const who = principal.kind === 'user' ? principal.user_id : credentialId(principal);
  const reservation = await streamQuota.take({ kind: 'wait', credential: `wait ${who}` });
  if (typeof reservation !== 'string') return reservation;
  throw new HttpError('rate_limited', 'Too many of your requests are waiting. End one, or ask without wait.', {
    headers: { 'Retry-After': String(retryAfter) },
  });
}

type Asked = Parameters<Handler<'readConvergence'>>;

/** From which revision to which. */
async function askedOf([call, services]: Asked): Promise<{
  revision?: number | undefined;
  since?: number | undefined;
}> {
  const { change, revision, since } = call.query;
  if (change === undefined) return { revision, since };
  if (revision !== undefined || since !== undefined) {
    const detail = '`change` stands for `revision` and `since`: leave them out.';
    throw invalid([{ pointer: '/change', code: 'contradiction', detail }]);
  }
  const set = await readableChangeSet(call, change, services);
  return { revision: set.revision, since: set.first_revision - 1 };
}

const convergedOf = async (...[call, services]: Asked): Promise<Converged | undefined> => {
  const { params, query, principal, gone } = call;
  const { convergence, streamQuota } = services;
  const asked = await askedOf([call, services]);
  const { wait = 0 } = query;
  if (wait === 0) return convergence.converge(params.org_id, asked);
  const reservation = await reserve(principal, streamQuota);
  try {
    return await convergence.converge(params.org_id, { ...asked, waitMs: wait * 1_000, signal: gone });
  } finally {
    reservation.release();
  }
};

const read: Handler<'readConvergence'> = async (call, services) => {
  const { org_id } = call.params;
  const { limit = Number.POSITIVE_INFINITY, after, since, change } = call.query;
  const converged = await convergedOf(call, services);
  if (converged === undefined) {
    throw invalid([
      { pointer: '/revision', code: 'out_of_range', detail: 'The organization has not reached this revision yet.' },
    ]);
  }
  const { revision, pending } = converged;
  const shown = partOf(pending, { after, limit });
  const last = shown.at(-1);
  const next =
    last !== undefined && last !== pending.at(-1)
      ? `${pathFor('readConvergence', { org_id })}?${new URLSearchParams({
          ...(change === undefined ? { revision: String(revision) } : { change }),
          ...(since !== undefined && { since: String(since) }),
          limit: String(limit),
          after: last.device_id,
        }).toString()}`
      : undefined;
  const head = { revision, ...countPending(converged) };
  return {
    kind: 'record',
    json:
      shown.length > writtenAtOnce ? inParts(head, shown) : JSON.stringify({ ...head, pending: shown.map(pendingOf) }),
    ...(next !== undefined && { next }),
  };
};

export const convergenceHandlers = {
  reportDeviceStatus: report,
  listDeviceStatuses: listStatuses,
  readConvergence: read,
} as const;
