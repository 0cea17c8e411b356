/** Owns the order of the agent's work: from what is marked and due, it chooses the next step. No side effects. */

/** Everything the agent ever does by itself. Earlier ones go first. */
export const steps = ['links', 'start', 'repair', 'apply', 'revoke', 'save', 'collect', 'verify', 'inspect'] as const;
export type StepKind = (typeof steps)[number];

/** The steps in words that an operator understands. */
export const stepWords: { readonly [K in StepKind]: string } = {
  links: 'reading the interfaces',
  start: 'reading the state of the kernel and the disk',
  repair: 'repairing changes by other programs',
  apply: 'applying the policy',
  revoke: 'ending connections without a rule',
  save: 'saving the policy for the next start',
  verify: 'reading the rules back',
  inspect: 'inspecting the kernel',
  collect: 'removing old parts',
};

/** Marks that handlers and finished steps leave behind. Times are milliseconds of the agent's clock. */
export interface Marks {
  /** Interfaces may have changed. */
  readonly linksChanged: boolean;
  /** What the last run left behind has not been taken up yet. */
  readonly notStarted: boolean;
  /** Somebody else changed our table. */
  readonly tampered: boolean;
  /** What should be in force is not. */
  readonly unapplied: boolean;
  /** A change of policy may have taken the ground from connections. */
  readonly revokePending: boolean;
  /** When connections are judged again that may have moved to the driver interface. */
  readonly judgeAt: number | undefined;
  /** It did so many times already: this is not put off again by the next one. */
  readonly revokeUrgent: boolean;
  /** What is in force is not on the disk yet. */
  readonly unsaved: boolean;
  /** What was put in force has not been read back yet. */
  readonly unverified: boolean;
  /** Both take the longer the more devices rules name, and these may come and go all the time: until when each rests. */
  readonly saveAt: number;
  readonly verifyAt: number;
  /** When to inspect the kernel without any reason. */
  readonly inspectAt: number;
  /** When old parts may be taken away. */
  readonly collectAt: number | undefined;
  /** The old parts are so many that reading the rules takes long while they are there. */
  readonly crowded: boolean;
}

/** When each step failed last, it waits until then. */
export type NotBefore = { readonly [K in StepKind]?: number };

export interface StepInput {
  readonly now: number;
  readonly marks: Marks;
  readonly notBefore: NotBefore;
  /** The step taken last: repairing without end must not keep everything else from its turn. */
  readonly last: StepKind | undefined;
}

const whenMarked = (marked: boolean): number | undefined => (marked ? Number.NEGATIVE_INFINITY : undefined);

/** Nothing can be put in force while the kernel is read, so a long reading waits until the old parts are gone. */
const unlessCrowded = (at: number, { crowded, collectAt = at }: Pick<Marks, 'crowded' | 'collectAt'>): number =>
  crowded ? Math.max(at, collectAt) : at;

/** Where withdrawn connections must not wait for the next policy, too. */
const revokeFirst: readonly StepKind[] = [
  ...steps.slice(0, steps.indexOf('apply')),
  'revoke',
  ...steps.slice(steps.indexOf('apply')).filter((step) => step !== 'revoke'),
];

/** From when on each step is due; never, where there is no answer. */
const due: { readonly [K in StepKind]: (marks: Marks) => number | undefined } = {
  links: ({ linksChanged }) => whenMarked(linksChanged),
  start: ({ notStarted }) => whenMarked(notStarted),
  repair: ({ tampered }) => whenMarked(tampered),
  apply: ({ unapplied }) => whenMarked(unapplied),
  revoke: ({ revokePending, judgeAt }) => whenMarked(revokePending) ?? judgeAt,
  save: ({ unsaved, saveAt }) => (unsaved ? saveAt : undefined),
  collect: ({ collectAt }) => collectAt,
  verify: ({ unverified, verifyAt, ...garbage }) => (unverified ? unlessCrowded(verifyAt, garbage) : undefined),
  inspect: ({ inspectAt, ...garbage }) => unlessCrowded(inspectAt, garbage),
};

export type NextStep =
  | { readonly kind: 'step'; readonly step: StepKind }
  | { readonly kind: 'wait'; readonly until: number };

/** The step to take now, or until when there is nothing to do unless something is marked. */
export function nextStep({ now, marks, notBefore, last }: StepInput): NextStep {
  let until = Number.POSITIVE_INFINITY;
  let repair = false;
  for (const step of marks.revokeUrgent ? revokeFirst : steps) {
    const from = due[step](marks);
    if (from === undefined) continue;
    const at = Math.max(from, notBefore[step] ?? Number.NEGATIVE_INFINITY);
    if (at > now) until = Math.min(until, at);
    else if (step === 'repair' && last === 'repair') repair = true;
    else return { kind: 'step', step };
  }
  return repair ? { kind: 'step', step: 'repair' } : { kind: 'wait', until };
}
