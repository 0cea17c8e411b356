/**
 * Owns the wording of a change's effect: which devices gain or lose what, named devices first, and where the current
 * policy is not in force.
 */
import type { SimulatedTraffic, Simulation } from '../../api/change/simulation.ts';
import { inForceTitles } from '../../api/enforcement/in-force.ts';
import type { Line } from './changes.ts';
import { compareNames } from '../../policy/names/compare-names.ts';
import { shortId } from './short-id.ts';

type NamedDevice = { readonly id: string; readonly hostname: string };

const nameOf = ({ id, hostname }: NamedDevice): string => (hostname === '' ? shortId(id) : hostname);

/** `web-1, web-2 and 8 more`; `total` where there are more than are named. */
function names(devices: readonly NamedDevice[], most: number, total: number = devices.length): string {
  const shown = devices.map(nameOf).toSorted(compareNames).slice(0, most);
  const more = total - shown.length;
  if (more > 0) return `${shown.join(', ')} and ${more} more`;
  return shown.length < 2 ? shown.join('') : `${shown.slice(0, -1).join(', ')} and ${shown.at(-1)}`;
}

const protocolWords = {
  any: 'any protocol',
  tcp: 'tcp',
  udp: 'udp',
  icmp: 'ping',
  icmpv6: 'ping (IPv6)',
  other: 'other protocols',
} as const satisfies { readonly [P in SimulatedTraffic['protocol']]: string };

const mostPorts = 6;
const mostRanges = 4;
const mostDevices = 5;

/** ` and 2 more ranges`; nothing where none is left. */
const moreText = (more: number): string => (more > 0 ? ` and ${more} more range${more === 1 ? '' : 's'}` : '');

type Ports = NonNullable<SimulatedTraffic['ports']>;

const portRanges = (ports: Ports): readonly string[] =>
  ports.map(({ from, to }) => (from === to ? `${from}` : `${from}-${to}`));

/** The ports between and beside these, which ascend and do not touch. */
function otherPorts(ports: Ports): Ports {
  const starts = [0, ...ports.map(({ to }) => to + 1)];
  const ends = [...ports.map(({ from }) => from - 1), 65_535];
  return starts.flatMap((from, at) => {
    const to = ends[at] ?? 65_535;
    return from <= to ? [{ from, to }] : [];
  });
}

/** Most of all ports are told by those that are missing: `(all ports except 22, 443)`. */
function portText(ports: Ports = []): string {
  const others = otherPorts(ports);
  if (ports.length === 0 || others.length === 0) return '';
  const isMost = ports.length > 1 && ports.reduce((sum, { from, to }) => sum + to - from + 1, 0) > 32_768;
  const told = isMost ? others : ports;
  const text = `${portRanges(told.slice(0, mostPorts)).join(', ')}${moreText(told.length - mostPorts)}`;
  return isMost ? ` (all ports except ${text})` : ` ${text}`;
}

function rangeText(ranges: readonly string[]): string {
  const v4 = ranges.includes('0.0.0.0/0');
  const v6 = ranges.includes('::/0');
  if (v4 && v6) return 'any address';
  const named = ranges.map((range) =>
    range === '0.0.0.0/0' ? 'any IPv4 address' : range === '::/0' ? 'any IPv6 address' : range,
  );
  return `${named.slice(0, mostRanges).join(', ')}${moreText(named.length - mostRanges)}`;
}

/** `web-1 and web-2`, or `10.0.0.0/8 (among them web-1)`. */
function farText({ ranges, devices, device_count, others }: SimulatedTraffic['far']): string {
  if (!others && device_count > 0) return names(devices, mostDevices, device_count);
  const text = rangeText(ranges);
  if (device_count === 0 || text === 'any address') return text;
  return `${text} (among them ${names(devices, mostDevices, device_count)})`;
}

const trafficText = ({ protocol, ports }: SimulatedTraffic): string => `${protocolWords[protocol]}${portText(ports)}`;

/** What the devices do from now on, or no longer do. */
function sentence(kind: 'gained' | 'lost', devices: readonly NamedDevice[], traffic: SimulatedTraffic): string {
  const who = names(devices, mostDevices);
  const [what, far] = [trafficText(traffic), farText(traffic.far)];
  const isOne = devices.length === 1;
  if (traffic.direction === 'inbound') {
    if (kind === 'gained') return `${who} ${isOne ? 'accepts' : 'accept'} ${what} from ${far}`;
    return `${who} no longer ${isOne ? 'accepts' : 'accept'} ${what} from ${far}`;
  }
  return kind === 'gained'
    ? `${who} can connect to ${far} by ${what}`
    : `${who} can no longer connect to ${far} by ${what}`;
}

