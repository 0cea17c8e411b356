/** Owns the lookups that every request needs first, and their batched form for callers that can wait a little. */
import type { Members } from './members.ts';
import type { Sessions } from './sessions.ts';
import type { Tokens } from './tokens.ts';
import type { Users } from './users.ts';

/** Who is asking, and what they are to an organization. No answer is older than its question. */
export interface CallerLookups {
  readonly users: Pick<Users, 'forIdentity'>;
  readonly tokens: Pick<Tokens, 'authenticate' | 'authenticateFor'>;
  readonly sessions: Pick<Sessions, 'authenticate'>;
  readonly members: Pick<Members, 'of'>;
}

/** The part of a service that batched callers use: they come in thousands and can wait some milliseconds to be answered together. */
export interface Batched<Service, Name extends keyof Service> {
  readonly batched: Pick<Service, Name>;
}
