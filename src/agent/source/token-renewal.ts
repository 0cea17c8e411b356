/** Owns the token of an enrolled device: it makes the next one when the server asks for it, and goes back to the one before where that is refused. */
import { createHash, randomBytes } from 'node:crypto';
import { field, isObject } from '../../policy/json.ts';
import type { Log } from '../host/log.ts';
import type { Identity, IdentityFolder } from './identity.ts';

export interface TokenRenewalOptions {
  readonly identity: Identity;
  readonly folder: Pick<IdentityFolder, 'save'>;
  /** A new secret, and its SHA-256 in hexadecimal. */
  readonly mint: () => { readonly secret: string; readonly digest: string };
  readonly log: Log;
}

/** Made like the server makes them: 256 random bits. */
export function mintDeviceToken(): { readonly secret: string; readonly digest: string } {
  const secret = `rf_device_${randomBytes(32).toString('base64url')}`;
  return { secret, digest: createHash('sha256').update(secret).digest('hex') };
}

/**
 * The next token is on disk before it is used, and the server ends the present one only when the next one is used: an interruption at any moment
 * leaves the device with a token that works. The token before stays on disk too, for a server that was restored from an older backup.
 */
export class TokenRenewal {
  readonly #options: TokenRenewalOptions;
  #identity: Identity;
  #offered: { readonly secret: string; readonly digest: string } | undefined;
  #usesPrevious = false;

  constructor(options: TokenRenewalOptions) {
    this.#options = options;
    this.#identity = options.identity;
  }

  get token(): string {
    const { token, previousToken } = this.#identity;
    return this.#usesPrevious ? (previousToken ?? token) : token;
  }

  /** The server refuses this token. The other one is tried next: after a restore it may be the one that the server knows. */
  refused(token: string): void {
    if (token !== this.token || this.#identity.previousToken === undefined) return;
    this.#usesPrevious = !this.#usesPrevious;
  }

  /** Sends a report. Where the answer asks for another token, it is offered with the same report, and used at once. */
  async report<Report extends object>(
    report: Report,
    send: (report: Report & { readonly next_token_digest?: string }) => Promise<unknown>,
  ): Promise<unknown> {
    const answer = await send(report);
    if (!isObject(answer) || field(answer, 'renew_token') !== true) return answer;
    const offered = (this.#offered ??= this.#options.mint());
    const accepted = await send({ ...report, next_token_digest: offered.digest });
    // The first use of the new one ends the old one.
    return (await this.#take(offered.secret)) ? send(report) : accepted;
  }

  async #take(secret: string): Promise<boolean> {
    const { folder, log } = this.#options;
    const next = { ...this.#identity, token: secret, previousToken: this.token };
    try {
      await folder.save(next);
    } catch (error) {
      // The present token goes on working. The next report offers the same one again.
      log('warn', `the device keeps its token: ${error instanceof Error ? error.message : String(error)}`);
      return false;
    }
    this.#identity = next;
    this.#offered = undefined;
    this.#usesPrevious = false;
    log('info', 'the device renewed its token');
    return true;
  }
}
