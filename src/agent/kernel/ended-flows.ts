/**
 * Owns ended connections that must not resume: their list, and the kernel table that drops their packets (reference 1.2
 * (26)).
 */
import {
  endedKinds,
  isTuple,
  type EndedCommand,
  type EndedElement,
  type EndedKind,
  type EndedPlace,
  type EndedSilence,
} from '../../nft/ended-flows.ts';
import { parseAddress } from '../../policy/address.ts';
import type { Packet } from '../../policy/packet.ts';
import type { Family } from '../../policy/rule.ts';
import { readSilence } from '../host/conntrack-timeouts.ts';
import { judgedPort, openingPacket, type Flow, type LocalFlow, type Tuple } from '../host/flows.ts';
import type { Blocked, EndingFlow } from '../host/revoke-flows.ts';
import { NftError, type Nft } from './nft.ts';

/** Protocols whose packets begin with the two ports, as connection tracking knows them: TCP, UDP, DCCP, SCTP, UDP-Lite. */
const withPorts: ReadonlySet<number> = new Set([6, 17, 33, 132, 136]);
/** Of these, those whose connections outlast a long silence: TCP, DCCP, SCTP. */
const streams: ReadonlySet<number> = new Set([6, 33, 132]);
/** Only a request makes the kernel track ICMP, and an answer is none: once the kernel has forgotten such a connection, it cannot come back by itself. */
const icmp: ReadonlySet<number> = new Set([1, 58]);

/** Connections of a kind that are remembered one by one; of those beyond only their ports are. Sets have room for some that have just expired. */
const mostOfKind = 120_000;
const sizeOfSets = 131_072;

export interface EndedFlowsOptions {
  readonly nft: Nft;
  readonly mostOfKind?: number;
  /** For how long both sides must be silent: as the kernel's settings say, unless given. */
  readonly silence?: () => EndedSilence;
}

export type Place = Pick<EndedPlace, 'interface' | 'containers'>;

type Elements = Map<EndedKind, EndedElement[]>;

/**
 * The kernel's table is the truth, this is its mirror: elements leave the kernel by themselves, so some here may be gone there until `inspect`. Calls are
 * made one at a time.
 */
export class EndedFlows {
  readonly #nft: Nft;
  readonly #most: number;
  readonly #silence: () => EndedSilence;
  /** By their kinds and keys. */
  readonly #elements = new Map(endedKinds.map((kind): [EndedKind, Map<string, EndedElement>] => [kind, new Map()]));
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
    for (const own of this.#elements.values()) size += own.size;
    return size;
  }

