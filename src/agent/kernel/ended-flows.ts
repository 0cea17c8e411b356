/** Owns ended connections that must not come back: which there are, and the kernel's table that drops their packets (reference 1.2 (26)). */
import { type EndedCommand, type EndedElement, type EndedKind, type EndedPlace } from '../../nft/ended-flows.ts';
import { parseAddress } from '../../policy/address.ts';
import type { Packet } from '../../policy/packet.ts';
import { judgedPort, openingPacket, type LocalFlow, type Tuple } from '../host/flows.ts';
import { NftError, type Nft } from './nft.ts';

/** Protocols whose packets begin with the two ports, as connection tracking knows them: TCP, UDP, DCCP, SCTP, UDP-Lite. */
const withPorts: ReadonlySet<number> = new Set([6, 17, 33, 132, 136]);
/** Only a request makes the kernel track ICMP, and an answer is none: such a connection cannot come back by itself. */
const icmp: ReadonlySet<number> = new Set([1, 58]);

/** So long both sides must be silent, in seconds: as long as kernels remember UDP. */
const silence = 180;
/** Connections of a kind that are remembered one by one; of those beyond only their ports are. Sets have room for some that have just expired. */
const mostOfKind = 60_000;
const sizeOfSets = 65_536;

export interface EndedFlowsOptions {
  readonly nft: Nft;
  readonly mostOfKind?: number;
}

export type Place = Pick<EndedPlace, 'interface' | 'containers'>;

/**
 * The kernel's table is the truth, this is its mirror: elements leave the kernel by themselves, so some here may be gone there until `inspect`. Calls are
 * made one at a time.
 */
export class EndedFlows {
  readonly #nft: Nft;
  readonly #most: number;
  readonly #elements = new Map<string, EndedElement>();
  readonly #sizes = new Map<EndedKind, number>();
  /** For what the table was made; absent where there is none, or another run made it. */
  #made: Place | undefined;
  #isThere = false;
  /** Whether it is known what the last run left. */
  #isKnown = false;
  /** The table's rules as the kernel lists them, since they were first looked at. */
  #rules: string | undefined;

  constructor({ nft, mostOfKind: most = mostOfKind }: EndedFlowsOptions) {
    this.#nft = nft;
    this.#most = most;
  }

  /** Connections that stay ended. */
  get size(): number {
    return this.#elements.size;
  }

  /** Takes up what the last run left in the kernel. */
  async #adopt(): Promise<void> {
    const listing = await this.#nft.listEnded();
    this.#isKnown = true;
    this.#isThere = listing !== undefined;
    this.#replace(listing?.elements ?? []);
  }

  /** From now on packets of these connections are dropped, whoever sends them. */
  async block(flows: readonly LocalFlow[], place: Place): Promise<void> {
    if (!this.#isKnown) await this.#adopt();
    const elements = flows.flatMap((flow) => this.#add(flow));
    if (elements.length === 0) return;
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
    if (this.#elements.size === 0) return;
    const admitted = [...this.#elements.values()].filter((element) => {
      const packet = packetOf(element);
      return packet !== undefined && isAdmitted(packet);
    });
    for (const element of admitted) this.#drop(element);
    if (!samePlace(this.#made, place)) return this.#make(place);
    if (admitted.length === 0) return;
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
    if (this.#elements.size > 0 && this.#made !== undefined) await this.#make(this.#made);
  }

  /** Forgets what has left the kernel by itself, takes the table away with the last one, and undoes what others did. Answers whether it had to. */
  async inspect(): Promise<boolean> {
    if (!this.#isThere) return false;
    const listing = await this.#nft.listEnded();
    const made = this.#made;
    if (listing === undefined || (this.#rules !== undefined && this.#rules !== listing.rules)) {
      if (made === undefined || this.#elements.size === 0) await this.#remove();
      else await this.#make(made);
      return made !== undefined;
    }
    this.#rules = listing.rules;
    this.#replace(listing.elements);
    if (this.#elements.size === 0) await this.#remove();
    return false;
  }

  async #make(place: Place): Promise<void> {
    const wasThere = this.#isThere;
    this.#rules = undefined;
    this.#isThere = true;
    this.#made = undefined;
    const table: EndedCommand = { kind: 'makeEndedTable', ...place, seconds: silence, size: sizeOfSets };
    const elements = commandsOf('addEnded', [...this.#elements.values()]);
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
    this.#elements.clear();
    this.#sizes.clear();
    for (const element of elements) this.#put(element);
  }

  #put(element: EndedElement): void {
    const before = this.#elements.size;
    this.#elements.set(keyOf(element), element);
    if (this.#elements.size > before) this.#sizes.set(element.kind, (this.#sizes.get(element.kind) ?? 0) + 1);
  }

  #drop(element: EndedElement): void {
    if (this.#elements.delete(keyOf(element))) this.#sizes.set(element.kind, (this.#sizes.get(element.kind) ?? 0) - 1);
  }

  /** Notes what keeps the connection ended: itself while there is room, its port beyond that. */
  #add(local: LocalFlow): readonly EndedElement[] {
    const elements = elementsOf(local).map((element) =>
      (this.#sizes.get(element.kind) ?? 0) < this.#most ? element : byPort(element),
    );
    for (const element of elements) this.#put(element);
    return elements;
  }
}

const keyOf = ({ kind, remote, local, protocol, remotePort, localPort }: EndedElement): string =>
  `${kind} ${remote} ${local} ${protocol} ${remotePort} ${localPort}`;

const samePlace = (a: Place | undefined, b: Place): boolean =>
  a?.interface === b.interface && a.containers === b.containers;

const isRefused = (error: unknown): boolean => error instanceof NftError && error.code === 'refused';

function commandsOf(kind: 'addEnded' | 'deleteEnded', elements: readonly EndedElement[]): EndedCommand[] {
  const byKind = new Map<EndedKind, EndedElement[]>();
  for (const element of elements) {
    const own = byKind.get(element.kind);
    if (own === undefined) byKind.set(element.kind, [element]);
    else own.push(element);
  }
  return [...byKind].map(([of, own]) => ({ kind, of, elements: own }));
}

/** As its packets pass the interface, and as they pass between the device and whom it translates for: mostly the same. */
function elementsOf(local: LocalFlow): readonly EndedElement[] {
  const { flow, direction } = local;
  if (icmp.has(flow.protocol)) return [];
  const [arriving, leaving] = direction === 'inbound' ? [flow.original, flow.reply] : [flow.reply, flow.original];
  const first = elementOf(local, arriving);
  if (!isTranslated(flow)) return [first];
  const { src, dst, sport, dport } = leaving;
  return [first, elementOf(local, { src: dst, dst: src, sport: dport, dport: sport })];
}

/** Written out: a thousand of these may be made at once, by code that seldom runs. */
function elementOf(local: LocalFlow, { src, dst, sport, dport }: Tuple): EndedElement {
  const { flow, direction, forwarded } = local;
  const { family, protocol } = flow;
  const hasPorts = withPorts.has(protocol);
  const element: EndedElement = {
    kind: family === 4 ? (hasPorts ? 'tuple4' : 'pair4') : hasPorts ? 'tuple6' : 'pair6',
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
  if (!kind.startsWith('tuple')) return element;
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
