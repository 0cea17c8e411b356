/** Owns the reports of the other devices in evidence: whether each proves that its kernel holds the last state, and when all devices did in the time of a state. */
import type { EvidenceInForce, EvidenceOthers, EvidenceReceipt, EvidenceState } from '../../api/evidence/document.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import type { DeviceId, OrganizationId } from '../../policy/ids.ts';
import { isSameInEffect } from '../../organization/reach/same-in-effect.ts';
import { policiesOf } from '../../organization/device-policies.ts';
import type { Organization } from '../../organization/organization.ts';
import { policyAt } from '../../policy/time/policy-at.ts';
import type { Convergence, EnforcementStatus } from '../convergence/contract.ts';
import type { SlicedWork } from '../scheduling/time-slices.ts';

/** Reports that a file lists. */
const mostReceipts = 10_000;

export interface LastState {
  readonly snapshot: Organization;
  /** Devices that it and the device may exchange traffic with. */
  readonly reach: Iterable<DeviceId>;
}

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

export function receiptOf(status: EnforcementStatus, same_policy: boolean): EvidenceReceipt {
  const digest = digestIn(status.status);
  return {
    in_force: status.in_force,
    ...(status.revision !== undefined && { revision: status.revision }),
    ...(status.reported_at !== undefined && { reported_at: status.reported_at }),
    ...(digest !== undefined && { policy_digest: digest }),
    same_policy,
  };
}

/** Whether a device has the same policy in both snapshots: only then a report of now says something of then. Devices that share their policies cost as much as one. */
class SamePolicies {
  readonly #last: Organization;
  readonly #present: Organization;
  readonly #known = new Map<EffectivePolicy, Map<EffectivePolicy | undefined, boolean>>();

  constructor(last: Organization, present: Organization) {
    this.#last = last;
    this.#present = present;
  }

  *has(id: DeviceId): Generator<void, boolean> {
    const [was, is] = [policyIn(this.#last, id), policyIn(this.#present, id)];
    if (was === undefined) return false;
    const known = this.#known.get(was) ?? new Map<EffectivePolicy | undefined, boolean>();
    this.#known.set(was, known);
    let isSame = known.get(is);
    if (isSame === undefined)
      known.set(is, (isSame = yield* isSameInEffect(momentOf(was, this.#last), is && momentOf(is, this.#present))));
    return isSame;
  }
}

function policyIn(snapshot: Organization, id: DeviceId): EffectivePolicy | undefined {
  const found = policiesOf(snapshot).of(id);
  return found === undefined || 'missing' in found ? undefined : found;
}

const momentOf = (policy: EffectivePolicy, { at }: Organization): EffectivePolicy => policyAt(policy, at).policy;

const isProof = ({ in_force, same_policy }: EvidenceReceipt): boolean => in_force === 'yes' && same_policy;

const byProof = (a: EvidenceOthers['receipts'][number], b: EvidenceOthers['receipts'][number]): number =>
  Number(isProof(a)) - Number(isProof(b)) ||
  (a.hostname < b.hostname ? -1 : a.hostname > b.hostname ? 1 : a.id < b.id ? -1 : 1);

/** The devices whose kernels matter besides that of the device. */
type FarEnds = Pick<EvidenceOthers, 'whose'> & { readonly ids: readonly DeviceId[] };

/**
 * Of an isolated device, every other device: each has to refuse it, except those that its isolation allows. Else those that it may exchange traffic with, which
 * admit the same on their side. Undefined where the last state has no device.
 */
export function farEndsOf(device: DeviceId, { snapshot, reach }: LastState): FarEnds | undefined {
  const own = snapshot.devices.get(device);
  if (own === undefined) return undefined;
  if (own.identity.isolated === undefined) return { whose: 'reach', ids: [...reach] };
  return { whose: 'every_device', ids: [...snapshot.devices.keys()].filter((id) => id !== device) };
}

export async function othersOf(
  { whose, ids }: FarEnds,
  { statuses, snapshots }: Reports,
  { last, slices }: { readonly last: Organization; readonly slices: SlicedWork },
): Promise<EvidenceOthers> {
  const same = snapshots.map((present) => new SamePolicies(last, present));
  const receipts: EvidenceOthers['receipts'][number][] = [];
  function* receiptsOfAll(): Generator<void, void> {
    for (const id of ids) {
      const other = last.devices.get(id);
      if (other === undefined) continue;
      const status = statuses.get(id);
      let isSame = true;
      for (const policies of same) isSame &&= yield* policies.has(id);
      const receipt = status && receiptOf(status, isSame);
      receipts.push({ id, hostname: other.hostname, ...(receipt ?? { in_force: 'deleted', same_policy: false }) });
      yield;
    }
  }
  await slices.run(receiptsOfAll());
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
