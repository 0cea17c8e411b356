/**
 * Owns the rate limits: requests by credential and by user, by address without a credential, and a much lower limit for
 * failed credentials.
 */
import { credentialId, type Presented, type Principal } from '../../identity/authenticate.ts';
import { digestOf } from '../../identity/secret.ts';
import type { FailedElsewhere } from '../../limits/failed-elsewhere.ts';
import type { ServerConfig } from '../../options/config.ts';
import { HttpError } from '../../problems.ts';
import { RateLimiter, type RateLimit } from './rate-limit.ts';

export interface RequestLimitOptions {
  readonly credential: RateLimit;
  /** Over all credentials of a user but the tokens of its devices, each of which is a machine of its own. */
  readonly user: RateLimit;
  readonly address: RateLimit;
  readonly failed: RateLimit;
}

/** `--rate-limit 0` switches every limit off. */
export function requestLimitsOf(config: ServerConfig): RequestLimitOptions {
  const { rateLimit, rateBurst, addressRateLimit, addressRateBurst, failedRateLimit, failedRateBurst } = config;
  const unless = (perSecond: number): number => (rateLimit === 0 ? 0 : perSecond);
  return {
    credential: { perSecond: rateLimit, burst: rateBurst },
    // Twice, so that one credential that runs away leaves room for the user's others.
    user: { perSecond: 2 * rateLimit, burst: 2 * rateBurst },
    address: { perSecond: unless(addressRateLimit), burst: addressRateBurst },
    failed: { perSecond: unless(failedRateLimit), burst: failedRateBurst },
  };
}

/** Names of users that nobody has: who adds members finds out which names are taken. */
export const unknownUserLimitOf = ({ rateLimit }: Pick<ServerConfig, 'rateLimit'>): RateLimit => ({
  perSecond: rateLimit === 0 ? 0 : 0.1,
  burst: 50,
});

const refuse = (wait: number, who: string): void => {
  if (wait === 0) return;
  throw new HttpError('rate_limited', `Too many requests ${who}. Wait ${wait} s.`, {
    headers: { 'Retry-After': String(wait) },
  });
};

/** More good credentials than this are not remembered. */
const remembered = 10_000;

export class RequestLimits {
  readonly #credential: RateLimiter;
  readonly #user: RateLimiter;
  readonly #address: RateLimiter;
  readonly #failed: RateLimiter;
  readonly #elsewhere: FailedElsewhere | undefined;
  /** Credentials that were good, by their digests, those used last at the end. */
  readonly #good = new Set<string>();

  constructor(options: RequestLimitOptions, clock: () => number, elsewhere?: FailedElsewhere) {
    this.#credential = new RateLimiter(options.credential, clock);
    this.#user = new RateLimiter(options.user, clock);
    this.#address = new RateLimiter(options.address, clock);
    this.#failed = new RateLimiter(options.failed, clock);
    // Without a limit, there is nothing to tell other processes.
    this.#elsewhere = options.failed.perSecond > 0 ? elsewhere : undefined;
    this.#elsewhere?.listen((address) => this.#failed.take(address));
  }

  /** A request that needs no credential, or has none. */
  stranger(address: string): void {
    refuse(this.#address.take(address), 'from this address');
  }

  /**
   * Before a credential is looked up: an address from which too many failed is not looked up again for a while. Credentials that were
   * good before go on: people behind one address must not lock each other out.
   */
  presented(presented: Presented, address: string): void {
    const wait = this.#failed.wait(address);
    if (wait === 0 || this.#good.has(nameOf(presented))) return;
    refuse(wait, 'with credentials that are not good, from this address');
  }

  /** All processes count it, so that an address has not the burst of each. */
  failed(address: string): void {
    const wait = this.#failed.take(address);
    if (wait === 0) this.#elsewhere?.tell(address);
    refuse(wait, 'with credentials that are not good, from this address');
  }

  admitted(principal: Principal, presented: Presented): void {
    this.#remember(nameOf(presented));
    refuse(this.#credential.take(credentialId(principal)), 'with this credential');
    if (principal.kind === 'user') refuse(this.#user.take(principal.user_id), 'by this user');
  }

  #remember(name: string): void {
    this.#good.delete(name);
    this.#good.add(name);
    const [oldest] = this.#good;
    if (this.#good.size > remembered && oldest !== undefined) this.#good.delete(oldest);
  }
}

/** Names a credential without holding it. */
const nameOf = ({ authorization, session }: Presented): string =>
  Buffer.from(digestOf(authorization ?? `session ${session ?? ''}`)).toString('base64url');
