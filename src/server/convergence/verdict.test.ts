/** Proves the definition of "in force": a full table of receipts against changes, and that no device counts as in force without proof. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { digestForm } from '../../policy/digest/digest-form.ts';
import { graceMs, phasesAround, samePhasesUntil } from './phases.ts';
import type { Receipt } from './receipt.ts';
import { inForceUpTo, isUnreported, verdictOf, type VerdictInput } from './verdict.ts';

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
const reported = Date.UTC(2026, 0, 1);
const input: VerdictInput = {
  revision: 30,
  head: 30,
  policyChanges,
  receipt: receipt({}),
  online: true,
  digestOf,
  now: reported,
};

/** A rule expires an hour after the report, and another one an hour later. */
const hour = 3_600_000;
const moments = [reported + hour, reported + 2 * hour];
const timed: Partial<VerdictInput> = {
  policyChanges: [{ revision: 20, key: 'b', moments }],
  digestOf: (phase) => `digest of ${phase.replace(/\nat (\d+)/, (_, at) => ` ${(Number(at) - reported) / hour}`)}`,
};
const seenAt = (now: number, given: Partial<Receipt> = {}): Partial<VerdictInput> => ({
  ...timed,
  now: reported + now,
  receipt: receipt(given),
});
/** A report in the phase after the first expiry, this long after the first report. */
const later = (ms: number, digest = 'digest of b 1'): Partial<Receipt> => ({
  digest,
  reported_at: new Date(reported + ms).toISOString(),
});

const early = (digest: string): Receipt => receipt({ revision: 12, digest });
/** The server began to look when this was there already. */
const loaded: Partial<VerdictInput> = {
  policyChanges: [{ revision: 25, key: 'b', atLatest: true }],
  receipt: early('digest of b'),
};

const ending = (timedAt: number): Partial<VerdictInput> => ({
  ...loaded,
  policyChanges: [{ revision: 25, key: 'b', atLatest: true, timedAt }],
});

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
  ['the same, where time ends something since the revision of its report', { ...ending(12), online: false }, 'yes'],
  ['the same, where that was written later: it may not know', { ...ending(13), online: false }, 'offline'],
  ['the same, where that was written later, and it is connected', { ...ending(13), online: true }, 'yes'],
  ['the right rules and a clock that is off', { receipt: receipt({ code: 'clock_off' }) }, 'yes', 'clock_off'],
  ['rules of which one expires later', seenAt(0), 'yes'],
  ['rules of which one expired a moment ago', seenAt(hour + graceMs - 1), 'yes'],
  ['rules of which one expired a while ago', seenAt(hour + graceMs), 'behind', 'expiry_unreported'],
  ['rules of which one has expired since it went away', { ...seenAt(hour + graceMs), online: false }, 'yes'],
  ['the rules that are left', seenAt(hour + graceMs, later(hour)), 'yes'],
  ['the rules that are left, somewhat early', seenAt(hour, later(hour - graceMs)), 'yes'],
  ['the rules that are left, much too early', seenAt(hour, later(hour - graceMs - 1)), 'failed', 'digest_differs'],
  ['a rule that expired a while before', seenAt(2 * hour, later(hour + graceMs, 'digest of b')), 'failed'],
  ['the same, and away since', { ...seenAt(2 * hour, later(hour + graceMs, 'digest of b')), online: false }, 'failed'],
  ['two phases ago, away since', { ...seenAt(5 * hour), online: false }, 'yes'],
  ['two phases ago, connected', seenAt(5 * hour), 'behind', 'expiry_unreported'],
  ['other rules while one expires', seenAt(hour, later(hour, 'x')), 'failed', 'digest_differs'],
  [
    'rules whose phase nobody has worked out',
    { ...seenAt(hour), digestOf: (phase) => (phase === 'b' ? undefined : 'digest of b 1') },
    'behind',
  ],
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
        const given = {
          revision,
          head: 40,
          policyChanges: changes,
          receipt: receipt(said),
          online,
          digestOf,
          now: reported,
        };
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

test('while a device is connected and away it is judged alike, except where a rule has expired and it has not said so', () => {
  for (const [given, unreported] of [
    [{}, false],
    [seenAt(hour), false],
    [seenAt(hour + graceMs), true],
    [seenAt(hour + graceMs, later(hour)), false],
  ] as const) {
    expect(isUnreported({ ...input, ...given })).toBe(unreported);
  }
});

test('the phases that a device may be in change only at the times that are told', () => {
  const policy = { key: 'b', moments: [1_000_000, 1_000_050, 2_000_000, 2_150_000] };
  const seen = (time: number): string => JSON.stringify(phasesAround(policy, time));
  let until = 0;
  for (let time = 0; time < 2_500_000; time += 1_000) {
    if (time === 0 || time >= until) until = samePhasesUntil(policy, time);
    else expect(seen(time)).toBe(seen(time - 1_000));
  }
  expect(until).toBe(Number.POSITIVE_INFINITY);
  expect(phasesAround(policy, 5_000_000)).toEqual([{ key: 'b\nat 2150000', at: 2_150_000 }]);
  expect(phasesAround({ key: 'b' }, 7)).toEqual([{ key: 'b', at: Number.NEGATIVE_INFINITY }]);
});
