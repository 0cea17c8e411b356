/** Owns tracked connections as the agent reads them from conntrack's listing and evaluates them by policy. */
import { parseAddress } from '../../policy/address.ts';
import type { CanonicalPolicy } from '../../policy/canonical.ts';
import { admits } from '../../policy/canonicalize.ts';
import type { DecideOptions } from '../../policy/decide.ts';
import type { Packet, Transport } from '../../policy/packet.ts';
import type { Direction, Family } from '../../policy/rule.ts';

/** One end's view of a connection, as conntrack writes it. */
export interface Tuple {
  readonly src: string;
  readonly dst: string;
  readonly sport: number;
  readonly dport: number;
}

export interface Flow {
  readonly family: Family;
  readonly protocol: number;
  /** As the first packet came. */
  readonly original: Tuple;
  /** As answers to it go: after all translation, so it names the ends as a local filter sees them. */
  readonly reply: Tuple;
  /** The connection that this one belongs to, as its first packet came: only where a helper of the kernel expected it, as for data of FTP. */
  readonly master?: { readonly protocol: number; readonly original: Tuple };
  /** Both sides have sent, and neither has ended it, as far as the kernel can tell. */
  readonly isOpen?: boolean;
  /** Only of TCP: one of its sides has ended it. */
  readonly isEnding?: boolean;
  /** A helper of the kernel may expect further connections that belong to this one. */
  readonly hasHelper?: boolean;
  /** Only where the protocol is ICMP. */
  readonly icmp: { readonly type: number; readonly code: number; readonly id: number } | undefined;
}

const word = /(?:^|\s)(src|dst|sport|dport|type|code|id)=(\S+)/g;

/** As `conntrack` calls the states after the first side has ended a connection of TCP. */
const endingStates = / (?:FIN_WAIT|CLOSE_WAIT|LAST_ACK|TIME_WAIT|CLOSE) /;

/** Parses a line of `conntrack -L`. Undefined where it describes no connection between two addresses. */
export function parseFlow(line: string): Flow | undefined {
  const protocol = Number(/^\S+\s+(\d+)\s/.exec(line)?.[1] ?? Number.NaN);
  if (!Number.isInteger(protocol)) return undefined;
  const seen = new Map<string, string[]>();
  for (const [, key = '', value = ''] of line.matchAll(word)) seen.set(key, [...(seen.get(key) ?? []), value]);
  const text = (key: string, at: number): string => seen.get(key)?.[at] ?? '';
  const tuple = (at: number): Tuple => ({
    src: text('src', at),
    dst: text('dst', at),
    sport: Number(text('sport', at)),
    dport: Number(text('dport', at)),
  });
  const address = parseAddress(text('src', 0));
  if ('fault' in address || (seen.get('dst')?.length ?? 0) < 2 || (seen.get('src')?.length ?? 0) < 2) return undefined;
  const icmp = seen.has('type')
    ? { type: Number(text('type', 0)), code: Number(text('code', 0)), id: Number(text('id', 0)) }
    : undefined;
  const state = { isEstablished: line.includes(' ESTABLISHED '), isAssured: line.includes('[ASSURED]') };
  const isOpen = isOpenIn(protocol, { ...state, isAnswered: !line.includes('[UNREPLIED]') });
  return {
    family: address.family,
    protocol,
    original: tuple(0),
    reply: tuple(1),
    isOpen,
    ...(endingStates.test(line) && { isEnding: true }),
    ...(line.includes(' helper=') && { hasHelper: true }),
    icmp,
  };
}

/** What the kernel knows of a connection. */
export interface FlowState {
  /** Of TCP only. */
  readonly isEstablished: boolean;
  readonly isAnswered: boolean;
  /** UDP goes both ways for longer than a question and its answer. */
  readonly isAssured: boolean;
}

/** An answered question by UDP is tracked for a while and is no open connection. */
export const isOpenIn = (protocol: number, { isEstablished, isAnswered, isAssured }: FlowState): boolean =>
  protocol === 6 ? isEstablished && isAnswered : protocol === 17 ? isAssured : isAnswered;

export const parseFlows = (text: string): Flow[] => text.split('\n').flatMap((line) => parseFlow(line) ?? []);

/** The TCP connection of a local socket. The far end opened the connections of a server socket. */
export function socketFlow(socket: {
  readonly near: string;
  readonly far: string;
  readonly here: number;
  readonly there: number;
  readonly isServer: boolean;
}): Flow {
  const { near, far, here, there, isServer } = socket;
  const outward: Tuple = { src: near, dst: far, sport: here, dport: there };
  const inward: Tuple = { src: far, dst: near, sport: there, dport: here };
  const [original, reply] = isServer ? [inward, outward] : [outward, inward];
  return { family: near.includes(':') ? 6 : 4, protocol: 6, original, reply, icmp: undefined };
}

/** By which port a connection is judged: a port always means the far end of the first packet's way (reference 1.2 (5)), where answers come from. One that is redirected elsewhere is judged by the port that it was made to (reference 1.2 (25)). */
export const judgedPort = ({ flow: { original, reply }, forwarded }: LocalFlow): number =>
  forwarded === 'redirected' ? original.dport : reply.sport;

