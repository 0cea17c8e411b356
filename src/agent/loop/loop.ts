/** Owns what every step of the loop uses: the ports to the agent's environment, and the state. */
import type { Clock } from '../../client/clock.ts';
import type { Forwarding } from '../../nft/compile/base.ts';
import type { ServerAccess } from '../../policy/server-access.ts';
import type { Link, Selector } from '../host/driver-interface.ts';
import type { Log } from '../host/log.ts';
import type { OpenFlows, OpenFlowsQuestion } from '../host/open-flows.ts';
import type { Revocation, RevocationPorts, Revoked } from '../host/revoke-flows.ts';
import type { EndedFlows } from '../kernel/ended-flows.ts';
import type { Enforcer, Failpoint } from '../kernel/enforcer.ts';
import type { Author, MonitorEvent } from '../kernel/monitor-events.ts';
import type { Nft } from '../kernel/nft.ts';
import type { PolicySource } from '../source/policy-source.ts';
import type { StateFolder } from '../state/state-folder.ts';
import type { UntilFirstPolicy } from './starting-policy.ts';
import type { PolicyClock } from './policy-clock.ts';
import type { LoopState } from './state.ts';
import type { AgentStatus } from './status.ts';

/** A watcher of the kernel that runs beside the loop. */
export interface Watcher {
  start(): void;
  stop(): Promise<void>;
}

export interface LinkWatcher extends Watcher {
  read(): Promise<readonly Link[]>;
}

/** The agent's own way to its server, which the rules keep open. */
export interface ServerAccessPort {
  readonly access: ServerAccess;
  /** The answer ends the subscription. */
  onChange(handler: () => void): () => void;
  /** Called whenever the loop has done what it can about this access. */
  settled(access: ServerAccess | undefined): void;
}

export interface CheckedApplyOptions {
  /** Tries to open a new connection to the server. */
  readonly probe: () => Promise<boolean>;
  /** Milliseconds without a new connection after which the policy before comes back; 90 s unless given. */
  readonly patience?: number;
  /** Milliseconds for which the policy before is tried; 30 s unless given. */
  readonly restoredFor?: number;
  /** Milliseconds between two attempts; 5 s unless given. */
  readonly every?: number;
  /** Devices of the organization, as far as known: one change may make all of them connect. */
  readonly devices?: () => number;
}

export interface AgentOptions {
  readonly nft: Nft;
  readonly source: PolicySource;
  readonly selector: Selector;
  readonly untilFirstPolicy: UntilFirstPolicy;
  readonly clock: Clock;
  /** Milliseconds that only ever go forward, whatever happens to the time of day. */
  readonly monotonic: () => number;
  readonly random: () => number;
  readonly log: Log;
  /** Absent: a policy stays in force although the server can no longer be reached under it. */
  readonly checkedApply?: CheckedApplyOptions;
  /** What time it is for rules that end; a clock of its own unless given. */
  readonly time?: PolicyClock;
  /** Absent: nothing is saved for the next start. */
  readonly state?: StateFolder;
  /** Absent: established connections outlive the rule that admitted them, and those that there are before the rules. */
  readonly revoke?: (revocation: Revocation, block: RevocationPorts['block']) => Promise<Revoked>;
  /** Absent: what connections that are open are with is not known. */
  readonly listOpen?: (question: OpenFlowsQuestion) => Promise<OpenFlows>;
  readonly monitor: (onEvent: (event: MonitorEvent) => void) => Watcher;
  /** `onMoved`: connections may use other interfaces from now on. */
  readonly links: (onChange: () => void, onMoved: () => void) => LinkWatcher;
  /** Where the agent finds its server; absent: the rules judge that way like any other. */
  readonly serverAccess?: ServerAccessPort;
  /** Whether the device forwards packets; absent: connections that it translates for others are left alone. */
  readonly forwarding?: () => Promise<Forwarding>;
  /** What is known about a process besides its number and name. */
  readonly describe?: (author: Author) => string;
  /** Milliseconds between two inspections of the kernel without a reason. */
  readonly inspectEvery?: number;
  readonly failpoint?: (at: Failpoint) => void | Promise<void>;
  /** Called after every step that changed the status. */
  readonly onStatus?: (status: AgentStatus) => void;
}

export interface Loop {
  readonly options: AgentOptions;
  readonly enforcer: Enforcer;
  readonly ended: EndedFlows;
  readonly links: LinkWatcher;
  readonly time: PolicyClock;
  /** Makes the loop look at its marks. */
  readonly wake: () => void;
  readonly state: LoopState;
}
