/** Owns the policy of this device as computed from the server's stream. */
import type { DeviceIdentity } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import type { WatchedByIdentity } from '../../api/watch.ts';
import type { Client } from '../../client/http.ts';
import { createInformer, type Informer } from '../../client/informer.ts';
import { effectivePolicy, type EffectivePolicy, type MissingGroups } from '../../policy/effective.ts';
import { NotUnderstood } from '../../policy/fleet/not-understood.ts';
import { parseGroupId, type DeviceId, type GroupId } from '../../policy/ids.ts';
import type { PolicyGroup } from '../../policy/rule.ts';
import { budgetOf, defaultMegabytes, PolicySize, TooLarge, type Budget } from './budget.ts';
import { DroppedGroups } from './dropped-groups.ts';
import { GroupSelection } from './group-selection.ts';
import { isAlwaysEnforced, KnownGroups, outlineOf } from './known-groups.ts';
import { PeerDevices } from './peer-devices.ts';
import type { Connection, Knowledge, PolicySource } from './policy-source.ts';
import { concernsAll, identityOf, readDeviceTrial } from './read-device.ts';

export interface InformerSourceOptions {
  readonly client: Client;
  readonly organization: string;
  readonly device: DeviceId;
  /** Ranges that groups which do not concern this device may take in memory. */
  readonly mostRanges?: number;
  /** How much is taken from the server. */
  readonly budget?: Budget;
  /** Somebody waits until what is in force reflects this revision. */
  readonly onAwaited?: (revision: number) => void;
  /** Called when a handler of changes throws. */
  readonly onFault: (fault: unknown) => void;
}

export class InformerSource implements PolicySource {
  readonly #options: InformerSourceOptions;
  readonly #informer: Informer<'device' | 'security-groups', WatchedByIdentity>;
  readonly #handlers = new Set<() => void>();
  readonly #selection: GroupSelection;
  readonly #dropped: DroppedGroups;
  readonly #groups = new KnownGroups();
  readonly #budget: Budget;
  readonly #peers: PeerDevices;
  /** The groups that apply, worked out once for all devices that come and go as their peers: until the device itself or any group is shown anew. */
  #effective: { readonly device: DeviceIdentity; readonly policy: EffectivePolicy } | undefined;
  #publishing = false;
  /** Something has come that the policy does not reflect yet. */
  #withheld = false;
  #listed = 0;
  #mostListed = 0;
  #live = false;
  #lastLiveAt: number | undefined;
  /** The last answer that was true of one moment. */
  #known: Knowledge = { kind: 'unknown', why: 'the server has not sent data yet', early: true };

