/** Owns one turn of the loop: it chooses the next step, runs it, and survives its failure. */
import { adviceFor } from './advice.ts';
import type { Loop } from './loop.ts';
import { isUrgent } from './pending-revocation.ts';
import { applyPolicy, isJudging, isUnsaved, revokeConnections, savePolicy } from './policy-steps.ts';
import { readLinks, takeUpLastRun } from './start-steps.ts';
import { isCheckDue, isPending } from './state.ts';
import { nextStep, stepWords, type NextStep, type NotBefore, type StepKind } from './step.ts';
import { collectGarbage, inspectTable, repairTable, verifyTable } from './table-steps.ts';

/** Reading the kernel takes longer with each old part; from so many on it is worth waiting until they are gone. */
const crowd = 200;
const firstWait = 250;
const longestWait = 30_000;
/** A step that fails may take a fifth of the time: the longer it takes, the longer it waits. */
const waitPerWork = 4;
const longestRest = 30 * 60_000;

/** Work that grows with the number of devices rests so many times as long as it took; never so long that people would wait for it. */
const restPerWork = 4;
const longestWorkRest = 2_000;

const actions: { readonly [K in StepKind]: (loop: Loop) => Promise<void> } = {
  links: readLinks,
  start: takeUpLastRun,
  repair: repairTable,
  apply: applyPolicy,
  revoke: revokeConnections,
  save: savePolicy,
  verify: verifyTable,
  inspect: inspectTable,
  collect: collectGarbage,
};

export function chooseStep(loop: Loop): NextStep {
  const { state, enforcer, options } = loop;
  const notBefore: NotBefore = Object.fromEntries([...state.failures].map(([step, each]) => [step, each.notBefore]));
  return nextStep({
    now: options.monotonic(),
    last: state.lastStep,
    notBefore,
    marks: {
      linksChanged: state.linksChanged,
      notStarted: !state.started,
      tampered: state.tableChange !== undefined || state.endedChanged,
      unapplied: state.started && state.target !== undefined && isPending(state),
      revokePending:
        state.inForce !== undefined &&
        (state.endedStale || (options.revoke !== undefined && (state.revocation !== undefined || isCheckDue(state)))),
      judgeAt: isJudging(loop) ? state.judgeAt : undefined,
      revokeUrgent: isUrgent(state.revocation),
      unsaved: isUnsaved(loop),
      unverified: state.unverified,
      saveAt: state.saveAt,
      verifyAt: state.verifyAt,
      inspectAt: state.inspectAt,
      collectAt: state.collectAt,
      crowded: enforcer.garbage > crowd,
    },
  });
}

/** Takes the step. If it fails, the rules stay as they are, and it is tried again after a growing wait, or for a new target. */
export async function takeStep(loop: Loop, step: StepKind): Promise<void> {
  const { state, options } = loop;
  const { log, monotonic } = options;
  const from = monotonic();
  state.lastStep = step;
  try {
    await actions[step](loop);
    noteRest(loop, step, from);
    if (state.failures.delete(step)) log('info', `${stepWords[step]} succeeds again`);
  } catch (error) {
    noteFailure(loop, step, error, monotonic() - from);
  }
}

function noteRest({ state, options: { monotonic } }: Loop, step: StepKind, from: number): void {
  if (step !== 'save' && step !== 'verify') return;
  const now = monotonic();
  state[`${step}At`] = now + Math.min((now - from) * restPerWork, longestWorkRest);
}

function noteFailure({ state, options }: Loop, step: StepKind, error: unknown, took: number): void {
  const { log, clock, monotonic, random } = options;
  const message = error instanceof Error ? error.message : String(error);
  const before = state.failures.get(step);
  const count = (before?.count ?? 0) + 1;
  const backoff = Math.min(firstWait * 2 ** (count - 1), longestWait);
  const wait = Math.max(backoff, Math.min(took * waitPerWork, longestRest)) * (0.75 + random() / 2);
  const known = adviceFor(error);
  const trouble = { step, message, at: clock.now(), ...known };
  state.failures.set(step, { count, notBefore: monotonic() + wait, trouble });
  state.lastError = trouble;
  if (before?.trouble.message === message) return;
  const { code, advice } = known;
  const next =
    wait < longestWait ? 'trying again' : `trying again in ${Math.round(wait / 1_000)} s, or at the next change`;
  const help = advice === undefined ? '' : ` (${advice})`;
  log('error', `${stepWords[step]} failed; the current rules stay in force; ${next}: ${message}${help}`, { code });
}
