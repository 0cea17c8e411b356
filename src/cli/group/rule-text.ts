/** Owns the text form of rules as users type them: `tcp 443 from 10.0.0.0/8, label:app`. */
import { closestWord } from '../../client/words/closest-word.ts';
import { usageError } from '../terminal/exit.ts';
import { readGroup } from '../../policy/group.ts';
import { defaultLimits, namingLimits } from '../../policy/limits.ts';
import { protocols, type Direction, type Peer } from '../../policy/rule.ts';
import { serviceNamed, services } from '../../policy/services.ts';
import { isTimestamp } from '../../policy/time/timestamp.ts';
import { readExpiry } from '../terminal/time.ts';
import { nearService, portNamed } from '../terminal/port.ts';
import { portProblemInWords } from '../../client/words/port-problem.ts';
import { preposition } from '../../client/words/rule.ts';
import { nearPeerWord } from '../../client/words/near-peer-word.ts';
import { noNames, readPeerWord, type PeerNames } from './peer-text.ts';

const limits = { ...defaultLimits, ...namingLimits };

/** A rule as typed: of the right shape, not yet validated (the policy core says what is wrong with its values). */
export interface TypedRule {
  readonly ip_protocol: string;
  readonly from_port: number;
  readonly to_port: number;
  readonly ip_ranges?: readonly string[];
  readonly peers?: readonly Peer[];
  readonly expires_at?: string;
  readonly description?: string;
}

const directionWords: Readonly<Record<string, Direction>> = {
  in: 'inbound',
  inbound: 'inbound',
  out: 'outbound',
  outbound: 'outbound',
};

export function readDirection(word: string | undefined): Direction {
  const direction = directionWords[word?.toLowerCase() ?? ''];
  if (direction !== undefined) return direction;
  throw usageError(`a rule starts with \`in\` or \`out\`, not \`${word ?? ''}\``);
}

const example: { readonly [D in Direction]: string } = {
  inbound: 'in tcp 443 from 10.0.0.0/8,fd00::/8',
  outbound: 'out udp 53 to any',
};

/**
 * Reads `PROTOCOL [PORTS] [from|to FAR END] [until TIME] [# DESCRIPTION]`, or a service in the place of protocol and ports. Several ports, with commas, make several
 * rules, and each may be named by its service. Addresses are taken as typed: their faults are found and reported by the validation that the server uses too.
 */
