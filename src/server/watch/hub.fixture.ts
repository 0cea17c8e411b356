/** Owns a hub for tests: a model database below it, a clock that the test sets, and connections in memory. */
import { afterEach } from 'vitest';
import type { WatchItem } from '../../api/watch.ts';
import type { DeviceId, TokenId, UserId } from '../../policy/ids.ts';
import type { StreamQuota } from '../limits/stream-quota.ts';
import { FollowedLogs } from '../store/follow/followed-logs.ts';
import { Hub, type DevicePresence } from './hub.ts';
import { ModelDatabase, modelOrg, userOf } from './model.fixture.ts';
import type { WatchSettings } from './settings.ts';
import type { SignSource } from './signs.ts';
import type { Refusal } from './opening.ts';
import { FakeSink } from './sink.fixture.ts';

/** Lets the event loop turn so often. */
export const loopTurns = async (count = 20): Promise<void> => {
  for (let i = 0; i < count; i += 1) await new Promise((resolve) => setImmediate(resolve));
};

export class TestHub {
  readonly db: ModelDatabase;
  readonly logs: FollowedLogs;
  readonly hub: Hub;
  readonly warnings: string[] = [];
  /** What the hub put off, in milliseconds each; it runs at once. */
  readonly delays: number[] = [];
  now = 1_000_000;

  constructor(
    options: {
      readonly settings?: Partial<WatchSettings>;
      readonly db?: ModelDatabase;
      readonly streamQuota?: StreamQuota;
      readonly devices?: DevicePresence;
    } = {},
  ) {
    this.db = options.db ?? new ModelDatabase();
    const timers = {
      now: () => this.now,
      defer: (run: () => void) => void setImmediate(run),
      later: (run: () => void, ms: number) => {
        this.delays.push(ms);
        setImmediate(run);
      },
    };
    const onWarning = (message: string) => void this.warnings.push(message);
    const { settings = {} } = options;
    this.logs = new FollowedLogs({ source: this.db, settings, timers, onWarning });
    this.hub = new Hub({
      ...timers,
      source: this.db,
      logs: this.logs,
      broadcast: {
        send: (messages) => this.db.hint({ messages }),
        listen: (listener) => this.db.onHint(({ messages }) => messages.forEach((message) => listener(message))),
      },
      settings,
      clock: timers,
      random: () => 0.5,
      streamQuota: options.streamQuota,
      devices: options.devices,
      onWarning,
    });
  }

  async open(
    items: readonly WatchItem[],
    options: {
      user?: UserId;
      token?: TokenId;
      kind?: 'user' | 'device';
      expiresAt?: number;
      chunked?: boolean;
      takesReceiptRequests?: boolean;
      tokens?: boolean;
      complete?: boolean;
      device?: DeviceId;
      signs?: SignSource;
      leavesWhenNotReady?: boolean;
    } = {},
  ): Promise<FakeSink | Refusal> {
    const sink = new FakeSink();
    const user = options.user ?? userOf(1);
    const refusal = await this.hub.open({
      org: modelOrg,
      items,
      holder: {
        user,
        reader: options.kind === 'device' ? undefined : user,
        kind: options.kind ?? 'user',
        device: options.device,
        credential: options.token ?? `of ${user}`,
        token: options.token,
        expiresAt: options.expiresAt,
      },
      admittedAt: this.now,
      chunked: options.chunked ?? true,
      takesReceiptRequests: options.takesReceiptRequests,
      tokens: options.tokens,
      complete: options.complete,
      signs: options.signs,
      leavesWhenNotReady: options.leavesWhenNotReady,
      accept: () => sink,
    });
    return refusal ?? sink;
  }

  /** Opens a stream that must be accepted. */
  async watch(items: readonly WatchItem[], options: Parameters<TestHub['open']>[1] = {}): Promise<FakeSink> {
    const sink = await this.open(items, options);
    if (typeof sink === 'string') throw new Error(`refused: ${sink}`);
    await loopTurns();
    return sink;
  }

  /** Commits were made: their hint arrives. */
  async hint(): Promise<void> {
    this.db.hint();
    await loopTurns();
  }

  /** Time passes, and the clock ticks. */
  async pass(ms: number): Promise<void> {
    this.now += ms;
    await this.hub.poll();
    while (!this.hub.sweep());
    await loopTurns();
  }
}

export const device = [{ kind: 'device' }] as const;
export const both = [{ kind: 'device' }, { kind: 'security-groups' }] as const;

/** What a stream of devices was sent, in short. */
export const seen = (sink: FakeSink): readonly string[] =>
  sink.received('device').map(({ type, revision }) => (type === 'tail' ? 'tail' : `${type} ${revision}`));

/** Makes hubs that are closed after each test. */
export function hubMaker(): (options?: ConstructorParameters<typeof TestHub>[0]) => TestHub {
  let hubs: TestHub[] = [];
  afterEach(() => {
    for (const { hub, logs } of hubs) {
      hub.close();
      logs.close();
    }
    hubs = [];
  });
  return (options = {}) => {
    const made = new TestHub(options);
    hubs.push(made);
    return made;
  };
}
