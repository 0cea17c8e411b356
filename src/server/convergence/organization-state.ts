/**
 * Owns one organization's enforcement state in memory: when the policy of each device changed, by the model of the organization, and its receipts. Each read
 * fetches only what is new.
 */
import { emptyOrganization, type Organization, type OrganizationStep } from '../../organization/organization.ts';
import type { DeviceId, OrganizationId } from '../../policy/ids.ts';
import { StoreError } from '../problems.ts';
import type { NewReceipts } from '../store/devices/receipts.ts';
import type { FollowedOrganization } from '../store/model/organizations.ts';
import type { Store } from '../store/open.ts';
import type { TimeSlices } from '../scheduling/time-slices.ts';
import type { DevicePresence } from '../store/devices/presence.ts';
import type { EnforcementStatus } from './contract.ts';
import { ExpectedDigests, type ExpectedDigestsOptions, type WantedDigest } from './expected-digests.ts';
import { phasesAround, samePhasesUntil } from './phases.ts';
import { PolicyRevisions, type EnforcedDevice } from './policy-revisions.ts';
import { readReceipt, type Receipt } from './receipt.ts';
import { inForceUpTo, isUnreported, reflectedChange, verdictOf, type VerdictInput } from './verdict.ts';

export type StateStore = Pick<Store, 'models' | 'receipts' | 'groups' | 'trials'>;

export interface StateOptions extends Pick<ExpectedDigestsOptions, 'digester' | 'slices' | 'monotonic'> {
  readonly store: StateStore;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

type Writable<T> = { -readonly [Key in keyof T]: T[Key] };

/** The input for judging a device, at one moment. */
export interface JudgedDevice {
  readonly device: EnforcedDevice;
  readonly receipt: Receipt | undefined;
}

const later = (a: string | undefined, b: string | undefined): string | undefined =>
  a === undefined || (b !== undefined && b > a) ? b : a;

/** Undefined: it never held a stream. */
function isOnline(receipt: Receipt | undefined, presence: DevicePresence | undefined): boolean | undefined {
  if (presence === undefined) return receipt === undefined ? undefined : false;
  const { online, online_if_reported_after: after } = presence;
  return online || (after !== undefined && receipt !== undefined && receipt.reported_at > after);
}

export class OrganizationState {
  readonly org: OrganizationId;
  readonly #store: StateStore;
  readonly #digests: ExpectedDigests;
  readonly #slices: TimeSlices;
  readonly #now: () => number;
  #policies: PolicyRevisions | undefined;
  /** What was taken in last. */
  #followed: FollowedOrganization | undefined;
  #receipts = new Map<DeviceId, Receipt>();
  /** The devices whose record, policy or last report may have changed since `takeChanged`; undefined: all of them. */
  #changed: Set<DeviceId> | undefined;
  #isApplying = false;
  #through: string | undefined;
  #history: string | undefined;
  #refreshing: Promise<void> | undefined;
  #next: Promise<void> | undefined;

  constructor(org: OrganizationId, { store, slices, now, ...options }: StateOptions) {
    this.org = org;
    this.#store = store;
    this.#slices = slices;
    this.#now = now;
    const findGroups: ExpectedDigestsOptions['findGroups'] = (of, ids) => store.groups.find(of, ids);
    this.#digests = new ExpectedDigests({ org, findGroups, slices, ...options });
  }

  /** The newest revision that is known here. */
  get head(): number {
    return this.#policies?.head ?? 0;
  }

  get devices(): ReadonlyMap<DeviceId, EnforcedDevice> {
    return this.#policies?.devices ?? new Map();
  }

