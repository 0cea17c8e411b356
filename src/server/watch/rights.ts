/**
 * Owns which rights have ended. Endings arrive by hint or, when a hint is lost, with every read of the heads. The hub
 * acts on each ending once, for the streams that are open or about to open.
 */
import type { OrganizationId, TokenId, UserId } from '../../policy/ids.ts';
import type { EndedRight, Heads, Hint } from '../store/data/change-log.ts';
import type { StreamEndReason, Holder } from './stream.ts';

const memberKey = (org: OrganizationId, user: UserId): string => `${org} ${user}`;

/** How long an ending is remembered for requests that were admitted before it and become streams after it. */
const rememberMs = 120_000;

/** Rights that have just ended. */
export interface EndedRights {
  readonly tokens: readonly TokenId[];
  readonly members: readonly { readonly organization_id: OrganizationId; readonly user_id: UserId }[];
}

export class Rights {
  /** Endings that came with the last read; the next may bring some of them again. */
  #known = new Set<number>();
  /** When the end of a right was last heard of, oldest first. */
  readonly #heard = new Map<string, number>();

  fromHint(hint: Hint, now: number): EndedRights {
    return this.#note({ tokens: hint.credentials, members: hint.removed_members }, now);
  }

  /** Those that were not known already. */
  fromHeads({ ended }: Heads, now: number): EndedRights {
    const unknown = ended.filter(({ serial }) => !this.#known.has(serial));
    this.#known = new Set(ended.map(({ serial }) => serial));
    return this.#note({ tokens: unknown.flatMap(tokenOf), members: unknown.flatMap(memberOf) }, now);
  }

  /** For a stream that is being opened: whether its right ended after its request came in, when it may have been judged already. */
  since(org: OrganizationId, { token, user }: Holder, admittedAt: number): StreamEndReason | undefined {
    if (token !== undefined && (this.#heard.get(token) ?? 0) >= admittedAt) return 'revoked';
    return (this.#heard.get(memberKey(org, user)) ?? 0) >= admittedAt ? 'removed' : undefined;
  }

  #note(ended: EndedRights, now: number): EndedRights {
    for (const token of ended.tokens) this.#remember(token, now);
    for (const one of ended.members) this.#remember(memberKey(one.organization_id, one.user_id), now);
    for (const [key, at] of this.#heard) {
      if (now - at <= rememberMs) break;
      this.#heard.delete(key);
    }
    return ended;
  }

  #remember(key: string, now: number): void {
    this.#heard.delete(key);
    this.#heard.set(key, now);
  }
}

const tokenOf = (one: EndedRight): readonly TokenId[] => ('token_id' in one ? [one.token_id] : []);
const memberOf = (one: EndedRight): EndedRights['members'] => ('user_id' in one ? [one] : []);
