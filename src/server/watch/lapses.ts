/** Owns the question whether those who read still may: the backstop for hints about revoked credentials and removed members. */
import type { OrganizationId, TokenId, UserId } from '../../policy/ids.ts';
import type { Head } from './source.ts';
import type { Ending, Stream } from './stream.ts';

export interface Claim {
  readonly organization_id: OrganizationId;
  readonly user_id: UserId;
  readonly token_id: TokenId | undefined;
}

export type Lapse = 'revoked' | 'removed' | undefined;

export interface LapseSource {
  /** For each claim, in order: whether its token ended or its user is no longer a member. One query. */
  lapses(claims: readonly Claim[]): Promise<readonly Lapse[]>;
}

/** Claims asked about in one query. */
const most = 5_000;

export class Lapses {
  readonly #source: LapseSource;
  readonly #end: (stream: Stream, why: Ending) => void;
  readonly #versions = new Map<OrganizationId, number>();
  /** Streams to look at with the next beat: new ones, whose right was judged a moment before they were here, and suspects. */
  #suspects = new Map<Stream, OrganizationId>();
  #credentials: number | undefined;

  constructor(options: { readonly source: LapseSource; readonly end: (stream: Stream, why: Ending) => void }) {
    this.#source = options.source;
    this.#end = options.end;
  }

  look(org: OrganizationId, stream: Stream): void {
    this.#suspects.set(stream, org);
  }

  /** A version that rose by other than revisions tells that members changed. */
  onHead(org: OrganizationId, head: Head, streams: Iterable<Stream>): void {
    const members = head.version - head.revision;
    if (this.#versions.get(org) !== members) for (const stream of streams) this.look(org, stream);
    this.#versions.set(org, members);
  }

  onCredentials(version: number, all: () => Iterable<readonly [{ readonly org: OrganizationId }, Stream]>): void {
    if (this.#credentials !== undefined && this.#credentials !== version) {
      for (const [channel, stream] of all()) this.look(channel.org, stream);
    }
    this.#credentials = version;
  }

  async check(): Promise<void> {
    const suspects = [...this.#suspects].filter(([stream]) => stream.open);
    this.#suspects = new Map();
    // Streams that were opened with one credential are asked about once.
    const claims = new Map<string, { readonly claim: Claim; readonly streams: Stream[] }>();
    for (const [stream, org] of suspects) {
      const { user, token } = stream.holder;
      const key = `${org} ${user} ${token ?? ''}`;
      const known = claims.get(key);
      if (known !== undefined) known.streams.push(stream);
      else {
        claims.set(key, { claim: { organization_id: org, user_id: user, token_id: token }, streams: [stream] });
      }
    }
    const all = [...claims.values()];
    for (let from = 0; from < all.length; from += most) {
      const part = all.slice(from, from + most);
      try {
        const lapses = await this.#source.lapses(part.map(({ claim }) => claim));
        for (const [index, { streams }] of part.entries()) {
          const lapse = lapses[index];
          if (lapse !== undefined) for (const stream of streams) this.#end(stream, lapse);
        }
      } catch (cause) {
        for (const [stream, org] of suspects) this.look(org, stream);
        throw cause;
      }
    }
  }

  forget(org: OrganizationId): void {
    this.#versions.delete(org);
  }
}
