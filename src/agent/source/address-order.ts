/** Owns the order in which the addresses of a name are tried: random, so that a fleet spreads over them, and those that could not work last. */
import { parseAddress, printAddress, type Address } from '../../policy/address.ts';
import { asSent } from './server-endpoint.ts';

const textOf = ({ family, value }: Address): string => printAddress(family, value);

export class AddressOrder {
  readonly #random: () => number;
  /** The places of the addresses of each host; the lowest is tried first. */
  readonly #places = new Map<string, ReadonlyMap<string, number>>();
  /** Above every random place. */
  #last = 1;

  constructor({ random }: { readonly random: () => number }) {
    this.#random = random;
  }

  /** The same addresses, in the order in which to try them. An address keeps its place as long as the name has it. */
  sort(host: string, addresses: readonly Address[]): readonly Address[] {
    const before = this.#places.get(host);
    const places = new Map(addresses.map((each) => [textOf(each), before?.get(textOf(each)) ?? this.#random()]));
    this.#places.set(host, places);
    return addresses.toSorted((a, b) => (places.get(textOf(a)) ?? 0) - (places.get(textOf(b)) ?? 0));
  }

  /** The server at this address cannot work, or the first one if nothing says which it was: every other address of its host comes before it. */
  leave(host: string, remote: string | undefined): void {
    const places = this.#places.get(host) ?? new Map<string, number>();
    const [first] = [...places].toSorted(([, a], [, b]) => a - b);
    const address = remote === undefined ? undefined : parseAddress(remote);
    const text = address === undefined || 'fault' in address ? first?.[0] : textOf(asSent(address));
    if (text !== undefined && places.has(text)) this.#places.set(host, new Map([...places, [text, ++this.#last]]));
  }
}
