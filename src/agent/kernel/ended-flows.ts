/**
 * Owns ended connections that must not resume: their list, and the kernel table that drops their packets (reference 1.2
 * (26)).
 */
import {
  endedKinds,
  isPort,
  isTuple,
  type EndedCommand,
  type EndedElement,
  type EndedKind,
  type EndedPlace,
  type EndedSilence,
} from '../../nft/ended-flows.ts';
import { parseAddress } from '../../policy/address.ts';
import type { Packet } from '../../policy/packet.ts';
import { readSilence } from '../host/conntrack-timeouts.ts';
import { judgedPort, openingPacket, type LocalFlow, type Tuple } from '../host/flows.ts';
import { NftError, type Nft } from './nft.ts';

const tcp = 6;
/** Protocols whose packets begin with the two ports, as connection tracking knows them: TCP, UDP, DCCP, SCTP, UDP-Lite. */
const withPorts: ReadonlySet<number> = new Set([tcp, 17, 33, 132, 136]);
/** Of these, those whose connections outlast a long silence: TCP, DCCP, SCTP. */
const streams: ReadonlySet<number> = new Set([tcp, 33, 132]);
/** Only a request makes the kernel track ICMP, and an answer is none: such a connection cannot come back by itself. */
const icmp: ReadonlySet<number> = new Set([1, 58]);

/** Connections of a kind that are remembered one by one; of those beyond only their ports are. Sets have room for some that have just expired. */
const mostOfKind = 60_000;
const sizeOfSets = 65_536;

export interface EndedFlowsOptions {
  readonly nft: Nft;
  readonly mostOfKind?: number;
  /** For how long both sides must be silent: as the kernel's settings say, unless given. */
  readonly silence?: () => EndedSilence;
}

export type Place = Pick<EndedPlace, 'interface' | 'containers'>;

/**
 * The kernel's table is the truth, this is its mirror: elements leave the kernel by themselves, so some here may be gone there until `inspect`. Calls are
 * made one at a time.
 */
export class EndedFlows {
  readonly #nft: Nft;
  readonly #most: number;
  readonly #silence: () => EndedSilence;
  /** By their kinds. One that has left the kernel and came again is there twice until `inspect`. */
  readonly #elements = new Map(endedKinds.map((kind): [EndedKind, EndedElement[]] => [kind, []]));
  /** Which ports are there: very many connections may have the same one. */
  readonly #ports = new Set<string>();
  /** For what the table was made; absent where there is none, or another run made it. */
  #made: Place | undefined;
  #isThere = false;
  /** Whether it is known what the last run left. */
  #isKnown = false;
  /** The table's rules as the kernel lists them, since they were first looked at. */
  #rules: string | undefined;

  constructor({ nft, mostOfKind: most = mostOfKind, silence = () => readSilence() }: EndedFlowsOptions) {
    this.#nft = nft;
    this.#most = most;
    this.#silence = silence;
  }

  /** Connections that stay ended. */
  get size(): number {
    let size = 0;
    for (const { length } of this.#elements.values()) size += length;
    return size;
  }

  /** Takes up what the last run left in the kernel. */
  async #adopt(): Promise<void> {
    const listing = await this.#nft.listEnded();
    this.#isKnown = true;
    this.#isThere = listing !== undefined;
    this.#replace(listing?.elements ?? []);
  }

