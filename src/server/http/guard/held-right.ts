/** Owns the right behind a held answer: the wait ends when the right ends (reference 5 (15)). */
import type { OrganizationId } from '../../../policy/ids.ts';
import type { Principal } from '../../identity/authenticate.ts';
import type { Hint } from '../../store/data/change-log.ts';
import type { Store } from '../../store/open.ts';
import type { AdmittedRequest } from '../call.ts';
import { HttpError } from '../../problems.ts';

/** So often the right is looked at without a hint: one may be lost, and a credential may expire. */
const lookMs = 10_000;

export interface HeldRightOptions {
  readonly log: Pick<Store['log'], 'onHint'>;
  /** Judges the request again, as the guard did. */
  readonly admit: () => Promise<AdmittedRequest>;
}

function isAbout(hint: Hint, { user_id, ...principal }: Principal, org: OrganizationId | undefined): boolean {
  const token = principal.kind === 'enrollment' ? undefined : principal.token_id;
  return (
    (token !== undefined && hint.credentials.includes(token)) ||
    hint.removed_members.some((one) => one.user_id === user_id && one.organization_id === org) ||
    hint.deleted_organizations.some((deleted) => deleted === org)
  );
}

const meansNo = (error: unknown): boolean => error instanceof HttpError && [401, 403, 404].includes(error.status);

/** Watches the right of a request that was let in, from now until `end`. */
export class HeldRight {
  readonly #admit: () => Promise<AdmittedRequest>;
  readonly #ended = new AbortController();
  readonly #timer: NodeJS.Timeout;
  readonly #stopHints: () => void;

  constructor({ principal, variables }: AdmittedRequest, { log, admit }: HeldRightOptions) {
    this.#admit = admit;
    const look = (): void => void this.check().catch(() => {});
    this.#stopHints = log.onHint((hint) => {
      if (isAbout(hint, principal, variables.org_id)) look();
    });
    this.#timer = setInterval(look, lookMs);
    // It may have ended between the guard and this moment.
    look();
  }

  /** Aborted, with the answer as its reason, when the right has ended. */
  get signal(): AbortSignal {
    return this.#ended.signal;
  }

  /** Fails with the answer when the right has ended. A right that cannot be checked right now counts as valid. */
  async check(): Promise<void> {
    this.#ended.signal.throwIfAborted();
    try {
      await this.#admit();
    } catch (error) {
      if (!meansNo(error)) return;
      this.#ended.abort(error);
      throw error;
    }
  }

  end(): void {
    clearInterval(this.#timer);
    this.#stopHints();
  }
}