export function readRuleWords(
  direction: Direction,
  words: readonly string[],
  names: PeerNames = noNames,
): readonly TypedRule[] {
  const { text, description } = readDescription(words.join(' '));
  const all = text.split(/\s+/).filter((token) => token !== '');
  // `(expires in 2 h)` is what people read behind a rule, and no part of it.
  const shown = all.findIndex((token) => /^\(expire[sd]$/i.test(token));
  const { tokens, expiry } = readUntil(shown === -1 ? all : all.slice(0, shown));
  const [first] = tokens;
  if (first === undefined) throw usageError(`a rule starts with a protocol, for example \`${example[direction]}\``);
  const at = tokens.findIndex((token) => ['from', 'to'].includes(token.toLowerCase()));
  const head = at === -1 ? tokens : tokens.slice(0, at);
  refuseFarEndWords(direction, head);
  const { ranges, peers } = at === -1 ? anywhere : readFarEnd(direction, tokens[at] ?? '', tokens.slice(at + 1), names);
  const [protocol = '', ...portWords] = head.join(' ').replaceAll(' ,', ',').replaceAll(', ', ',').split(' ');
  const ports =
    serviceNamed(protocol.split(',')[0] ?? '') === undefined
      ? readProtocolPorts(direction, protocol, portWords.join(''))
      : readServices(protocol, portWords);
  for (const one of ports) refuseWrongPorts(one);
  return ports.map(({ ip_protocol, ports: [from_port, to_port] }) => ({
    ip_protocol,
    from_port,
    to_port,
    ...(ranges.length > 0 && { ip_ranges: ranges }),
    ...(peers.length > 0 && { peers }),
    ...expiry,
    ...description,
  }));
}

/** The words before `#`, and the description after it. */
function readDescription(words: string): {
  readonly text: string;
  readonly description: Pick<TypedRule, 'description'>;
} {
  const at = words.search(/(?<!\S)#/);
  if (at === -1) return { text: words, description: {} };
  return { text: words.slice(0, at), description: { description: words.slice(at + 1).trim() } };
}

/** The words before `until`, and the time after it. */
function readUntil(all: readonly string[]): {
  readonly tokens: readonly string[];
  readonly expiry: Pick<TypedRule, 'expires_at'>;
} {
  const at = all.findIndex((token) => token.toLowerCase() === 'until');
  if (at === -1) return { tokens: all, expiry: {} };
  const [time, ...rest] = all.slice(at + 1);
  if (time === undefined || rest.length > 0) {
    throw usageError('`until` ends a rule with one time, for example `until 2030-01-31T12:00:00Z`');
  }
  // A time stays as it is written: the same text again is the same rule.
  const expires_at = isTimestamp(time) ? time : readExpiry(time, Date.now());
  return { tokens: all.slice(0, at), expiry: { expires_at } };
}

interface Ports {
  readonly ip_protocol: string;
  readonly ports: readonly [number, number];
}

/** By the validation that the server uses, told without the names of fields. */
function refuseWrongPorts({ ip_protocol, ports: [from_port, to_port] }: Ports): void {
  const { problems } = readGroup({ inbound_rules: [{ ip_protocol, from_port, to_port }] }, { mode: 'update', limits });
  const [first] = problems;
  if (first !== undefined) throw usageError(portProblemInWords(first.detail));
}

/** `tcp 80,443`. */
function readProtocolPorts(direction: Direction, protocol: string, text: string): readonly Ports[] {
  const ip_protocol = readProtocol(protocol);
  return readPorts(text, direction, ip_protocol).map((ports) => ({ ip_protocol, ports }));
}

/** `ssh` or `http,https`: each word names a protocol and a port. */
function readServices(words: string, rest: readonly string[]): readonly Ports[] {
  const parts = words.split(',').filter((part) => part !== '');
  const found = parts.map((part) => {
    const service = serviceNamed(part);
    if (service !== undefined) return service;
    const hint = /^\d/.test(part) ? `; with port numbers, name the protocol: \`tcp ${parts.join(',')}\`` : '';
    throw usageError(`\`${part}\` is not a service${nearService(part)}${hint}`);
  });
  const [service] = found;
  if (service !== undefined && rest.length > 0) {
    const more = rest.join(' ');
    throw usageError(
      /^[\d,\s-]+$/.test(more)
        ? `\`${words}\` already means ${service.ip_protocol} ${service.port}; remove \`${more}\``
        : `\`${more}\` is not understood after \`${words}\`, which already means ${service.ip_protocol} ${service.port}`,
    );
  }
  return found.map(({ ip_protocol, port }) => ({ ip_protocol, ports: [port, port] }));
}

/** A far end without its preposition must never be read as ports: a rule without a far end is open to every address. */
function refuseFarEndWords(direction: Direction, head: readonly string[]): void {
  const word = preposition[direction];
  for (const [index, token] of head.entries()) {
    if (index === 0) continue;
    const before = head.slice(0, index).join(' ');
    const after = head.slice(index + 1).join(' ');
    const isName = /^[a-z]+$/i.test(token) && !/^(any|all)$/i.test(token) && serviceNamed(token) === undefined;
    if (isName && after !== '' && closestWord(token, ['from', 'to']) !== undefined)
      throw usageError(`\`${token}\` is not understood; did you mean \`${word}\`: \`${before} ${word} ${after}\`?`);
    if (looksLikeFarEnd(token))
      throw usageError(
        `\`${word}\` is missing before \`${token}\`: \`${before} ${word} ${[token, after].join(' ').trim()}\``,
      );
  }
}

const looksLikeFarEnd = (token: string): boolean =>
  /^[a-z]+:[a-z]/i.test(token) || /^all[-_]?devices?$/i.test(token) || /^\d+\.\d+\.|^[0-9a-f]*:[0-9a-f]*:/i.test(token);

function readProtocol(word: string): string {
  const lower = word.toLowerCase();
  if (lower === 'any' || lower === 'all') return 'ip';
  if (protocols.some((known) => known === lower)) return lower;
  const near = closestWord(lower, [...protocols, ...services.flatMap(({ words }) => words)]);
  throw usageError(
    `\`${word}\` is not a protocol${near === undefined ? '' : ` (did you mean \`${near}\`?)`}; known: ${protocols.join(', ')}, or a service like ssh`,
  );
}

function readPorts(text: string, direction: Direction, protocol: string): readonly (readonly [number, number])[] {
  if (text === '' || text.toLowerCase() === 'any' || text.toLowerCase() === 'all') return [[0, 0]];
  return text
    .split(',')
    .filter((part) => part !== '')
    .map((part) => {
      const named = portNamed(part, protocol);
      if (named !== undefined) return [named, named] as const;
      const match = /^(\d{1,9})(?:-(\d{1,9}))?$/.exec(part);
      if (match === null) {
        throw usageError(
          `\`${part}\` is not a port, a port range or a known service${nearService(part)}; example: \`${example[direction]}\``,
        );
      }
      const from = Number(match[1]);
      const to = match[2] === undefined ? from : Number(match[2]);
      if (from === 0 && to === 0) throw usageError('port 0 does not exist; `any` means every port');
      return [from, to] as const;
    });
}

interface FarEnd {
  readonly ranges: readonly string[];
  readonly peers: readonly Peer[];
}
const anywhere: FarEnd = { ranges: [], peers: [] };

function readFarEnd(direction: Direction, word: string, rest: readonly string[], names: PeerNames): FarEnd {
  if (word.toLowerCase() !== preposition[direction]) {
    throw usageError(
      direction === 'inbound'
        ? 'an inbound rule says where traffic comes `from`, not where it goes `to`'
        : 'an outbound rule says where traffic goes `to`, not where it comes `from`',
    );
  }
  const entries = rest
    .join(' ')
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '');
  if (entries.length === 0) throw usageError(`\`${word}\` needs addresses, labels, devices, or \`any\``);
  if (entries.some((entry) => entry.toLowerCase() === 'any')) {
    if (entries.length > 1)
      throw usageError('`any` cannot be combined with other entries: it already includes every address');
    return anywhere;
  }
  const ranges: string[] = [];
  const peers: Peer[] = [];
  for (const entry of entries) {
    const peer = readPeerWord(entry, names);
    if (peer === undefined) ranges.push(readRangeWord(entry));
    else peers.push(peer);
  }
  return { ranges, peers };
}

function readRangeWord(entry: string): string {
  const range = entry.replace(/\s*-\s*/g, '-');
  const meant = nearPeerWord(entry);
  if (meant !== undefined) throw usageError(`\`${entry}\` is not an address; did you mean \`${meant}\`?`);
  if (/\s/.test(range)) throw usageError(`separate addresses with commas: \`${entry}\``);
  if (/^[a-z][a-z0-9._/-]*$/i.test(range)) {
    throw usageError(
      `\`${range}\` is not an address: write \`label:${range}\` for a label, \`device:${range}\` for a device`,
    );
  }
  return range;
}