  /**
   * Drops all further packets of these connections, from both sides. `sockets` says whether the sockets of this device
   * are known to be gone: a connection that still has one can resume after a long silence.
   */
  async block(flows: readonly LocalFlow[], place: Place, sockets: 'ended' | 'unknown' = 'unknown'): Promise<void> {
    if (!this.#isKnown) await this.#adopt();
    const before = new Map([...this.#elements].map(([kind, { length }]) => [kind, length]));
    const elements = new Map<EndedKind, EndedElement[]>();
    for (const flow of flows) this.#add(flow, sockets, elements);
    if (elements.size === 0) return;
    try {
      await this.#install(elements, place);
    } catch (error) {
      // The next attempt adds them again, and must not count them twice.
      this.#replace([...this.#elements].flatMap(([kind, own]) => own.slice(0, before.get(kind))));
      throw error;
    }
  }

  async #install(elements: ReadonlyMap<EndedKind, readonly EndedElement[]>, place: Place): Promise<void> {
    const isFit = this.#isThere && samePlace(this.#made, place);
    try {
      if (isFit) await this.#nft.run(commandsOf('addEnded', elements));
      else await this.#make(place);
    } catch (error) {
      if (!isFit || !isRefused(error)) throw error;
      // Somebody took the table away, or filled it.
      await this.#make(place);
    }
  }

  /** Lets those go that a policy admits again, and keeps the others ended at this place. What the last run left is taken up first. */
  async release(isAdmitted: (packet: Packet) => boolean, place: Place): Promise<void> {
    if (!this.#isKnown) await this.#adopt();
    if (this.size === 0) return;
    const admitted = new Map<EndedKind, EndedElement[]>();
    for (const [kind, elements] of this.#elements) {
      const [go, stay] = divide(elements, (element) => {
        const packet = packetOf(element);
        return packet !== undefined && isAdmitted(packet);
      });
      this.#elements.set(kind, stay);
      if (go.length > 0) admitted.set(kind, [...new Map(go.map((element) => [keyOf(element), element])).values()]);
    }
    if (!samePlace(this.#made, place)) return this.#make(place);
    if (admitted.size === 0) return;
    try {
      // One that has left by itself is put there first, because what is not there cannot be deleted.
      await this.#nft.run([...commandsOf('addEnded', admitted), ...commandsOf('deleteEnded', admitted)]);
    } catch (error) {
      // They may be there still: the next call looks.
      this.#isKnown = isRefused(error);
      if (!this.#isKnown) throw error;
      await this.#make(place);
    }
  }

  /** Makes the table anew where somebody else has changed it. */
  async repair(): Promise<void> {
    if (this.size > 0 && this.#made !== undefined) await this.#make(this.#made);
  }

  /** Forgets what has left the kernel by itself, takes the table away with the last one, and undoes what others did. Answers whether it had to. */
  async inspect(): Promise<boolean> {
    if (!this.#isThere) return false;
    const listing = await this.#nft.listEnded();
    const made = this.#made;
    if (listing === undefined || (this.#rules !== undefined && this.#rules !== listing.rules)) {
      if (made === undefined || this.size === 0) await this.#remove();
      else await this.#make(made);
      return made !== undefined;
    }
    this.#rules = listing.rules;
    this.#replace(listing.elements);
    if (this.size === 0) await this.#remove();
    return false;
  }

  async #make(place: Place): Promise<void> {
    const wasThere = this.#isThere;
    this.#rules = undefined;
    this.#isThere = true;
    this.#made = undefined;
    const table: EndedCommand = { kind: 'makeEndedTable', ...place, silence: this.#silence(), size: sizeOfSets };
    const elements = commandsOf('addEnded', this.#elements);
    // No packet passes while a table takes the place of another. The first one may be filled a moment later, which is quicker.
    if (wasThere) await this.#nft.run([table, ...elements]);
    else {
      await this.#nft.run([table]);
      await this.#nft.run(elements);
    }
    this.#made = place;
  }

  async #remove(): Promise<void> {
    await this.#nft.run([{ kind: 'removeEndedTable' }]);
    this.#replace([]);
    this.#isThere = false;
    this.#made = undefined;
    this.#rules = undefined;
  }

  #replace(elements: readonly EndedElement[]): void {
    for (const kind of endedKinds) this.#elements.set(kind, []);
    this.#ports.clear();
    for (const element of elements) {
      this.#elements.get(element.kind)?.push(element);
      if (isPort(element.kind)) this.#ports.add(keyOf(element));
    }
  }

  /** Notes what keeps the connection ended: itself while there is room, its port beyond that. */
  #add(local: LocalFlow, sockets: 'ended' | 'unknown', into: Map<EndedKind, EndedElement[]>): void {
    const { flow, direction } = local;
    if (icmp.has(flow.protocol)) return;
    const isLasting = streams.has(flow.protocol) && !isAborted(local, sockets);
    const [arriving, leaving] = direction === 'inbound' ? [flow.original, flow.reply] : [flow.reply, flow.original];
    this.#put(elementOf(local, arriving, isLasting), into);
    // As its packets pass the interface, and as they pass between the device and whom it translates for: mostly the same.
    if (!isTranslated(flow)) return;
    const { src, dst, sport, dport } = leaving;
    this.#put(elementOf(local, { src: dst, dst: src, sport: dport, dport: sport }, isLasting), into);
  }

  #put(element: EndedElement, into: Map<EndedKind, EndedElement[]>): void {
    const own = this.#elements.get(element.kind) ?? [];
    if (own.length < this.#most) {
      own.push(element);
      push(into, element);
    } else this.#putPort(byPort(element), into);
  }

  /** A port may be known, and have left the kernel by itself all the same: it is added again. */
  #putPort(element: EndedElement, into: Map<EndedKind, EndedElement[]>): void {
    const key = keyOf(element);
    if (!this.#ports.has(key)) this.#elements.get(element.kind)?.push(element);
    this.#ports.add(key);
    push(into, element);
  }
}

function push(into: Map<EndedKind, EndedElement[]>, element: EndedElement): void {
  const own = into.get(element.kind);
  if (own === undefined) into.set(element.kind, [element]);
  else own.push(element);
}

/** Only sockets of TCP can be ended, and only those of the device itself. */
const isAborted = ({ flow, forwarded }: LocalFlow, sockets: 'ended' | 'unknown'): boolean =>
  sockets === 'ended' && flow.protocol === tcp && forwarded === undefined;

/** What the kernel knows an element by. */
const keyOf = ({ kind, remote, local, protocol, remotePort, localPort }: EndedElement): string =>
  `${kind} ${remotePort} ${localPort} ${protocol} ${remote} ${local}`;

const samePlace = (a: Place | undefined, b: Place): boolean =>
  a?.interface === b.interface && a.containers === b.containers;

const isRefused = (error: unknown): boolean => error instanceof NftError && error.code === 'refused';

/** Those of whom it is true, and the others. */
function divide<T>(items: readonly T[], isTrue: (item: T) => boolean): readonly [T[], T[]] {
  const [yes, no]: [T[], T[]] = [[], []];
  for (const item of items) (isTrue(item) ? yes : no).push(item);
  return [yes, no];
}

const commandsOf = (
  kind: 'addEnded' | 'deleteEnded',
  elements: Iterable<readonly [EndedKind, readonly EndedElement[]]>,
): EndedCommand[] =>
  [...elements].filter(([, own]) => own.length > 0).map(([of, own]) => ({ kind, of, elements: own }));

const kinds = {
  4: { stream: 'stream4', tuple: 'tuple4', pair: 'pair4' },
  6: { stream: 'stream6', tuple: 'tuple6', pair: 'pair6' },
} as const;

/** Written out: a thousand of these may be made at once, by code that seldom runs. */
function elementOf(local: LocalFlow, { src, dst, sport, dport }: Tuple, isLasting: boolean): EndedElement {
  const { flow, direction, forwarded } = local;
  const { family, protocol } = flow;
  const hasPorts = withPorts.has(protocol);
  const element: EndedElement = {
    kind: kinds[family][isLasting ? 'stream' : hasPorts ? 'tuple' : 'pair'],
    remote: src,
    local: dst,
    protocol,
    remotePort: hasPorts ? sport : 0,
    localPort: hasPorts ? dport : 0,
    direction,
    port: judgedPort(local),
  };
  return forwarded === undefined ? element : { ...element, forwarded };
}

const isTranslated = ({ original, reply }: LocalFlow['flow']): boolean =>
  original.src !== reply.dst ||
  original.dst !== reply.src ||
  original.sport !== reply.dport ||
  original.dport !== reply.sport;

/** All that the side which did not begin the connection could begin from the same port. What is tracked already is not concerned. */
function byPort(element: EndedElement): EndedElement {
  const { kind, direction, remotePort, localPort } = element;
  if (!isTuple(kind)) return element;
  const none = { remote: '', local: '', remotePort: 0, localPort: 0, port: 0 };
  const { forwarded: _, ...about } = element;
  return direction === 'inbound'
    ? { ...about, ...none, kind: 'port-inbound', localPort }
    : { ...about, ...none, kind: 'port-outbound', remotePort };
}

/** The packet that would open the connection; nothing where more than one connection is meant. */
function packetOf({ kind, remote, protocol, direction, port, forwarded }: EndedElement): Packet | undefined {
  if (kind === 'port-inbound' || kind === 'port-outbound') return undefined;
  const address = parseAddress(remote);
  if ('fault' in address) return undefined;
  const { family, value } = address;
  return openingPacket({ direction, family, remote: value, protocol, port, ...(forwarded && { forwarded }) });
}
