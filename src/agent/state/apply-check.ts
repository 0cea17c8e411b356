/** Owns the record of a checked apply, and its text for the next start. */
import { parseInterfaceName } from '../../nft/names.ts';
import { field, isObject } from '../../policy/json.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import { parseLastGoodPolicy, printLastGoodPolicy } from './last-good-policy.ts';

/** A policy that can come back. */
export interface RestorablePolicy {
  readonly policy: EffectivePolicy;
  readonly revision: number | undefined;
}

/** A policy under which the server could not be reached. */
export interface RefusedPolicy extends RestorablePolicy {
  /** When it was given up, in milliseconds since the epoch. */
  readonly at: number;
}

/**
 * `checking`: a new policy is in force, and no new connection to the server has succeeded under it yet. `restoring`: the policy before is in
 * force again, to find out whether the server can be reached under it. `reverted`: it can, so the new policy stays refused until the next change.
 * `since` is of the monotonic clock, and absent until the policy that is to be tried is in force.
 */
export type ApplyCheck =
  | {
      readonly kind: 'checking';
      readonly before: RestorablePolicy;
      /** The fingerprint of the new policy. */
      readonly checked: string;
      readonly since: number | undefined;
    }
  | {
      readonly kind: 'restoring';
      readonly before: RestorablePolicy;
      readonly refused: RefusedPolicy;
      readonly since: number | undefined;
    }
  | { readonly kind: 'reverted'; readonly refused: RefusedPolicy };

/** A policy is written as the last good one is, with a checksum; where it was in force does not matter here. */
const anyInterface = { interface: parseInterfaceName('any'), neighbourDiscovery: false };

const printPolicy = ({ policy, revision = 0 }: RestorablePolicy): string =>
  printLastGoodPolicy({ policy, revision, ...anyInterface });

function parsePolicy(text: unknown): RestorablePolicy {
  const { policy, revision } = parseLastGoodPolicy(typeof text === 'string' ? text : '');
  return { policy, revision };
}

export const printApplyCheck = (check: ApplyCheck): string =>
  `${JSON.stringify({
    kind: check.kind,
    ...('checked' in check && { checked: check.checked }),
    ...('before' in check && { before: printPolicy(check.before) }),
    ...('refused' in check && { refused: printPolicy(check.refused), at: check.refused.at }),
  })}\n`;

/** Undefined where the text is incomplete: then the policy to go back to is unknown. */
export function parseApplyCheck(text: string): ApplyCheck | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (!isObject(value)) return undefined;
    const before = (): RestorablePolicy => parsePolicy(field(value, 'before'));
    const at = field(value, 'at');
    const refused = () => ({ ...parsePolicy(field(value, 'refused')), at: typeof at === 'number' ? at : 0 });
    switch (field(value, 'kind')) {
      case 'checking':
        return { kind: 'checking', before: before(), checked: String(field(value, 'checked')), since: undefined };
      case 'restoring':
        return { kind: 'restoring', before: before(), refused: refused(), since: undefined };
      case 'reverted':
        return { kind: 'reverted', refused: refused() };
      default:
        return undefined;
    }
  } catch {
    return undefined;
  }
}
