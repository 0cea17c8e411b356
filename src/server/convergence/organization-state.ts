/** Owns one organization's enforcement in memory: its policy by the log, its receipts, each read only as far as it is new. */
import { watchKinds } from '../../api/kinds.ts';
import type { DeviceId, OrganizationId } from '../../policy/ids.ts';
import type { Store } from '../store/contract/store.ts';
import type { Seen } from '../store/contract/presence.ts';
import type { Standing } from './contract.ts';
import { ExpectedDigests } from './expected-digests.ts';
import { PolicyModel, type Effect, type ModelDevice } from './policy-model.ts';
import { readReceipt, type Receipt } from './receipt.ts';
import { reflectedTouch, verdictOf } from './verdict.ts';

export type StateStore = Pick<Store, 'log' | 'receipts' | 'groups'>;

/** Rows in one read: records may be large. */
const rows = 500;

export class OrganizationState {
  readonly org: OrganizationId;
  readonly #store: StateStore;
  readonly #digests: ExpectedDigests;
  #model: PolicyModel | undefined;
  readonly #receipts = new Map<DeviceId, Receipt>();
  #through: string | undefined;
  #refreshing: Promise<void> | undefined;
  #next: Promise<void> | undefined;

  constructor(org: OrganizationId, store: StateStore, pause: () => Promise<void>) {
    this.org = org;
    this.#store = store;
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
    seen: ReadonlyMap<DeviceId, Seen> | undefined,
  ): Promise<readonly Standing[]> {
    const all = [...devices];
    await this.#workOutDigests(revision, all);
    return all.map((device) => this.#standing(revision, device, seen?.get(device.id)));
  }

  #standing(revision: number, { id, hostname, touches }: ModelDevice, seen: Seen | undefined): Standing {
    const receipt = this.#receipts.get(id);
    const { head } = this;
    const verdict = verdictOf({
      revision,
      head,
      touches,
      receipt,
      online: seen?.online ?? (receipt === undefined ? undefined : false),
      digestOf: (key) => this.#digests.get(key),
    });
    const lastSeen = [seen?.last_seen_at, receipt?.reported_at]
      .flatMap((at) => at ?? [])
      .toSorted()
      .at(-1);
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

  async #workOutDigests(revision: number, devices: readonly ModelDevice[]): Promise<void> {
    const model = this.#model;
    if (model === undefined) return;
    const wanted = new Map<string, Effect>();
    for (const device of devices) {
      const { id, touches } = device;
      const receipt = this.#receipts.get(id);
      if (receipt?.digest === undefined) continue;
      const reflected = reflectedTouch({ revision, head: this.head, touches, receipt });
      // Of an earlier policy the rules are no longer there: its digest is known only if it was asked for then.
      if (reflected === undefined || reflected !== touches.at(-1) || wanted.has(reflected.key)) continue;
      const effect = this.#digests.get(reflected.key) === undefined ? model.effectOn(device) : undefined;
      if (effect !== undefined) wanted.set(reflected.key, effect);
    }
    if (wanted.size > 0) await this.#digests.workOut(wanted, model);
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
      for (const entry of entries) model.apply(entry);
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
      const last = entries.at(-1);
      if (last === undefined || entries.length < rows) break;
      after = last.revision;
    }
    model.finish(head);
    this.#model = model;
    return model;
  }
}