  /** Takes up what the last run left in the kernel. */
  async #adopt(): Promise<void> {
    const listing = await this.#nft.listEnded();
    this.#isKnown = true;
    this.#isThere = listing !== undefined;
    this.#replace(listing?.elements ?? []);
  }

  /** Refuses all further packets of these connections at the driver interface, from both sides, whether they pass there now or not. */
  async block(flows: readonly EndingFlow[], place: Place): Promise<Blocked> {
    if (!this.#isKnown) await this.#adopt();
    const elements: Elements = new Map();
    const added: EndedElement[] = [];
    const toForget: Flow[] = [];
    let [count, beyond] = [0, 0];
    for (const local of flows) {
      const element = elementOf(local, arrivingAt(local), outlastsSilence(local));
      const key = keyOf(element);
      if (local.isElsewhere !== true && !this.#knows(element, key, local.flow.family)) count += 1;
      const outcome = this.#add(local, element, key, elements, added);
      if (outcome === 'no-room') beyond += 1;
      if (outcome === 'forget') toForget.push(local.flow);
    }
    if (elements.size === 0) return { count, toForget, beyond };
    try {
      await this.#install(elements, place);
    } catch (error) {
      // The next attempt adds them again, and counts them then.
      for (const element of added) this.#elements.get(element.kind)?.delete(keyOf(element));
      throw error;
    }
    return { count, toForget, beyond };
  }

  async #install(elements: Elements, place: Place): Promise<void> {
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
    const admitted: Elements = new Map();
    for (const own of this.#elements.values()) {
      for (const [key, element] of own) {
        const packet = packetOf(element);
        if (packet === undefined || !isAdmitted(packet)) continue;
        own.delete(key);
        push(admitted, element);
      }
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
    const all = [...this.#elements].map(([kind, own]) => [kind, [...own.values()]] as const);
    const elements = commandsOf('addEnded', all);
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
    for (const own of this.#elements.values()) own.clear();
    for (const element of elements) this.#elements.get(element.kind)?.set(keyOf(element), element);
  }

  /** Whether the connection was blocked before, perhaps when it was not ending yet. */
  #knows({ kind }: EndedElement, key: string, family: Family): boolean {
    const { stream, tuple, pair } = kinds[family];
    if (kind === pair) return this.#elements.get(pair)?.has(key) === true;
    return this.#elements.get(stream)?.has(key) === true || this.#elements.get(tuple)?.has(key) === true;
  }

  /** Notes what keeps the connection ended: itself while there is room, its port beyond that. */
  #add(
    local: EndingFlow,
    element: EndedElement,
    key: string,
    into: Elements,
    added: EndedElement[],
  ): 'blocked' | 'forget' | 'no-room' {
    const { flow, direction, isElsewhere } = local;
    // Elsewhere, the next request would get another translation.
    if (icmp.has(flow.protocol)) return isElsewhere === true && isTranslated(flow) ? 'blocked' : 'forget';
    let inner: EndedElement | undefined;
    // As its packets pass the interface, and as they pass between the device and whom it translates for: mostly the same.
    if (isTranslated(flow)) {
      const { src, dst, sport, dport } = direction === 'inbound' ? flow.reply : flow.original;
      inner = elementOf(local, { src: dst, dst: src, sport: dport, dport: sport }, outlastsSilence(local));
    }
    const most = isElsewhere === true ? this.#most / 2 : this.#most;
    const hasRoom =
      this.#put(element, key, most, into, added) &&
      (inner === undefined || this.#put(inner, keyOf(inner), most, into, added));
    // With it the kernel forgets the connections that it expects.
    if (hasRoom) return flow.hasHelper === true && isElsewhere !== true ? 'forget' : 'blocked';
    if (isElsewhere === true) return 'no-room';
    for (const each of inner === undefined ? [element] : [element, inner]) {
      const port = byPort(each);
      this.#put(port, keyOf(port), Number.POSITIVE_INFINITY, into, added);
    }
    return 'forget';
  }

  /** Adds it, also where it is known: it may have left the kernel by itself. False where there is no room. */
  #put(element: EndedElement, key: string, most: number, into: Elements, added: EndedElement[]): boolean {
    const own = this.#elements.get(element.kind);
    if (own === undefined) return false;
    if (!own.has(key)) {
      if (own.size >= most) return false;
      own.set(key, element);
      added.push(element);
    }
    push(into, element);
    return true;
  }
}

function push(into: Elements, element: EndedElement): void {
  const own = into.get(element.kind);
  if (own === undefined) into.set(element.kind, [element]);
  else own.push(element);
}

/** The tuple of the connection's packets that arrive. */
const arrivingAt = ({ flow, direction }: LocalFlow): Tuple => (direction === 'inbound' ? flow.original : flow.reply);

/** Whether it is to stay ended for as long as the kernel remembers a silent connection. Where it is elsewhere, it is judged again and again while that is so. */
const outlastsSilence = ({ flow, isElsewhere }: EndingFlow): boolean =>
  streams.has(flow.protocol) && flow.isEnding !== true && isElsewhere !== true;

/** What the kernel knows an element of a kind by. */
const keyOf = ({ remote, local, protocol, remotePort, localPort }: EndedElement): string =>
  `${remotePort} ${localPort} ${protocol} ${remote} ${local}`;

const samePlace = (a: Place | undefined, b: Place): boolean =>
  a?.interface === b.interface && a.containers === b.containers;

const isRefused = (error: unknown): boolean => error instanceof NftError && error.code === 'refused';

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
