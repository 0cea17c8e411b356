/** Owns the operations about enforcement (reference 4.10): what agents report, and whether the policy is in force. */
import { inForceWords, type InForce } from '../../../api/enforcement/in-force.ts';
import { pathFor } from '../../../api/paths.ts';
import type { Standing } from '../../convergence/contract.ts';
import { record, type Handler } from '../call.ts';
import { invalid } from '../errors.ts';
import { answerList } from '../request/paging.ts';

const report: Handler<'reportDeviceStatus'> = async (call, { store, clock }) => {
  const { org_id, device_id } = call.params;
  await store.receipts.report(org_id, device_id, call.body);
  return record({ device_id, reported_at: new Date(clock()).toISOString(), status: call.body });
};

const statusOf = ({ revision: _revision, ...status }: Standing): string => JSON.stringify(status);

/** Those after an id, as far as they are asked for. */
function partOf<T extends Standing>(
  all: readonly T[],
  { after = '', limit }: { after?: string | undefined; limit: number },
) {
  const from = all.findIndex(({ device_id }) => device_id > after);
  return from === -1 ? [] : all.slice(from, from + limit);
}

const listStatuses: Handler<'listDeviceStatuses'> = async (call, { convergence }) => {
  const { devices = [] } = (await convergence.read(call.params.org_id)) ?? {};
  return answerList(call, (part) => Promise.resolve(partOf(devices, part)), {
    id: ({ device_id }) => device_id,
    json: statusOf,
  });
};

const pendingOf = ({ device_id, hostname, in_force, revision, last_seen_at, code, detail }: Standing) => ({
  device_id,
  hostname,
  in_force,
  ...(revision !== undefined && { revision }),
  ...(last_seen_at !== undefined && { last_seen_at }),
  ...(code !== undefined && { code }),
  ...(detail !== undefined && { detail }),
});

const read: Handler<'readConvergence'> = async (call, { convergence }) => {
  const { org_id } = call.params;
  const { revision, wait = 0, limit = Number.POSITIVE_INFINITY, after } = call.query;
  const standings = await convergence.read(org_id, { revision, waitMs: wait * 1_000 });
  if (standings === undefined) {
    throw invalid([
      { pointer: '/revision', code: 'out_of_range', detail: 'The organization has no such revision yet.' },
    ]);
  }
  const counts = Object.fromEntries(inForceWords.map((word) => [word, 0])) as Record<InForce, number>;
  for (const { in_force } of standings.devices) counts[in_force] += 1;
  const { yes: in_force, ...others } = counts;
  const pending = standings.devices.filter((device) => device.in_force !== 'yes');
  const page = partOf(pending, { after, limit: limit + 1 });
  const shown = page.slice(0, limit);
  const last = shown.at(-1);
  const next =
    page.length > shown.length && last !== undefined
      ? `${pathFor('readConvergence', { org_id })}?revision=${standings.revision}&limit=${limit}&after=${last.device_id}`
      : undefined;
  return {
    ...record({
      revision: standings.revision,
      devices: standings.devices.length,
      in_force,
      ...others,
      pending: shown.map(pendingOf),
    }),
    ...(next !== undefined && { next }),
  };
};

export const convergenceHandlers = {
  reportDeviceStatus: report,
  listDeviceStatuses: listStatuses,
  readConvergence: read,
} as const;
