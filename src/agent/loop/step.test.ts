/** Proves the order of the agent's work. */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { nextStep, steps, type Marks, type StepInput, type StepKind } from './step.ts';

const quiet: Marks = {
  linksChanged: false,
  notStarted: false,
  tampered: false,
  unapplied: false,
  revokePending: false,
  judgeAt: undefined,
  revokeUrgent: false,
  unsaved: false,
  unverified: false,
  saveAt: Number.NEGATIVE_INFINITY,
  verifyAt: Number.NEGATIVE_INFINITY,
  inspectAt: 1_000,
  collectAt: undefined,
  crowded: false,
};
const at = (now: number, marks: Partial<Marks> = {}, rest: Partial<StepInput> = {}): StepInput => ({
  now,
  marks: { ...quiet, ...marks },
  notBefore: {},
  last: undefined,
  ...rest,
});
const everything: Partial<Marks> = {
  linksChanged: true,
  notStarted: true,
  tampered: true,
  unapplied: true,
  revokePending: true,
  unsaved: true,
  unverified: true,
  inspectAt: 0,
  collectAt: 0,
};

const cases: readonly [string, StepInput, StepKind | number][] = [
  ['waits for the next inspection when nothing is marked', at(0), 1_000],
  ['inspects when it is time', at(1_000), 'inspect'],
  ['collects when it is time', at(500, { collectAt: 400 }), 'collect'],
  ['waits for the earlier of two times', at(0, { collectAt: 400 }), 400],
  ['judges connections again that may have moved', at(300, { judgeAt: 200 }), 'revoke'],
  ['but not before it is time', at(0, { judgeAt: 200 }), 200],
  ['reads interfaces first', at(0, everything), 'links'],
  ['then takes up what the last run left', at(0, { ...everything, linksChanged: false }), 'start'],
  [
    'undoes foreign changes before all else',
    at(0, { ...everything, linksChanged: false, notStarted: false }),
    'repair',
  ],
  [
    'applies before it tidies up',
    at(0, { ...everything, linksChanged: false, notStarted: false, tampered: false }),
    'apply',
  ],
  [
    'ends connections before the next policy only where that was put off too often',
    at(0, { revokePending: true, revokeUrgent: true, unapplied: true }),
    'revoke',
  ],
  [
    'puts a policy in force while connections cannot be ended',
    at(0, { revokePending: true, revokeUrgent: true, unapplied: true }, { notBefore: { revoke: 300 } }),
    'apply',
  ],
  ['ends connections before it writes', at(0, { revokePending: true, unsaved: true }), 'revoke'],
  ['writes before it reads back', at(0, { unsaved: true, unverified: true }), 'save'],
  ['does not write again before it has rested', at(100, { unsaved: true, saveAt: 300 }), 300],
  ['nor reads back', at(100, { unverified: true, verifyAt: 300 }), 300],
  ['reads back before it inspects', at(2_000, { unverified: true }), 'verify'],
  ['collects before it reads back or looks', at(2_000, { collectAt: 0, unverified: true }), 'collect'],
  ['reads back before it may collect', at(0, { collectAt: 400, unverified: true }), 'verify'],
  ['but not through a crowd of old parts', at(0, { collectAt: 400, unverified: true, crowded: true }), 400],
  ['nor inspects them', at(1_000, { collectAt: 1_400, crowded: true }), 1_400],
  [
    'lets others have a turn between two repairs',
    at(0, { tampered: true, unapplied: true }, { last: 'repair' }),
    'apply',
  ],
  ['repairs again when nobody else wants a turn', at(0, { tampered: true }, { last: 'repair' }), 'repair'],
  ['waits out a failure', at(0, { unapplied: true }, { notBefore: { apply: 300 } }), 300],
  ['does other work meanwhile', at(0, { unapplied: true, unsaved: true }, { notBefore: { apply: 300 } }), 'save'],
  ['tries again after a failure', at(300, { unapplied: true }, { notBefore: { apply: 300 } }), 'apply'],
];

describe('the next step', () => {
  test.each(cases)('%s', (_, situation, expected) => {
    expect(nextStep(situation)).toEqual(
      typeof expected === 'number' ? { kind: 'wait', until: expected } : { kind: 'step', step: expected },
    );
  });

  test('is never one that waits after a failure, and a wait ends when something is due', () => {
    const time = fc.integer({ min: 0, max: 10 });
    const marks = fc.record({
      linksChanged: fc.boolean(),
      notStarted: fc.boolean(),
      tampered: fc.boolean(),
      unapplied: fc.boolean(),
      revokePending: fc.boolean(),
      revokeUrgent: fc.boolean(),
      unsaved: fc.boolean(),
      unverified: fc.boolean(),
      saveAt: time,
      verifyAt: time,
      inspectAt: time,
      collectAt: fc.option(time, { nil: undefined }),
      judgeAt: fc.option(time, { nil: undefined }),
      crowded: fc.boolean(),
    });
    const notBefore = fc.dictionary(fc.constantFrom(...steps), time);
    fc.assert(
      fc.property(time, marks, notBefore, fc.constantFrom(undefined, ...steps), (now, given, waits, last) => {
        const next = nextStep({ now, marks: given, notBefore: waits, last });
        if (next.kind === 'step') {
          expect(waits[next.step] ?? 0).toBeLessThanOrEqual(now);
          return;
        }
        expect(next.until).toBeGreaterThan(now);
        expect(nextStep({ now: next.until, marks: given, notBefore: waits, last }).kind).toBe('step');
      }),
    );
  });
});
