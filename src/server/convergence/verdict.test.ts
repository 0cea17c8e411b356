/** Proves the rule of what in force means: a full table of receipts against changes, and that nothing unproven is ever called in force. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { digestForm } from '../../policy/digest/digest-form.ts';
import type { Receipt } from './receipt.ts';
import { inForceUpTo, verdictOf, type VerdictInput } from './verdict.ts';

const policyChanges = [
  { revision: 10, key: 'a' },
  { revision: 20, key: 'b' },
];
const digestOf = (key: string): string | undefined => (key === 'gone' ? undefined : `digest of ${key}`);
const receipt = (given: Partial<Receipt>): Receipt => ({
  state: 'applied',
  revision: 20,
  observed: undefined,
  digest: 'digest of b',
  digestForm,
  code: undefined,
  detail: undefined,
  reported_at: '2026-01-01T00:00:00.000Z',
  status: {},
  ...given,
});
const input: VerdictInput = { revision: 30, head: 30, policyChanges, receipt: receipt({}), online: true, digestOf };

const early = (digest: string): Receipt => receipt({ revision: 12, digest });
/** The server began to look when this was there already. */
const loaded: Partial<VerdictInput> = {
  policyChanges: [{ revision: 25, key: 'b', atLatest: true }],
  receipt: early('digest of b'),
};

test.each<[string, Partial<VerdictInput>, string, string?]>([
  ['the newest change with the right digest', {}, 'yes'],
  ['the same, and away since', { online: false }, 'yes'],
  ['a later revision that changed nothing for it', { receipt: receipt({ revision: 29 }) }, 'yes'],
  ['the right revision with another digest', { receipt: receipt({ digest: 'x' }) }, 'failed', 'digest_differs'],
  ['the same, and away since: failed is not hidden', { online: false, receipt: receipt({ digest: 'x' }) }, 'failed'],
  ['an older revision', { receipt: receipt({ revision: 19, digest: 'digest of a' }) }, 'behind'],
  ['an older revision, and away', { online: false, receipt: receipt({ revision: 19 }) }, 'offline'],
  [
    'an older revision with the digest of the newest: A, B and A again',
    { receipt: receipt({ revision: 19 }) },
    'behind',
  ],
  [
    'what was asked, before a later change',
    { revision: 15, receipt: receipt({ revision: 12, digest: 'digest of a' }) },
    'yes',
  ],
  ['what was asked, in other rules', { revision: 15, receipt: receipt({ revision: 12, digest: 'x' }) }, 'failed'],
  ['more than what was asked', { revision: 15 }, 'yes'],
  ['a revision that does not exist yet: another history', { receipt: receipt({ revision: 31 }) }, 'behind'],
  ['no digest: an agent of an earlier version', { receipt: receipt({ digest: undefined }) }, 'behind', 'no_digest'],
  ['a digest of an older form', { receipt: receipt({ digestForm: 1 }) }, 'behind', 'digest_form'],
  ['another digest, of an older form', { receipt: receipt({ digestForm: 1, digest: 'x' }) }, 'behind', 'digest_form'],
  ['a digest of a newer form', { receipt: receipt({ digestForm: digestForm + 1 }) }, 'behind', 'digest_form'],
  ['a digest of an older form, and away', { online: false, receipt: receipt({ digestForm: 1 }) }, 'offline'],
  ['no revision', { receipt: receipt({ revision: undefined }) }, 'behind'],
  ['an agent that starts', { receipt: receipt({ state: 'starting' }) }, 'behind'],
  ['a failure', { receipt: receipt({ state: 'failed', code: 'nft' }) }, 'failed', 'nft'],
  ['a failure, away since', { online: false, receipt: receipt({ state: 'failed' }) }, 'failed'],
  ['what it does not understand', { receipt: receipt({ state: 'failed', code: 'not_understood' }) }, 'not_understood'],
  ['a policy put back', { receipt: receipt({ state: 'reverted' }) }, 'reverted'],
  ['nothing, ever', { receipt: undefined, online: undefined }, 'never_seen'],
  ['nothing yet, but it is connected', { receipt: undefined, online: true }, 'behind'],
  ['nothing, and it was connected once', { receipt: undefined, online: false }, 'offline'],
  ['the right rules for an earlier revision, away since before the server looked', { ...loaded, online: false }, 'yes'],
  ['the same, and it is connected', { ...loaded, online: true }, 'yes'],
  ['other rules for an earlier revision, connected', { ...loaded, online: true, receipt: early('x') }, 'behind'],
  ['other rules for an earlier revision, away', { ...loaded, online: false, receipt: early('x') }, 'offline'],
  ['a policy whose digest is no longer known', { policyChanges: [{ revision: 5, key: 'gone' }] }, 'behind'],
])('a device that reported %s is %3$s', (_, given, word, code) => {
  const verdict = verdictOf({ ...input, ...given });
  expect(verdict.in_force).toBe(word);
  if (code !== undefined) expect(verdict.code).toBe(code);
});

test('in force is said only of a receipt that reflects the newest change up to the revision, with its digest', () => {
  const revisions = fc.integer({ min: 0, max: 40 });
  const states = fc.constantFrom('starting', 'applied', 'failed', 'reverted' as const);
  const forms = fc.constantFrom(1, digestForm, digestForm, digestForm);
  const keys = fc.constantFrom('a', 'b', 'c', 'gone');
  fc.assert(
    fc.property(
      fc.uniqueArray(revisions, { minLength: 1, maxLength: 6 }),
      fc.array(keys, { minLength: 6, maxLength: 6 }),
      fc.record({
        state: states,
        revision: revisions,
        digestForm: forms,
        digest: keys.map((key) => `digest of ${key}`),
      }),
      revisions,
      fc.boolean(),
      (at, names, said, revision, online) => {
        const changes = at.toSorted((a, b) => a - b).map((one, index) => ({ revision: one, key: names[index] ?? 'a' }));
        const given = { revision, head: 40, policyChanges: changes, receipt: receipt(said), online, digestOf };
        const loadedFirst = changes.map((change, index) => ({ ...change, ...(index === 0 && { atLatest: true }) }));
        for (const one of [given, { ...given, policyChanges: loadedFirst }]) {
          expect(verdictOf(one).in_force === 'yes').toBe(revision <= inForceUpTo(one));
        }
        if (verdictOf(given).in_force !== 'yes') return;
        const needed = changes.findLast((change) => change.revision <= revision) ?? changes[0];
        expect([said.state, said.digestForm]).toEqual(['applied', digestForm]);
        expect(said.revision).toBeGreaterThanOrEqual(needed?.revision ?? Number.POSITIVE_INFINITY);
        const reflected = changes.findLast((change) => change.revision <= said.revision);
        expect(said.digest).toBe(digestOf(reflected?.key ?? 'gone'));
      },
    ),
  );
});
