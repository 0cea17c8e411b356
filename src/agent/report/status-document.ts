/** Owns the status document for operators: the answer of the agent's socket and of `ringfence agent status`. */
import type { PacketReason } from '../../nft/counters.ts';
import { printAddress } from '../../policy/address.ts';
import { digestForm } from '../../policy/digest/digest-form.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import { peersOf } from '../../policy/fleet/resolve.ts';
import { mergeRanges, type RangeSet } from '../../policy/range.ts';
import type { Direction, GuardrailKind, PolicyGroup } from '../../policy/rule.ts';
import type { ServerAccess } from '../../policy/server-access.ts';
import type { Trouble } from '../loop/state.ts';
import type { PacketCounts } from '../loop/packet-counts.ts';
import type { AgentStatus } from '../loop/status.ts';
import { printSelector, type Selector } from '../host/driver-interface.ts';
import { stepWords } from '../loop/step.ts';
import { nothing, type Count } from '../kernel/counter-totals.ts';
import { inForceOf } from './enforcement.ts';

export interface StatusTrouble {
  readonly what: string;
  readonly message: string;
  /** The same for the same kind of failure. */
  readonly code?: string;
  /** What can be done about it. */
  readonly advice?: string;
  readonly at: string;
}

/** Times are RFC 3339. What is not known yet is absent. */
export interface StatusDocument {
  readonly running: true;
  /** Whether the policy is in force, in the word that the server has for it, as far as the agent can know. */
  readonly in_force: ReturnType<typeof inForceOf>;
  readonly pid: number;
  readonly version: string;
  readonly started_at: string;
  readonly server: string;
  readonly organization: string;
  readonly device?: string;
  readonly interface: {
    /** As given: a name or a pattern. */
    readonly wanted: string;
    readonly name?: string;
    readonly present: boolean;
    /** What receives its traffic: a bridge, bond or VRF, or a macvlan in the mode `passthru`; absent where nothing does. */
    readonly master?: string;
    readonly neighbour_discovery: boolean;
  };
  /** The agent's own way to its server, as the rules keep it open; absent where they do not. */
  readonly server_access?: {
    readonly addresses: string[];
    readonly port: number;
    /** Whom the device asks for these addresses; empty where the server is named by an address. */
    readonly resolvers: string[];
  };
  /** Whether connections that the device redirects or translates for others are judged too, and whether it forwards at all. */
  readonly containers: { readonly mode: 'guard' | 'ignore'; readonly forwarding?: boolean };
  readonly policy: {
    /** `none` where nothing is in force; `first`: no policy was ever known; `lost`: one was, and cannot be read any more. */
    readonly origin: 'server' | 'kept' | 'kernel' | 'first' | 'lost' | 'none';
    /** Whether the device's own list or the default group applies. */
    readonly source?: 'list' | 'default';
    readonly revision?: number;
    readonly groups: readonly {
      readonly id: string;
      readonly name: string;
      readonly inbound_rules: number;
      readonly outbound_rules: number;
      /** Packets that its rules admitted, which are the first of their connections. Absent where nothing is counted. */
      readonly admitted_inbound?: Count;
      readonly admitted_outbound?: Count;
    }[];
    /** What the organization forbids or requires above all groups; absent where nothing. */
    readonly guardrails?: readonly {
      readonly id: string;
      readonly name: string;
      readonly guardrail: 'forbid' | 'require';
      readonly inbound_rules: number;
      readonly outbound_rules: number;
      /** Packets that it refused, or admitted. Absent where nothing is counted. */
      readonly matched_inbound?: Count;
      readonly matched_outbound?: Count;
    }[];
    /** Devices that rules name: by how many names, and how many addresses these stand for now. Absent where none is named. */
    readonly peers?: { readonly named: number; readonly addresses: number };
    /** The device is isolated: only the agent's way to the server and traffic with the devices that are allowed pass. Absent where it is not. */
    readonly isolated?: {
      /** Absent where a person lifts it. */
      readonly until?: string;
      readonly reason?: string;
      /** How many names of devices are allowed. */
      readonly allowed: number;
    };
    readonly applied_at?: string;
    readonly verified_at?: string;
    /** The digest of the rules as read back from the kernel, as reported to the server. Absent until they were read. */
    readonly digest?: string;
    /** How the digest is made: only digests of one form can be compared. */
    readonly digest_form?: number;
    /** Something else should be in force. */
    readonly pending: boolean;
  };
  readonly stream: {
    readonly phase: string;
    readonly since: string;
    /** Until when it was live, where it is not now and has been since the start. */
    readonly last_live_at?: string;
    readonly failures: number;
    readonly last_error?: { readonly message: string; readonly at: string };
  };
  /** The policy under which the server could not be reached, while the one before is in force again. */
  readonly reverted?: { readonly revision?: number; readonly at: string; readonly why: string };
  /** Why the server's policy is not followed, where it is not. */
  readonly held?: string;
  /** The same for the same kind of reason; absent where there is no word for it. */
  readonly held_code?: string;
  /** What works, and should not stay so. */
  readonly warnings: readonly string[];
  /** By how much the device's clock is ahead of the server's, or behind it; absent where that is a minute at most, or not known. */
  readonly clock_off_seconds?: number;
  /** What does not work at the moment. */
  readonly troubles: readonly StatusTrouble[];
  readonly last_error?: StatusTrouble;
  readonly applies: number;
  readonly drift: {
    readonly repaired: number;
    readonly last?: { readonly at: string; readonly by: string; readonly what: readonly string[] };
  };
  readonly revoked_connections: number;
  /** Ended connections whose packets are dropped until both sides are silent, or the policy admits them again. */
  readonly ended_connections: number;
  /** Packets that no group admitted by itself. A direction is absent where everything passes uncounted. */
  readonly packets: { readonly [D in Direction]?: { readonly [F in PacketReason]: Count } };
}

