/**
 * Owns how many bytes of request bodies a process holds: for one user, from one address, and in total. A body counts
 * from the arrival of its headers until its request is answered. Beyond a limit the caller gets an error and should
 * retry later. No effects.
 */
import type { ServerConfig } from '../../options/config.ts';
import { HttpError } from '../../problems.ts';

export interface BodyMemoryLimits {
  readonly user: number;
  readonly address: number;
  readonly total: number;
}

/** One body always fits: otherwise the largest ones could never be sent. */
export const bodyMemoryLimitsOf = (config: ServerConfig): BodyMemoryLimits => {
  const { maxBody, maxPlainBody, maxUserBodyMemory, maxAddressBodyMemory, maxBodyMemory } = config;
  const atLeast = (bytes: number): number => Math.max(bytes, maxBody, maxPlainBody);
  return {
    user: atLeast(maxUserBodyMemory),
    address: atLeast(maxAddressBodyMemory),
    total: atLeast(maxBodyMemory),
  };
};

/** Bytes of a body that Node reads before anything asks for them. */
const unreadBytes = 65_536;
/** Seconds after which it makes sense to try again. */
const retryAfter = 5;

const later = (code: 'rate_limited' | 'unavailable', detail: string): HttpError =>
  new HttpError(code, detail, { headers: { 'Retry-After': String(retryAfter) } });

export class BodyMemory {
  readonly #limits: BodyMemoryLimits;
  readonly #byUser = new Map<string, number>();
  readonly #byAddress = new Map<string, number>();
  #total = 0;

  constructor(limits: BodyMemoryLimits) {
    this.#limits = limits;
  }

  /** Bytes that are held now. */
  get total(): number {
    return this.#total;
  }

  /** Counts the bytes of a body before its caller is known. Throws when the address, or the whole process, has too many. */
  open(address: string, declared: number | undefined): BodyClaim {
    const claim = new BodyClaim(this, address);
    claim.grow(Math.min(declared ?? unreadBytes, unreadBytes));
    return claim;
  }

  /** For claims. Throws when this many more bytes do not fit. */
  refuse(more: number, address: string, user: string | undefined): void {
    const { user: userLimit, address: addressLimit, total } = this.#limits;
    if (user !== undefined && (this.#byUser.get(user) ?? 0) + more > userLimit) {
      throw later(
        'rate_limited',
        'The unanswered requests of this user have too many bytes in their bodies. Try again later.',
      );
    }
    if ((this.#byAddress.get(address) ?? 0) + more > addressLimit) {
      throw later(
        'rate_limited',
        'The unanswered requests from this address have too many bytes in their bodies. Try again later.',
      );
    }
    if (this.#total + more > total) {
      throw later('unavailable', 'The server has too many bytes of unanswered request bodies. Try again later.');
    }
  }

  /** For claims. */
  add(bytes: number, address: string | undefined, user: string | undefined): void {
    if (address !== undefined) {
      this.#total += bytes;
      addTo(this.#byAddress, address, bytes);
    }
    if (user !== undefined) addTo(this.#byUser, user, bytes);
  }
}

function addTo(counts: Map<string, number>, key: string, bytes: number): void {
  const sum = (counts.get(key) ?? 0) + bytes;
  if (sum === 0) counts.delete(key);
  else counts.set(key, sum);
}

/** The bytes that one body counts. */
export class BodyClaim {
  readonly #memory: BodyMemory;
  readonly #address: string;
  #user: string | undefined;
  #bytes = 0;
  #ended = false;

  constructor(memory: BodyMemory, address: string) {
    this.#memory = memory;
    this.#address = address;
  }

  /** From now on it counts for its user too; throws where a body of the declared length does not fit. */
  bill(user: string, declared: number | undefined): void {
    if (this.#ended) return;
    this.#user = user;
    this.#memory.add(this.#bytes, undefined, user);
    this.#memory.refuse(Math.max(0, (declared ?? 0) - this.#bytes), this.#address, user);
  }

  /** Sets the number of bytes received so far; throws when they do not fit. */
  grow(bytes: number): void {
    const more = bytes - this.#bytes;
    if (more <= 0 || this.#ended) return;
    this.#memory.refuse(more, this.#address, this.#user);
    this.#bytes = bytes;
    this.#memory.add(more, this.#address, this.#user);
  }

  /** Nothing is held any more. */
  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#memory.add(-this.#bytes, this.#address, this.#user);
  }
}
