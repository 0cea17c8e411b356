/**
 * Owns the question whether those who read still may. Rights end by hint or, when that is lost, by the list of lately ended
 * rights that comes with every look at the heads; each ending is acted upon once, on the streams that were there or on their way.
 */
import type { OrganizationId, TokenId, UserId } from '../../policy/ids.ts';
import type { Ended, Hint } from '../store/contract/change-log.ts';
import type { Ending, Holder } from './stream.ts';

const memberKey = (org: OrganizationId, user: UserId): string => `${org} ${user}`;

/** How long an ending is remembered for requests that were admitted before it and become streams after it. */
const rememberMs = 120_000;

/** What has just ended; undefined for a stream that it does not concern. */
export type Verdict = (org: OrganizationId, holder: Holder) => Ending | undefined;

export class Rights {
  /** Endings that came with the heads and were acted upon. */
  #known = new Set<number>();
  /** When the end of a right was last heard of. */
  readonly #heard = new Map<string, number>();

  /** From a hint; undefined when it ends no right. */
  fromHint(hint: Hint, now: number): Verdict | undefined {
    return this.#note(hint.credentials, hint.removed_members, now);
  }

  /** From the heads; undefined when all of it was known. */
  fromHeads(ended: readonly Ended[], now: number): Verdict | undefined {
    const fresh = ended.filter(({ serial }) => !this.#known.has(serial));
    this.#known = new Set(ended.map(({ serial }) => serial));
    for (const [key, at] of this.#heard) if (now - at > rememberMs) this.#heard.delete(key);
    return this.#note(
      fresh.flatMap((one) => ('token_id' in one ? [one.token_id] : [])),
      fresh.flatMap((one) => ('user_id' in one ? [one] : [])),
      now,
    );
  }

  /** For a stream that is being opened: whether its right ended after its request came in, when it may have been judged already. */
  since(org: OrganizationId, holder: Holder, admittedAt: number): Ending | undefined {
    const { token, user } = holder;
    if (token !== undefined && (this.#heard.get(token) ?? 0) >= admittedAt) return 'revoked';
    return (this.#heard.get(memberKey(org, user)) ?? 0) >= admittedAt ? 'removed' : undefined;
  }

  #note(
    tokens: readonly TokenId[],
    members: readonly { readonly organization_id: OrganizationId; readonly user_id: UserId }[],
    now: number,
  ): Verdict | undefined {
    if (tokens.length === 0 && members.length === 0) return undefined;
    const endedTokens = new Set(tokens);
    const endedMembers = new Set(members.map((one) => memberKey(one.organization_id, one.user_id)));
    for (const key of [...endedTokens, ...endedMembers]) this.#heard.set(key, now);
    return (org, { token, user }) => {
      if (token !== undefined && endedTokens.has(token)) return 'revoked';
      return endedMembers.has(memberKey(org, user)) ? 'removed' : undefined;
    };
  }
}
