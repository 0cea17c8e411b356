/** Owns an agent with an in-memory environment: the test controls kernel, source, interfaces and time. */
import { FakeClock } from '../../client/fake.fixture.ts';
import type { TableName } from '../../nft/ast.ts';
import { decompile, type Enforced } from '../../nft/read/decompile.ts';
import { parseGroupId } from '../../policy/ids.ts';
import type { PolicyGroup, StoredRule } from '../../policy/rule.ts';
import { Agent } from './agent.ts';
import type { AgentOptions } from './loop.ts';
import { parseSelector, type Link } from '../host/driver-interface.ts';
import { FakeNft } from '../kernel/fake-nft.fixture.ts';
import type { Fields, LogLevel } from '../host/log.ts';
import type { MonitorEvent } from '../kernel/monitor-events.ts';
import type { Revocation } from '../host/revoke-flows.ts';
import type { Connection, Knowledge, PolicySource } from '../source/policy-source.ts';

export const groupOf = (
  number: number,
  inbound: readonly StoredRule[],
  outbound: readonly StoredRule[] = [],
): PolicyGroup => ({
  id: parseGroupId(`00000000-0000-4000-8000-${String(number).padStart(12, '0')}`),
  name: `group ${number}`,
  inbound,
  outbound,
});

/** A source whose knowledge the test sets. */
export class FakeSource implements PolicySource {
  #knowledge: Knowledge = { kind: 'unknown', why: 'nothing has come yet' };
  #handlers = new Set<() => void>();
  connection: Connection = { phase: 'live', since: 0, failures: 0 };
  /** Whether the agent has asked for the network yet. */
  running = false;

  read(): Knowledge {
    return this.#knowledge;
  }
  onChange(handler: () => void): () => void {
    this.#handlers.add(handler);
    return () => this.#handlers.delete(handler);
  }
  async run({ signal }: { readonly signal: AbortSignal }): Promise<void> {
    this.running = true;
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
  }
  give(knowledge: Knowledge): void {
    this.#knowledge = knowledge;
    for (const handler of this.#handlers) handler();
  }
  know(revision: number, ...groups: readonly PolicyGroup[]): void {
    this.give({ kind: 'known', revision, policy: { source: 'list', groups } });
  }
}

export interface WorldOptions extends Partial<
  Omit<AgentOptions, 'nft' | 'source' | 'links' | 'filterNews' | 'revoke'>
> {
  readonly nft?: FakeNft;
  readonly links?: readonly Link[] | Error;
  readonly keepEstablished?: boolean;
  /** By how much the time of day is wrong. */
  readonly skew?: () => number;
}

export class World {
  readonly clock = new FakeClock();
  readonly nft: FakeNft;
  readonly source = new FakeSource();
  readonly logged: { level: LogLevel; message: string; fields: Fields | undefined }[] = [];
  readonly revocations: Revocation[] = [];
  /** Why connections cannot be ended at the moment. */
  revokeFault: Error | undefined;
  readonly agent: Agent;
  links: readonly Link[] | Error = [{ index: 5, name: 'wg0', discovers: false }];
  readonly #end = new AbortController();
  readonly #running: Promise<void>;
  #asleep = false;
  #onSleep: () => void = () => {};
  #onEvent: (event: MonitorEvent) => void = () => {};
  #onLinks: () => void = () => {};

  constructor({ links, nft = new FakeNft(), keepEstablished = false, skew = () => 0, ...rest }: WorldOptions = {}) {
    this.nft = nft;
    if (links !== undefined) this.links = links;
    let count = 0;
    const watcher = { start: () => {}, stop: async () => {} };
    this.agent = new Agent({
      nft,
      source: this.source,
      selector: parseSelector('wg0'),
      untilFirstPolicy: 'closed',
      clock: {
        now: () => this.clock.now() + skew(),
        after: (milliseconds, run) => this.#sleep(milliseconds, run),
      },
      monotonic: () => this.clock.now(),
      random: () => (++count % 1_000) / 1_000,
      log: (level, message, fields) => this.logged.push({ level, message, fields }),
      ...(!keepEstablished && {
        revoke: async (revocation: Revocation) => {
          if (this.revokeFault !== undefined) throw this.revokeFault;
          this.revocations.push(revocation);
          return { count: 1 };
        },
      }),
      ...rest,
      monitor: (onEvent) => {
        this.#onEvent = onEvent;
        return watcher;
      },
      links: (onChange) => {
        this.#onLinks = onChange;
        return {
          ...watcher,
          read: () => (this.links instanceof Error ? Promise.reject(this.links) : Promise.resolve(this.links)),
        };
      },
    });
    this.#running = this.agent.run({ signal: this.#end.signal });
  }

  /** The agent sets a timer only when it has nothing left to do. */
  #sleep(milliseconds: number, run: () => void): () => void {
    const wakeUp = (): void => {
      this.#asleep = false;
    };
    this.#asleep = true;
    this.#onSleep();
    const cancel = this.clock.after(milliseconds, () => {
      wakeUp();
      run();
    });
    return () => {
      wakeUp();
      cancel();
    };
  }

  monitorEvent(event: MonitorEvent): void {
    this.#onEvent(event);
  }
  /** The kernel names one of our own processes as an author. */
  ownGeneration(): void {
    const author = { pid: this.nft.pid, name: 'nft' };
    this.monitorEvent({ kind: 'generation', generation: { number: 1, author, change: undefined, lines: [] } });
  }
  foreignGeneration(chains: readonly string[] | 'table', ...lines: string[]): void {
    const change =
      chains === 'table'
        ? { tables: new Set(['service'] as const), chains: new Set<string>() }
        : { tables: new Set<TableName>(), chains: new Set(chains) };
    this.monitorEvent({
      kind: 'generation',
      generation: { number: 2, author: { pid: 4711, name: 'stranger' }, change, lines },
    });
  }
  changeLinks(links: readonly Link[] | Error): void {
    this.links = links;
    this.#onLinks();
  }

  /** Waits until the agent has nothing left to do, however long its files take; its own time does not move meanwhile. */
  async settle(): Promise<void> {
    if (!this.#asleep) await Promise.race([new Promise<void>((resolve) => (this.#onSleep = resolve)), this.#running]);
  }
  async enforced(): Promise<Enforced | undefined> {
    const installed = await this.nft.list();
    return installed && decompile(installed).enforced;
  }
  /** Fails where a fault ended the agent. */
  get ended(): Promise<void> {
    return this.#running;
  }
  async stop(): Promise<void> {
    this.#end.abort();
    await this.#running;
  }
}