export interface StatusDocumentOptions {
  readonly config: {
    readonly servers: readonly string[];
    readonly organization: string;
    readonly selector: Selector;
    readonly containers: 'guard' | 'ignore';
  };
  readonly device: string | undefined;
  readonly version: string;
  readonly pid: number;
  readonly warnings: readonly string[];
}

const time = (at: number): string => new Date(at).toISOString();
const trouble = ({ step, message, code, advice, at }: Trouble): StatusTrouble => ({
  what: stepWords[step],
  message,
  ...(code !== undefined && { code }),
  ...(advice !== undefined && { advice }),
  at: time(at),
});

/** Address by address, also where some stand side by side: there are few. */
function texts({ v4, v6 }: ServerAccess['addresses']): string[] {
  const all: string[] = [];
  for (const { first, last } of v4) for (let at = first; at <= last; at++) all.push(printAddress(4, at));
  for (const { first, last } of v6) for (let at = first; at <= last; at++) all.push(printAddress(6, at));
  return all;
}

/** The access in texts. */
export const accessDocument = ({
  addresses,
  port,
  resolvers,
}: ServerAccess): NonNullable<StatusDocument['server_access']> => ({
  addresses: texts(addresses),
  port,
  resolvers: texts(resolvers),
});

/** Why the policy before is in force. */
export const revertedWords = ({ revision }: NonNullable<AgentStatus['reverted']>): string =>
  `the agent restored the policy before${revision === undefined ? '' : ` revision ${revision}`}: under the new one it could not reach the server; change the policy to try again`;

/** What a person should know of a clock that is off. Whole minutes: it is no news when a second more is measured. */
export function clockWords(ahead: number): string {
  const minutes = Math.round(Math.abs(ahead) / 60_000);
  const where = ahead > 0 ? 'ahead of' : 'behind';
  return `the clock of this device is ${minutes} min ${where} the clock of the server: rules that expire may end early; set the clock`;
}

const size = (ranges: RangeSet): number => ranges.reduce((sum, { first, last }) => sum + Number(last - first) + 1, 0);