/** Equal for the same traffic on another device. */
const trafficKey = ({ device: _device, ...traffic }: SimulatedTraffic): string => JSON.stringify(traffic);

function linesOf(kind: 'gained' | 'lost', entries: readonly SimulatedTraffic[]): readonly Line[] {
  const alike = new Map<string, { readonly traffic: SimulatedTraffic; readonly devices: NamedDevice[] }>();
  for (const traffic of entries) {
    const known = alike.get(trafficKey(traffic));
    if (known === undefined) alike.set(trafficKey(traffic), { traffic, devices: [traffic.device] });
    else known.devices.push(traffic.device);
  }
  const isNamed = ({ traffic: { far } }: { readonly traffic: SimulatedTraffic }): number =>
    far.device_count > 0 && !far.others ? 0 : 1;
  return [...alike.values()]
    .toSorted((a, b) => isNamed(a) - isNamed(b))
    .map(({ traffic, devices }): Line => [kind === 'gained' ? '+' : '-', sentence(kind, devices, traffic)]);
}

/** One line for each thing that devices gain or lose; those that do the same share a line. */
export const trafficLines = ({ gained, lost }: Pick<Simulation, 'gained' | 'lost'>): readonly Line[] => [
  ...linesOf('gained', gained),
  ...linesOf('lost', lost),
];

const countText = (count: number): string => (count === 1 ? '1 device' : `${count} devices`);

/** `2 devices gain access, 1 loses access.`, or that nothing changes. */
export function trafficSummary({ affected, gained, lost }: Pick<Simulation, 'affected' | 'gained' | 'lost'>): string {
  if (affected === 0) return 'No device admits more or less than now.';
  const count = (entries: readonly SimulatedTraffic[]): number => new Set(entries.map(({ device }) => device.id)).size;
  const [more, less] = [count(gained), count(lost)];
  if (more + less === 0) return `The rules of ${countText(affected)} change, and they admit the same as now.`;
  const parts = [
    ...(more > 0 ? [`${countText(more)} ${more === 1 ? 'admits' : 'admit'} more`] : []),
    ...(less > 0 ? [`${countText(less)} ${less === 1 ? 'admits' : 'admit'} less`] : []),
  ];
  return `${parts.join(', ')}.`;
}

const entriesText = (count: number): string => `${count} more ${count === 1 ? 'entry' : 'entries'}`;

/** What the answer leaves out because one device gains or loses too much; undefined where it tells all. */
export function tooMuchNote({ too_much }: Pick<Simulation, 'too_much'>): string | undefined {
  if (too_much === undefined) return undefined;
  const { gained, lost } = too_much;
  const parts = [
    ...(gained > 0 ? [`${entriesText(gained)} of what is gained`] : []),
    ...(lost > 0 ? [`${entriesText(lost)} of what is lost`] : []),
  ];
  return `There is too much to show: ${parts.join(' and ')} ${gained + lost === 1 ? 'is' : 'are'} left out.`;
}

/** One entry in full: every port and every range. */
export function exactTraffic(traffic: SimulatedTraffic): {
  readonly name: string;
  readonly what: string;
  readonly ports: string;
  readonly ranges: string;
} {
  return {
    name: nameOf(traffic.device),
    what: protocolWords[traffic.protocol],
    ports: portRanges(traffic.ports ?? []).join(', '),
    ranges: traffic.far.ranges.join(', '),
  };
}

/**
 * Where the policy that the change is compared with is not in force; undefined where it is everywhere. `known` names devices that gain and lose
 * nothing.
 */
export function notInForceNote(
  { in_force, gained, lost }: Pick<Simulation, 'in_force' | 'gained' | 'lost'>,
  known: (id: string) => string | undefined = () => undefined,
): string | undefined {
  const hostnames = new Map([...gained, ...lost].map(({ device }) => [device.id as string, device.hostname]));
  const devices = Object.entries(in_force)
    .flatMap(([id, word]) =>
      word === 'yes'
        ? []
        : [`${nameOf({ id, hostname: hostnames.get(id) ?? known(id) ?? '' })} (${inForceTitles[word]})`],
    )
    .toSorted(compareNames);
  if (devices.length === 0) return undefined;
  const more = devices.length - mostDevices;
  const shown = `${devices.slice(0, mostDevices).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
  return `The present policy is not in force on ${shown}: there the change may do more than this shows.`;
}
