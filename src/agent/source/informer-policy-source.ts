/** Owns the policy of this device as the server's stream gives it. */
import type { Device } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import type { Client } from '../../client/http.ts';
import { createInformer, type Informer } from '../../client/informer.ts';
import { effectivePolicy } from '../../policy/effective.ts';
import { DroppedGroups } from './dropped-groups.ts';
import { GroupSelection } from './group-selection.ts';
import { parseGroupId, type DeviceId, type GroupId } from '../../policy/ids.ts';
import type { PolicyGroup } from '../../policy/rule.ts';
import { groupNotUnderstood, NotUnderstood, readGroup, unknownGroupField } from './read-group.ts';
import type { Connection, Knowledge, PolicySource } from './policy-source.ts';

export interface InformerSourceOptions {
  readonly client: Client;
  readonly organization: string;
  readonly device: DeviceId;
  /** Ranges that groups which do not concern this device may take in memory. */
  readonly mostRanges?: number;
  /** Called when a handler of changes throws. */
  readonly onFault: (fault: unknown) => void;
}

export class InformerSource implements PolicySource {
  readonly #options: InformerSourceOptions;
  readonly #informer: Informer;
  /** Records never change, so each is read once. */
  readonly #groups = new WeakMap<SecurityGroup, PolicyGroup | NotUnderstood>();
  /** Groups that have a field which is not understood, by id. They may concern any device. */
  readonly #unknownFields = new Map<string, string>();
  readonly #handlers = new Set<() => void>();
  readonly #selection: GroupSelection;
  readonly #dropped: DroppedGroups;
  #publishing = false;
  #listed = 0;
  #mostListed = 0;
  /** The last answer that was true of one moment. */
  #known: Knowledge = { kind: 'unknown', why: 'nothing has come from the server yet', early: true };

  constructor(options: InformerSourceOptions) {
    this.#options = options;
    const { client, organization } = options;
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
      // An organization may have very many devices and groups; few of them concern this one.
      keep: (kind, record) => (kind === 'device' ? this.#isOwn(record.id) : this.#isHeld(record as SecurityGroup)),
      // A revoked token may be made valid again, a lost organization restored: the rules stay, and so does the agent.
      giveUp: () => false,
      onFault: options.onFault,
    });
    this.#informer.onChange((changes) => {
      for (const each of changes) {
        if (each.kind !== 'security-groups') continue;
        if (each.type === 'deleted') this.#selection.forget(each.id);
        const field = each.type === 'deleted' ? undefined : unknownGroupField(each.new);
        if (field === undefined) this.#unknownFields.delete(each.id);
        else this.#unknownFields.set(each.id, field);
      }
      this.#publish();
    });
    this.#informer.onState(() => this.#publish());
  }

  get connection(): Connection {
    const { phase, since, failures, lastError } = this.#informer.state;
    return {
      phase,
      since,
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
    if (this.#informer.synced && this.#informer.state.phase === 'live') this.#known = this.#readNow();
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

  #isOwn(id: string): boolean {
    if (this.#informer.state.phase === 'live') this.#listed = 0;
    else this.#mostListed = Math.max(this.#mostListed, ++this.#listed);
    if (id === this.#options.device) return true;
    this.#publishSoon();
    return false;
  }

  /** Called for every state of a group that the stream shows. */
  #isHeld(group: SecurityGroup): boolean {
    const held = this.#selection.take(group, this.#informer.view('device').get(this.#options.device));
    this.#dropped.see(group.id, held);
    if (!held) this.#publishSoon();
    return held;
  }

  #readNow(): Knowledge {
    const device: Device | undefined = this.#informer.view('device').get(this.#options.device);
    if (device === undefined) return { kind: 'unknown', why: 'the organization has no such device' };
    const groups = this.#informer.view('security-groups');
    try {
      for (const [id, field] of this.#unknownFields) throw groupNotUnderstood(id, field);
      const list = (device.security_groups ?? []).map(parseGroupId);
      this.#dropped.need(list.filter((id) => groups.get(id) === undefined));
      const policy = effectivePolicy({
        list,
        find: (id: GroupId) => this.#group(groups.get(id) ?? this.#dropped.find(id, this.#informer.revision)),
        // Looked at only where it applies: trouble with it is none of the others' business.
        defaultGroup:
          list.length > 0 ? undefined : this.#group([...groups].find(({ is_default }) => is_default === true)),
      });
      if (!('missing' in policy)) {
        return { kind: 'known', policy, revision: this.#informer.revision, own: device.revision };
      }
      const missing = policy.missing === 'default' ? 'the default group' : `the group ${policy.missing.join(', ')}`;
      return { kind: 'unknown', why: `${missing} is missing` };
    } catch (error) {
      // Whatever it is, the rules stay: an agent that ends here would end again at every start.
      const why = error instanceof Error ? error.message : String(error);
      return { kind: 'unknown', why, ...(error instanceof NotUnderstood && { code: error.code }) };
    }
  }

  #group(record: SecurityGroup | undefined): PolicyGroup | undefined {
    if (record === undefined) return undefined;
    let group = this.#groups.get(record);
    if (group === undefined) {
      group = readGroup(record);
      this.#groups.set(record, group);
    }
    if (group instanceof NotUnderstood) throw group;
    return group;
  }
}
