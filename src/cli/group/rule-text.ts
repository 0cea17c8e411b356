/** Owns rules in human words: `tcp 443 from 10.0.0.0/8, label:app`, as people type them. */
import { closestWord } from '../../node/closest-word.ts';
import { usageError } from '../terminal/exit.ts';
import { protocols, type Direction, type Peer } from '../../policy/rule.ts';
import { serviceNamed, services } from '../../policy/services.ts';
import { nearService, portNamed } from '../terminal/port.ts';
import { preposition } from '../../client/words/rule.ts';
import { noNames, readPeerWord, type PeerNames } from './peer-text.ts';

/** A rule as typed: of the right shape, not yet validated (the policy core says what is wrong with its values). */
export interface TypedRule {
  readonly ip_protocol: string;
  readonly from_port: number;
  readonly to_port: number;
  readonly ip_ranges?: readonly string[];
  readonly peers?: readonly Peer[];
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
 * Reads `PROTOCOL [PORTS] [from|to FAR END]`, or a service in the place of protocol and ports. Several ports, with commas, make several
 * rules, and each may be named by its service. Port numbers and
 * addresses are taken as typed: their faults are found and reported by the validation that the server uses too.
 */
export function readRuleWords(
  direction: Direction,
  words: readonly string[],
  names: PeerNames = noNames,
): readonly TypedRule[] {
  const tokens = words
    .join(' ')
    .trim()
    .split(/\s+/)
    .filter((token) => token !== '');
  const [protocol, ...rest] = tokens;
  if (protocol === undefined) throw usageError(`a rule starts with a protocol, for example \`${example[direction]}\``);
  const at = rest.findIndex((token) => ['from', 'to'].includes(token.toLowerCase()));
  const portTokens = at === -1 ? rest : rest.slice(0, at);
  const service = serviceNamed(protocol);
  if (service !== undefined && portTokens.length > 0) {
    throw usageError(
      `\`${protocol}\` already means ${service.ip_protocol} ${service.port}; remove \`${portTokens.join(' ')}\``,
    );
  }
  const ip_protocol = service?.ip_protocol ?? readProtocol(protocol);
  const { ranges, peers } = at === -1 ? anywhere : readFarEnd(direction, rest[at] ?? '', rest.slice(at + 1), names);
  const ports =
    service === undefined
      ? readPorts(portTokens.join(''), direction, ip_protocol)
      : [[service.port, service.port] as const];
  return ports.map(([from_port, to_port]) => ({
    ip_protocol,
    from_port,
    to_port,
    ...(ranges.length > 0 && { ip_ranges: ranges }),
    ...(peers.length > 0 && { peers }),
  }));
}

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
  if (/\s/.test(range)) throw usageError(`separate addresses with commas: \`${entry}\``);
  if (/^[a-z][a-z0-9._/-]*$/i.test(range)) {
    throw usageError(
      `\`${range}\` is not an address: write \`label:${range}\` for a label, \`device:${range}\` for a device`,
    );
  }
  return range;
}