/** What the policy says by name: guardrails, the devices that rules name, and isolation. */
function namedDocument(
  policy: EffectivePolicy,
  { inbound: into, outbound: out }: PacketCounts,
): Pick<StatusDocument['policy'], 'guardrails' | 'peers' | 'isolated'> {
  const { forbid = [], require: required = [] } = policy.guardrails ?? {};
  const of = (groups: readonly PolicyGroup[], guardrail: GuardrailKind) =>
    groups.map(({ id, name, inbound, outbound }) => ({
      id,
      name,
      guardrail,
      inbound_rules: inbound.length,
      outbound_rules: outbound.length,
      ...(into && { matched_inbound: into.matched.get(id) ?? nothing }),
      ...(out && { matched_outbound: out.matched.get(id) ?? nothing }),
    }));
  const guardrails = [...of(forbid, 'forbid'), ...of(required, 'require')];
  const rules = [...forbid, ...required, ...policy.groups].flatMap(({ inbound, outbound }) => [
    ...inbound,
    ...outbound,
  ]);
  const all = rules.flatMap(({ members }) => (members === undefined ? [] : [members]));
  const addresses =
    size(mergeRanges(all.flatMap(({ v4 }) => [...v4]))) + size(mergeRanges(all.flatMap(({ v6 }) => [...v6])));
  const { own } = policy.isolation ?? {};
  return {
    ...(own && {
      isolated: {
        ...(own.until !== undefined && { until: time(own.until) }),
        ...(own.reason !== undefined && { reason: own.reason }),
        allowed: own.allow.length,
      },
    }),
    ...(guardrails.length > 0 && { guardrails }),
    ...(all.length > 0 && { peers: { named: peersOf(policy).length, addresses } }),
  };
}

export function statusDocument(
  status: AgentStatus,
  { config, device, version, pid, warnings }: StatusDocumentOptions,
): StatusDocument {
  const { driver, inForce, connection, lastDrift, lastError, held, reverted, appliedAt, verifiedAt } = status;
  const { inbound: into, outbound: out } = status.counts;
  const { lastError: cut, lastLiveAt } = connection;
  const document: Omit<StatusDocument, 'in_force'> = {
    running: true,
    pid,
    version,
    started_at: time(status.startedAt),
    server: config.servers.join(', '),
    organization: config.organization,
    ...(device !== undefined && { device }),
    interface: {
      wanted: printSelector(config.selector),
      ...(driver && { name: driver.name }),
      present: driver?.index !== undefined,
      ...(driver?.master !== undefined && { master: driver.master }),
      neighbour_discovery: driver?.neighbourDiscovery ?? false,
    },
    ...(status.serverAccess && { server_access: accessDocument(status.serverAccess) }),
    containers: {
      mode: config.containers,
      ...(status.forwarding !== undefined && { forwarding: status.forwarding === 'on' }),
    },
    policy: {
      origin: inForce?.origin ?? 'none',
      ...(inForce?.policy && inForce.origin !== 'first' && { source: inForce.policy.source }),
      ...(inForce?.revision !== undefined && { revision: inForce.revision }),
      groups: (inForce?.policy?.groups ?? []).map(({ id, name, inbound, outbound }) => ({
        id,
        name,
        inbound_rules: inbound.length,
        outbound_rules: outbound.length,
        ...(into && { admitted_inbound: into.matched.get(id) ?? nothing }),
        ...(out && { admitted_outbound: out.matched.get(id) ?? nothing }),
      })),
      ...(inForce?.policy && namedDocument(inForce.policy, status.counts)),
      ...(appliedAt !== undefined && { applied_at: time(appliedAt) }),
      ...(verifiedAt !== undefined && { verified_at: time(verifiedAt) }),
      ...(status.policyDigest !== undefined && { digest: status.policyDigest, digest_form: digestForm }),
      pending: status.pending,
    },
    stream: {
      phase: connection.phase,
      since: time(connection.since),
      ...(lastLiveAt !== undefined && { last_live_at: time(lastLiveAt) }),
      failures: connection.failures,
      ...(cut && { last_error: { message: cut.message, at: time(cut.at) } }),
    },
    ...(reverted && {
      reverted: {
        ...(reverted.revision !== undefined && { revision: reverted.revision }),
        at: time(reverted.at),
        why: revertedWords(reverted),
      },
    }),
    ...(held && { held: held.why, ...(held.code !== undefined && { held_code: held.code }) }),
    warnings: [...warnings, ...(status.clockOff === undefined ? [] : [clockWords(status.clockOff)])],
    ...(status.clockOff !== undefined && { clock_off_seconds: Math.round(status.clockOff / 1_000) }),
    troubles: status.troubles.map(trouble),
    ...(lastError && { last_error: trouble(lastError) }),
    applies: status.applies,
    drift: {
      repaired: status.driftRepairs,
      ...(lastDrift && { last: { at: time(lastDrift.at), by: lastDrift.by, what: lastDrift.what } }),
    },
    revoked_connections: status.revokedConnections,
    ended_connections: status.endedConnections,
    packets: { ...(into && { inbound: into.reasons }), ...(out && { outbound: out.reasons }) },
  };
  return { in_force: inForceOf(document), ...document };
}