  constructor(options: InformerSourceOptions) {
    const { client, organization, budget = budgetOf(defaultMegabytes) } = options;
    this.#options = options;
    this.#budget = budget;
    this.#peers = new PeerDevices(budget);
    this.#selection = new GroupSelection(options.mostRanges);
    this.#dropped = new DroppedGroups({
      fetch: (id, signal) => client.groups.get(organization, id, { signal }),
      clock: client.transport.clock,
      random: client.transport.random,
      onChange: () => this.#publish(),
    });
    this.#informer = createInformer({
      client: options.client,
      organization: options.organization,
      kinds: ['device', 'security-groups'],
      // Where devices can be reached changes all the time, and is none of an agent's business.
      deviceView: 'identity',
      mostMemory: budget.records,
      // An organization may have very many devices and groups; few of them concern this one.
      keep: (kind, record) =>
        kind === 'device' ? this.#keepDevice(record as DeviceIdentity) : this.#keepGroup(record as SecurityGroup),
      // A revoked token may be made valid again, a lost organization restored: the rules stay, and so does the agent.
      giveUp: () => false,
      onReport: (revision) => {
        options.onAwaited?.(revision);
        this.#publish();
      },
      // A change may be withheld until all of it has come.
      onComplete: () => {
        if (this.#withheld) this.#publish();
      },
      // The smallest request that this device's token may make.
      signs: { request: (signal) => client.devices.get(organization, options.device, { signal }) },
      onFault: options.onFault,
    });
    this.#informer.onChange((changes) => {
      for (const change of changes) {
        if (change.kind === 'device') {
          if (this.#peers.see(change)) this.#effective = undefined;
        } else {
          this.#effective = undefined;
          if (change.type === 'deleted') this.#selection.forget(change.id);
          this.#groups.see(change);
        }
      }
      this.#publish();
    });
    this.#informer.onState(({ phase, since, lastError }) => {
      if (this.#live && phase !== 'live') this.#lastLiveAt = since;
      this.#live = phase === 'live';
      const { error } = lastError ?? {};
      if (phase === 'waiting' && error?.code === 'document_too_large')
        this.#known = { kind: 'unknown', why: error.message, code: 'too_large' };
      this.#publish();
    });
  }

  get connection(): Connection {
    const { phase, since, failures, lastError } = this.#informer.state;
    return {
      phase,
      since,
      ...(!this.#live && this.#lastLiveAt !== undefined && { lastLiveAt: this.#lastLiveAt }),
      failures,
      ...(lastError && {
        lastError: { message: lastError.error.message, at: lastError.at, kind: lastError.error.code },
      }),
    };
  }

  /** Devices of the organization, about: as many as the longest listing has shown. */
  get devices(): number {
    return this.#mostListed;
  }

  read(): Knowledge {
    return this.#known;
  }

  onChange(handler: () => void): () => void {
    this.#handlers.add(handler);
    return () => this.#handlers.delete(handler);
  }

  run({ signal }: { readonly signal: AbortSignal }): Promise<void> {
    signal.addEventListener('abort', () => this.#dropped.stop(), { once: true });
    return this.#informer.run({ signal });
  }

  #publish(): void {
    // While a listing is under way, the copy holds some resources as they are and others as they were: no policy that
    // ever was. In the order of changes after it, every state is one that the server had.
    // Records that were written as one change set make one policy: in between there is none.
    const { synced, state, complete } = this.#informer;
    const isCurrent = synced && state.phase === 'live' && complete;
    this.#withheld = !isCurrent;
    if (isCurrent) this.#known = this.#readNow();
    for (const handler of this.#handlers) handler();
  }

  /** A change of what is not kept is no change to the informer; but the policy reflects that revision too. */
  #publishSoon(): void {
    if (this.#publishing) return;
    this.#publishing = true;
    queueMicrotask(() => {
      this.#publishing = false;
      this.#publish();
    });
  }

  /** Called for every state of a device that the stream shows. */
  #keepDevice(record: DeviceIdentity): boolean | DeviceIdentity {
    if (this.#informer.state.phase === 'live') this.#listed = 0;
    else this.#mostListed = Math.max(this.#mostListed, ++this.#listed);
    this.#peers.check(record);
    if (record.id === this.#options.device) return true;
    // Isolated devices are refused, whatever the rules name. A field that is not understood may mean as much.
    if (this.#peers.wanted || concernsAll(record)) return identityOf(record);
    this.#publishSoon();
    return false;
  }

  /** Called for every state of a group that the stream shows. */
  #keepGroup(group: SecurityGroup): boolean | SecurityGroup {
    this.#effective = undefined;
    const held = this.#selection.take(group, this.#informer.view('device').get(this.#options.device));
    this.#dropped.see(group.id);
    return held || outlineOf(group);
  }

  #readNow(): Knowledge {
    const device = this.#informer.view('device').get(this.#options.device);
    const { revision } = this.#informer;
    if (device === undefined) return { kind: 'unknown', why: 'the organization has no such device', revision };
    try {
      const unclear = this.#groups.unclear ?? this.#peers.unclear;
      if (unclear !== undefined) throw unclear;
      const policy = this.#effective?.device === device ? this.#effective.policy : this.#policyOf(device);
      if ('missing' in policy) {
        const missing = policy.missing === 'default' ? 'the default group' : `the group ${policy.missing.join(', ')}`;
        return { kind: 'unknown', why: `${missing} is missing`, revision };
      }
      const resolved = this.#peers.resolve(policy);
      if (resolved === undefined) {
        // Other devices were not kept so far: they are listed once more, and then followed.
        this.#peers.want(device);
        this.#informer.relist();
        return { kind: 'unknown', why: 'the agent is still reading the devices that rules name', early: true };
      }
      return { kind: 'known', policy: resolved, revision, own: device.revision };
    } catch (error) {
      // Whatever it is, the rules stay: an agent that ends here would end again at every start.
      const why = error instanceof Error ? error.message : String(error);
      const { code } = error instanceof NotUnderstood || error instanceof TooLarge ? error : {};
      return { kind: 'unknown', why, revision, ...(code !== undefined && { code }) };
    }
  }

  #policyOf(device: DeviceIdentity): EffectivePolicy | MissingGroups {
    const { security_groups = [], labels = [] } = device;
    const records = this.#informer.view('security-groups');
    const list = security_groups.map(parseGroupId);
    const trial = readDeviceTrial(device);
    const applying = this.#groups.applyingTo(labels);
    const wanted = [...list, ...(trial?.before?.security_groups ?? []), ...applying.map(({ id }) => id)];
    const dropped = wanted.filter((id) => this.#groups.isDropped(records.get(id)));
    const size = new PolicySize(this.#budget);
    const recordOf = (id: GroupId): SecurityGroup | undefined => {
      const record = records.get(id);
      return this.#groups.isWhole(record) ? record : this.#dropped.find(id, this.#informer.revision);
    };
    for (const id of wanted) size.add(recordOf(id));
    this.#dropped.need(dropped);
    const find = (id: GroupId): PolicyGroup | undefined => this.#groups.read(recordOf(id));
    const byLabel = applying.map(({ id }) => find(id) ?? id);
    const missing = byLabel.filter((group) => typeof group === 'string');
    if (missing.length > 0) return { missing };
    // The default group is looked at only where it may apply: trouble with it is none of the others' business.
    const isReplacing = (group: PolicyGroup | undefined): boolean => group === undefined || isAlwaysEnforced(group);
    const replaced =
      trial === undefined &&
      (list.some((id) => isReplacing(find(id))) || applying.some(({ replacesDefault }) => replacesDefault));
    if (!replaced) size.add(this.#groups.defaultGroup);
    const policy = effectivePolicy({
      list,
      trial,
      find,
      defaultGroup: replaced ? undefined : this.#groups.read(this.#groups.defaultGroup),
      labels,
      byLabel: byLabel.filter((group) => typeof group !== 'string'),
      isolation: this.#peers.isolationOf(device),
    });
    // What was fetched counts from a revision on, so that with it the answer is of this moment only.
    this.#effective = 'missing' in policy || dropped.length > 0 ? undefined : { device, policy };
    return policy;
  }
}
