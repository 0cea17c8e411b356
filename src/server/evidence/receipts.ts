/** Owns the reports of the other devices in evidence: whether each proves that its kernel holds the last state, and when all devices did in the time of a state. */
import type { EvidenceInForce, EvidenceOthers, EvidenceReceipt, EvidenceState } from '../../api/evidence/document.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import { parseDeviceId, type DeviceId, type OrganizationId } from '../../policy/ids.ts';
import { policyIn } from '../../organization/reach/device-reach.ts';
import { isSameInEffect } from '../../organization/reach/same-in-effect.ts';
import type { Organization, OrganizationDevice } from '../../organization/organization.ts';
import type { Convergence, EnforcementStatus } from '../convergence/contract.ts';

/** Reports that a file lists. */
const mostReceipts = 10_000;

const digestIn = (status: unknown): string | undefined => {
  const { policy_digest } = (status ?? {}) as { readonly policy_digest?: unknown };
  return typeof policy_digest === 'string' ? policy_digest : undefined;
};

/** What devices report, and the organization before and after they were asked. */
export interface Reports {
  readonly statuses: ReadonlyMap<DeviceId, EnforcementStatus>;
  /** Policy can change while devices are asked. A report is about the last state only if the device has that policy in both. */
  readonly snapshots: readonly [before: Organization, after: Organization];
}

export async function readReports(
  org: OrganizationId,
  ids: readonly DeviceId[],
  {
    convergence,
    present,
  }: {
    readonly convergence: Convergence;
    readonly present: (org: OrganizationId) => Promise<Organization>;
  },
): Promise<Reports> {
  const before = await present(org);
  const survey = await convergence.survey(org);
  const statuses = await survey.enforcementStatuses(ids.filter((id) => survey.devices.has(id)));
  const after = await present(org);
  return { statuses: new Map(statuses.map((status) => [status.device_id, status])), snapshots: [before, after] };
}

/** What reports prove of the last state: only while the device's policy was that of now. Devices that share their policies cost as much as one. */
export class Receipts {
  readonly #last: Organization;
  readonly #reports: Reports;
  readonly #same = new Map<EffectivePolicy, Map<EffectivePolicy | undefined, boolean>>();

  constructor(last: Organization, reports: Reports) {
    this.#last = last;
    this.#reports = reports;
  }

  /** Undefined of a device that is deleted. */
  *of(id: DeviceId): Generator<void, EvidenceReceipt | undefined> {
    const { statuses, snapshots } = this.#reports;
    const status = statuses.get(id);
    if (status === undefined) return undefined;
    let same_policy = true;
    for (const present of snapshots) same_policy &&= yield* this.#isSame(id, present);
    const digest = digestIn(status.status);
    return {
      in_force: status.in_force,
      ...(status.revision !== undefined && { revision: status.revision }),
      ...(status.reported_at !== undefined && { reported_at: status.reported_at }),
      ...(digest !== undefined && { policy_digest: digest }),
      same_policy,
    };
  }

  *#isSame(id: DeviceId, present: Organization): Generator<void, boolean> {
    const [was, is] = [policyIn(this.#last, id), policyIn(present, id)];
    if (was === undefined) return false;
    const known = this.#same.get(was) ?? new Map<EffectivePolicy | undefined, boolean>();
    this.#same.set(was, known);
    let isSame = known.get(is);
    if (isSame === undefined) known.set(is, (isSame = yield* isSameInEffect(was, is)));
    return isSame;
  }
}

const isProof = ({ in_force, same_policy }: EvidenceReceipt): boolean => in_force === 'yes' && same_policy;

const byProof = (a: EvidenceOthers['receipts'][number], b: EvidenceOthers['receipts'][number]): number =>
  Number(isProof(a)) - Number(isProof(b)) ||
  (a.hostname < b.hostname ? -1 : a.hostname > b.hostname ? 1 : a.id < b.id ? -1 : 1);

interface LastState extends Pick<EvidenceState, 'reached_by' | 'reaches'> {
  readonly snapshot: Organization;
  readonly own: OrganizationDevice | undefined;
}

/** The devices whose kernels matter besides that of the device. */
type FarEnds = Pick<EvidenceOthers, 'whose'> & { readonly ids: readonly DeviceId[] };

/**
 * Of an isolated device, every other device: each has to refuse it, except those that its isolation allows. Else those that it may exchange traffic with, which
 * admit the same on their side. Undefined where the last state has no device.
 */
export function farEndsOf(device: DeviceId, { snapshot, own, reached_by, reaches }: LastState): FarEnds | undefined {
  if (own === undefined) return undefined;
  if (own.identity.isolated !== undefined)
    return { whose: 'every_device', ids: [...snapshot.devices.keys()].filter((id) => id !== device) };
  const named = [...reached_by, ...reaches].flatMap(({ devices }) => devices.map(({ id }) => parseDeviceId(id)));
  return { whose: 'reach', ids: [...new Set(named)] };
}

export function* othersOf(
  { whose, ids }: FarEnds,
  last: Organization,
  known: Receipts,
): Generator<void, EvidenceOthers> {
  const receipts: EvidenceOthers['receipts'][number][] = [];
  for (const id of ids) {
    const hostname = last.devices.get(id)?.hostname;
    if (hostname === undefined) continue;
    receipts.push({ id, hostname, ...((yield* known.of(id)) ?? { in_force: 'deleted', same_policy: false }) });
    yield;
  }
  return {
    whose,
    devices: receipts.length,
    proven: receipts.filter(isProof).length,
    // Those that prove nothing come first, so that a bound hides none of them before the others.
    receipts: receipts.toSorted(byProof).slice(0, mostReceipts),
  };
}

/** The first sample that was taken while this state lasted, and shows the policy in force on every device. `seconds` are those of one sample. */
export function inForceOnAllAt(
  { from, until }: Pick<EvidenceState, 'from' | 'until'>,
  samples: EvidenceInForce['samples'],
  { seconds, end }: { readonly seconds: number; readonly end: number },
): string | undefined {
  const last = until === undefined ? end : Date.parse(until);
  return samples.find(({ at, devices, in_force }) => {
    const begins = Date.parse(at);
    return devices === in_force && begins >= Date.parse(from) && begins + seconds * 1_000 <= last;
  })?.at;
}