function transportOf(protocol: number, dport: number, icmp?: Flow['icmp']): Transport {
  if (protocol === 6) return { kind: 'tcp', dport };
  if (protocol === 17) return { kind: 'udp', dport };
  if (protocol === 1) return { kind: 'icmp', type: icmp?.type ?? 8 };
  if (protocol === 58) return { kind: 'icmpv6', type: icmp?.type ?? 128 };
  return { kind: 'other', protocol };
}

const transportOfFlow = (local: LocalFlow): Transport =>
  transportOf(local.flow.protocol, judgedPort(local), local.flow.icmp);

/** The packet that opens a connection without ICMP, as the policy sees it. */
export const openingPacket = ({
  protocol,
  port,
  ...rest
}: Omit<Packet, 'transport'> & { readonly protocol: number; readonly port: number }): Packet => ({
  ...rest,
  transport: transportOf(protocol, port),
});

/** A connection that counts as this device's: who began it, and between which addresses. */
export interface LocalFlow {
  readonly flow: Flow;
  readonly direction: Direction;
  readonly local: string;
  readonly remote: string;
  /** Only where the device translates it for others, such as containers. */
  readonly forwarded?: 'redirected' | 'translated';
}

/** The connection as seen from here, in each direction that judges it; none where it only passes through, or stays inside. */
export function localFlows(flow: Flow, isLocal: (address: string) => boolean): readonly LocalFlow[] {
  const { original, reply } = flow;
  const [began, received] = [isLocal(original.src), isLocal(reply.src)];
  if (began && received) return [];
  if (began) return [{ flow, direction: 'outbound', local: original.src, remote: reply.src }];
  if (received) return [{ flow, direction: 'inbound', local: reply.src, remote: original.src }];
  const isRedirected = original.dst !== reply.src || original.dport !== reply.sport;
  const isTranslated = original.src !== reply.dst || original.sport !== reply.dport;
  return [
    ...(isRedirected
      ? [{ flow, direction: 'inbound', local: original.dst, remote: original.src, forwarded: 'redirected' } as const]
      : []),
    ...(isTranslated
      ? [{ flow, direction: 'outbound', local: reply.dst, remote: reply.src, forwarded: 'translated' } as const]
      : []),
  ];
}

/** The connection by which this one is judged: the one that it belongs to, where it does. */
export function judgedFlow(flow: Flow): Flow {
  if (flow.master === undefined) return flow;
  const { protocol, original } = flow.master;
  const { src, dst, sport, dport } = original;
  const reply: Tuple = { src: dst, dst: src, sport: dport, dport: sport };
  return { family: flow.family, protocol, original, reply, icmp: undefined };
}

/** The packet that opened the connection, as the policy sees it. */
export function firstPacket(local: LocalFlow): Packet | undefined {
  const { flow, direction, remote, forwarded } = local;
  const address = parseAddress(remote);
  if ('fault' in address) return undefined;
  const transport = transportOfFlow(local);
  return { direction, family: flow.family, remote: address.value, transport, ...(forwarded && { forwarded }) };
}

/** Whether the connection could be opened under one of the old policies and can no more under the new one. */
export function isRevoked(
  flow: LocalFlow,
  before: readonly CanonicalPolicy[],
  after: CanonicalPolicy,
  options: DecideOptions = {},
): boolean {
  const packet = firstPacket(flow);
  return packet !== undefined && before.some((each) => admits(each, packet)) && !admits(after, packet, options);
}

/** Verdicts that are remembered. */
const mostJudged = 50_000;

/** One number for all that is judged of a connection besides its far end. */
function numberOf(flow: LocalFlow): number {
  const transport = transportOfFlow(flow);
  const what = 'dport' in transport ? transport.dport : 'type' in transport ? transport.type : transport.protocol;
  const kind = ['tcp', 'udp', 'icmp', 'icmpv6', 'other'].indexOf(transport.kind);
  const way = [undefined, 'redirected', 'translated'].indexOf(flow.forwarded);
  return what + 65_536 * (kind + 8 * (way + 4 * (flow.direction === 'inbound' ? 0 : 1)));
}

/** The same, for very many connections: those of one kind with one far end are one question. */
export function revocationJudge(
  before: readonly CanonicalPolicy[],
  after: CanonicalPolicy,
  options: DecideOptions = {},
): (flow: LocalFlow) => boolean {
  const judged = new Map<string, Map<number, boolean>>();
  let size = 0;
  return (flow) => {
    const number = numberOf(flow);
    const known = judged.get(flow.remote)?.get(number);
    if (known !== undefined) return known;
    const verdict = isRevoked(flow, before, after, options);
    if (size === mostJudged) {
      judged.clear();
      size = 0;
    }
    const ofRemote = judged.get(flow.remote) ?? new Map<number, boolean>();
    judged.set(flow.remote, ofRemote.set(number, verdict));
    size += 1;
    return verdict;
  };
}
