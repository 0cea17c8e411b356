/** Owns one organization's enforcement in memory: its policy by the log, its receipts, each read only as far as it is new. */
import { watchKinds } from '../../api/kinds.ts';
import type { DeviceId, OrganizationId } from '../../policy/ids.ts';
import type { Store } from '../store/contract/store.ts';
import type { Seen } from '../store/contract/presence.ts';
import type { Standing } from './contract.ts';
import { ExpectedDigests } from './expected-digests.ts';
import { PolicyModel, type Effect, type ModelDevice } from './policy-model.ts';
import { readReceipt, type Receipt } from './receipt.ts';
import { inForceUpTo, reflectedTouch, verdictOf } from './verdict.ts';

export type StateStore = Pick<Store, 'log' | 'receipts' | 'groups'>;

/** Rows in one read: records may be large. */
const rows = 500;
/** Devices that are judged in one turn of the event loop. */
const judgedAtOnce = 1_000;

const later = (a: string | undefined, b: string | undefined): string | undefined =>
  a === undefined || (b !== undefined && b > a) ? b : a;

export class OrganizationState {
  readonly org: OrganizationId;
  readonly #store: StateStore;
  readonly #digests: ExpectedDigests;
  readonly #pause: () => Promise<void>;
  #model: PolicyModel | undefined;
  readonly #receipts = new Map<DeviceId, Receipt>();
  #through: string | undefined;
  #refreshing: Promise<void> | undefined;
  #next: Promise<void> | undefined;

  constructor(org: OrganizationId, store: StateStore, pause: () => Promise<void>) {
    this.org = org;
    this.#store = store;
    this.#pause = pause;
    this.#digests = new ExpectedDigests({ org, findGroups: (of, ids) => store.groups.find(of, ids), pause });
  }

  /** The newest revision that is known here. */
  get head(): number {
    return this.#model?.head ?? 0;
  }

  get devices(): ReadonlyMap<DeviceId, ModelDevice> {
    return this.#model?.devices ?? new Map();
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

  /** How these devices stand to a revision; `seen` by presence. Works out what digests it needs first. */
  async standings(
    revision: number,
    devices: Iterable<ModelDevice>,
    seen: ReadonlyMap<DeviceId, Seen>,
  ): Promise<readonly Standing[]> {
    const all = [...devices];
    await this.workOutDigests(revision, all, seen);
    const standings: Standing[] = [];
    for (const [index, device] of all.entries()) {
      // Whoever else is served by this process goes in between.
      if (index > 0 && index % judgedAtOnce === 0) await this.#pause();
      standings.push(this.#standing(revision, device, seen.get(device.id)));
    }
    return standings;
  }

  /** The policy as far as it is known here. */
  get model(): PolicyModel {
    return this.#model ?? new PolicyModel();
  }

  /** What a device said last. */
  receiptOf(id: DeviceId): Receipt | undefined {
    return this.#receipts.get(id);
  }

  /** Up to which revision the device has everything in force, by the digests that are known. Without `seen` it may be connected. */
  inForceUpTo(device: ModelDevice, seen?: ReadonlyMap<DeviceId, Seen>): number {
    const online = seen === undefined ? true : this.#isOnline(device.id, seen.get(device.id));
    return inForceUpTo({ ...this.#evidence(0, device, online), digestOf: (key) => this.#digests.get(key) });
  }

  /** Undefined: it never held a stream. */
  #isOnline(id: DeviceId, seen: Seen | undefined): boolean | undefined {
    return seen?.online ?? (this.#receipts.has(id) ? false : undefined);
  }

  #evidence(revision: number, { id, touches }: ModelDevice, online: boolean | undefined) {
    return { revision, head: this.head, touches, receipt: this.#receipts.get(id), online };
  }

  #standing(revision: number, device: ModelDevice, seen: Seen | undefined): Standing {
    const { id, hostname } = device;
    const receipt = this.#receipts.get(id);
    const verdict = verdictOf({
      ...this.#evidence(revision, device, this.#isOnline(id, seen)),
      digestOf: (key) => this.#digests.get(key),
    });
    const lastSeen = later(seen?.last_seen_at, receipt?.reported_at);
    return {
      device_id: id,
      hostname,
      ...verdict,
      online: seen?.online ?? false,
      ...(lastSeen !== undefined && { last_seen_at: lastSeen }),
      ...(receipt && {
        ...(receipt.revision !== undefined && { revision: receipt.revision }),
        reported_at: receipt.reported_at,
        status: receipt.status,
      }),
    };
  }

  /** Works out the digests that judging these devices takes. False: something changed meanwhile, and some are not known. */
  async workOutDigests(
    revision: number,
    devices: Iterable<ModelDevice>,
    seen?: ReadonlyMap<DeviceId, Seen>,
  ): Promise<boolean> {
    const model = this.#model;
    if (model === undefined) return true;
    const wanted = new Map<string, Effect>();
    for (const device of devices) {
      const { id, touches } = device;
      if (this.#receipts.get(id)?.digest === undefined) continue;
      const online = seen === undefined ? true : this.#isOnline(id, seen.get(id));
      const reflected = reflectedTouch(this.#evidence(revision, device, online));
      // Of an earlier policy the rules are no longer there: its digest is known only if it was asked for then.
      if (reflected === undefined || reflected !== touches.at(-1) || wanted.has(reflected.key)) continue;
      const effect = this.#digests.get(reflected.key) === undefined ? model.effectOn(device) : undefined;
      if (effect !== undefined) wanted.set(reflected.key, effect);
    }
    if (wanted.size > 0) await this.#digests.workOut(wanted, model);
    return [...wanted.keys()].every((key) => this.#digests.get(key) !== undefined);
  }

  /** Receipts first: the log that is read after them holds every revision that they name. */
  async #read(): Promise<void> {
    const { statuses, through } = await this.#store.receipts.since(this.org, this.#through);
    for (const status of statuses) this.#receipts.set(status.device_id, readReceipt(status));
    this.#through = through;
    const model = this.#model ?? (await this.#load());
    if (!(await this.#follow(model))) await this.#follow(await this.#load());
    for (const id of this.#receipts.keys()) if (!this.devices.has(id)) this.#receipts.delete(id);
  }

  /** False when the log no longer reaches back to where the model stands. */
  async #follow(model: PolicyModel): Promise<boolean> {
    for (;;) {
      const entries = await this.#store.log.readChanges(this.org, model.head, rows);
      if (entries === undefined) return false;
      for (const entry of entries) {
        model.apply(entry);
        // One that touches every device takes a while: whoever else is served by this process goes in between.
        await this.#pause();
      }
      if (entries.length < rows) return true;
    }
  }

  async #load(): Promise<PolicyModel> {
    const model = new PolicyModel();
    const { organizations } = await this.#store.log.heads([this.org]);
    const head = organizations.get(this.org)?.revision ?? 0;
    for (let after = 0; ;) {
      const query = { kinds: [...watchKinds], after, limit: rows, deletions: false };
      const entries = await this.#store.log.readState(this.org, query);
      for (const entry of entries) model.load(entry);
      await this.#pause();
      const last = entries.at(-1);
      if (last === undefined || entries.length < rows) break;
      after = last.revision;
    }
    model.finish(head);
    this.#model = model;
    return model;
  }
}