  /** The devices whose record, policy or last report may have changed since the last call; undefined: all of them. For a single caller. */
  takeChanged(): ReadonlySet<DeviceId> | undefined {
    const changed = this.#changed;
    if (!this.#isApplying) this.#changed = new Set();
    return changed;
  }

  /** Takes in everything that was written before this call. Calls that come together share one reading. */
  refresh(): Promise<void> {
    if (this.#refreshing === undefined) {
      this.#refreshing = this.#read().finally(() => (this.#refreshing = undefined));
      return this.#refreshing;
    }
    // The one under way may have begun before what the caller wants to see.
    this.#next ??= this.#refreshing
      .catch(() => {})
      .then(() => {
        this.#next = undefined;
        return this.refresh();
      });
    return this.#next;
  }

  /** Gives `take` the enforcement status of these devices at a revision, in their order, with their `presence`. Works out what digests it needs first. */
  async judge(
    revision: number,
    ids: readonly DeviceId[],
    presence: ReadonlyMap<DeviceId, DevicePresence>,
    take: (enforcement: EnforcementStatus) => void,
  ): Promise<void> {
    // All by what is known at this moment: the one's word is never held against what another moment knows.
    const { devices } = this;
    const known: JudgedDevice[] = [];
    for (const id of ids) {
      const device = devices.get(id);
      if (device !== undefined) known.push({ device, receipt: this.#receipts.get(id) });
    }
    const { head } = this;
    await this.workOutDigests(revision, known);
    const at = { revision, head, ...this.#known };
    await this.#slices.each(known, (one) => take(this.#enforcementStatus(at, one, presence.get(one.device.id))));
  }

  async enforcementStatuses(
    revision: number,
    ids: readonly DeviceId[],
    presence: ReadonlyMap<DeviceId, DevicePresence>,
  ): Promise<readonly EnforcementStatus[]> {
    const enforcementStatuses: EnforcementStatus[] = [];
    await this.judge(revision, ids, presence, (enforcement) => enforcementStatuses.push(enforcement));
    return enforcementStatuses;
  }

  /** The policies as far as they are known here. */
  get policies(): PolicyRevisions {
    return this.#policies ?? new PolicyRevisions(emptyOrganization, this.#slices);
  }

  /** The last report of a device. */
  receiptOf(id: DeviceId): Receipt | undefined {
    return this.#receipts.get(id);
  }

  /** Milliseconds since the epoch. */
  get now(): number {
    return this.#now();
  }

  /**
   * The revision up to which the device has everything in force, by the known digests. Without `presence`, the device
   * counts as offline.
   */
  inForceUpTo({ id, policyChanges }: EnforcedDevice, presence?: DevicePresence): number {
    const receipt = this.#receipts.get(id);
    const online = isOnline(receipt, presence);
    return inForceUpTo({ head: this.head, policyChanges, receipt, online, ...this.#known });
  }

  /** Whether the device has everything in force only while it is offline. */
  isUnreported({ id, policyChanges }: EnforcedDevice): boolean {
    if (policyChanges.every(({ moments }) => moments === undefined)) return false;
    const { head } = this;
    return isUnreported({ revision: 0, head, policyChanges, receipt: this.#receipts.get(id), ...this.#known });
  }

  /** Until when time alone does not change how the device is judged, in milliseconds since the epoch. */
  judgedUntil({ policyChanges }: EnforcedDevice): number {
    const { now } = this;
    return policyChanges.reduce(
      (until, change) => Math.min(until, samePhasesUntil(change, now)),
      Number.POSITIVE_INFINITY,
    );
  }

  get #known(): Pick<VerdictInput, 'digestOf' | 'now'> {
    return { digestOf: (phase) => this.#digests.get(phase), now: this.#now() };
  }

  #enforcementStatus(
    at: Pick<VerdictInput, 'revision' | 'head' | 'digestOf' | 'now'>,
    { device, receipt }: JudgedDevice,
    presence: DevicePresence | undefined,
  ): EnforcementStatus {
    const { id, hostname, policyChanges } = device;
    const online = isOnline(receipt, presence);
    const { revision, head, digestOf, now } = at;
    const verdict = verdictOf({
      revision,
      head,
      policyChanges,
      receipt,
      online,
      digestOf,
      now,
    });
    const lastSeen = later(presence?.last_seen_at, receipt?.reported_at);
    // Whole fleets: with a receipt, a literal of spreads takes V8 twenty times as long.
    const enforcement: Writable<EnforcementStatus> = {
      device_id: id,
      hostname,
      in_force: verdict.in_force,
      online: online ?? false,
    };
    if (verdict.code !== undefined) enforcement.code = verdict.code;
    if (verdict.detail !== undefined) enforcement.detail = verdict.detail;
    if (lastSeen !== undefined) enforcement.last_seen_at = lastSeen;
    if (receipt === undefined) return enforcement;
    if (receipt.revision !== undefined) enforcement.revision = receipt.revision;
    if (receipt.observed !== undefined) enforcement.observed_revision = receipt.observed;
    enforcement.reported_at = receipt.reported_at;
    enforcement.status = receipt.status;
    return enforcement;
  }

  /** Works out the digests that judging these devices takes. False: something changed meanwhile, and some are not known. */
  async workOutDigests(revision: number, known: readonly JudgedDevice[]): Promise<boolean> {
    const policies = this.#policies;
    if (policies === undefined) return true;
    const { head } = policies;
    const wanted = new Map<string, WantedDigest>();
    const now = this.#now();
    await this.#slices.each(known, ({ device, receipt }) => {
      if (receipt?.digest === undefined) return;
      const { policyChanges } = device;
      const reflected = reflectedChange({ revision, head, policyChanges, receipt });
      // The rules of an earlier policy are no longer in memory. Its digest is known only if it was computed at the time.
      if (reflected === undefined || reflected !== policyChanges.at(-1)) return;
      for (const time of reflected.moments === undefined ? [now] : [now, Date.parse(receipt.reported_at)]) {
        for (const phase of phasesAround(reflected, time)) {
          if (wanted.has(phase.key) || this.#digests.get(phase.key) !== undefined) continue;
          const { groups, isolation, key } = policies.policyOf(device);
          if (groups === undefined || key !== reflected.key) continue;
          wanted.set(phase.key, { groups, isolation, at: phase.at });
        }
      }
    });
    if (wanted.size > 0) await this.#digests.workOut(wanted, policies);
    return [...wanted.keys()].every((key) => this.#digests.get(key) !== undefined);
  }

  /** Receipts first: the log that is read after them holds every revision that they name. They count when the log has been followed. */
  async #read(): Promise<void> {
    let { statuses, through, history } = await this.#readReceipts(this.#through);
    // A part of the history may be discarded, and what is known here be of that part.
    const isOther = this.#history !== undefined && this.#history !== history;
    if (isOther) {
      ({ statuses, through, history } = await this.#readReceipts(undefined));
      const receipts = new Map<DeviceId, Receipt>();
      await this.#slices.each(statuses, (status) => receipts.set(status.device_id, readReceipt(status)));
      // At once: who looks meanwhile takes no device for one that never reported.
      this.#receipts = receipts;
    }
    const followed = await this.#follow(isOther ? undefined : this.#followed);
    this.#history = history;
    await this.#takeIn(followed);
    await this.#slices.each(statuses, (status) => {
      if (!this.devices.has(status.device_id)) return;
      this.#receipts.set(status.device_id, readReceipt(status));
      this.#changed?.add(status.device_id);
    });
    this.#through = through;
  }

  async #readReceipts(through: string | undefined): Promise<NewReceipts> {
    const first = await this.#store.receipts.since(this.org, through);
    const statuses = [...first.statuses];
    for (let { next } = first; next !== undefined;) {
      const part = await this.#store.receipts.since(this.org, through, next);
      statuses.push(...part.statuses);
      ({ next } = part);
    }
    return { statuses, through: first.through, history: first.history };
  }

  async #follow(last: FollowedOrganization | undefined): Promise<FollowedOrganization> {
    try {
      return await this.#store.models.follow(this.org, last);
    } catch (error) {
      // It was deleted meanwhile.
      if (error instanceof StoreError && error.code === 'not_found')
        return { organization: emptyOrganization, steps: undefined };
      throw error;
    }
  }

  /** A look that runs meanwhile sees a partly applied step. It judges all devices again afterwards. */
  async #takeIn(followed: FollowedOrganization): Promise<void> {
    const { organization, steps } = followed;
    const isChange = steps?.length !== 0;
    // Where it fails halfway, everything is loaded the next time.
    this.#followed = undefined;
    if (isChange) this.#changed = undefined;
    this.#isApplying = isChange;
    try {
      if (this.#policies !== undefined && (await this.#policies.follow(followed))) this.#forgetDeleted(steps ?? []);
      else this.#policies = await this.#load(organization);
    } finally {
      this.#isApplying = false;
    }
    this.#followed = followed;
  }

  #forgetDeleted(steps: readonly OrganizationStep[]): void {
    for (const { change } of steps)
      if (change.kind === 'device' && change.device === undefined) this.#receipts.delete(change.id);
  }

  async #load(organization: Organization): Promise<PolicyRevisions> {
    const policies = new PolicyRevisions(organization, this.#slices);
    policies.confirmed.load(await this.#store.trials.recent(this.org, 0));
    await policies.load(organization);
    for (const id of this.#receipts.keys()) if (!policies.devices.has(id)) this.#receipts.delete(id);
    return policies;
  }
}
