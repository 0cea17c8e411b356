/** Owns the agent's loop: event handlers set marks, and the loop reads the marks and takes one step at a time. */
import { setImmediate } from 'node:timers/promises';
import { sleep } from '../../client/clock.ts';
import type { Observe } from '../../nft/recording.ts';
import type { OpenFlows } from '../host/open-flows.ts';
import { EndedFlows } from '../kernel/ended-flows.ts';
import { Enforcer } from '../kernel/enforcer.ts';
import { FlowRecorder, type ObservedTraffic } from '../kernel/flow-recorder.ts';
import { readCounters, saveCounters } from './counters.ts';
import { followCheck, untilCheck } from './checked-apply.ts';
import { markMonitorEvent } from './drift-response.ts';
import { followSource, followTime, refreshTarget } from './follow-source.ts';
import type { AgentOptions, Loop, Watcher } from './loop.ts';
import { PolicyClock } from './policy-clock.ts';
import { PolicyTrail } from './policy-trail.ts';
import { isUnsaved, savePolicy, saveTime } from './policy-steps.ts';
import { recorderSettings, type ObserveSettings } from '../kernel/recorder-settings.ts';
import { initialState } from './state.ts';
import { statusOf, type AgentStatus } from './status.ts';
import type { NextStep, StepKind } from './step.ts';
import { chooseStep, takeStep } from './take-step.ts';

const minute = 60_000;
/** While a rule is to expire, the time of day is looked at so often. */
const clockCheck = 5_000;

/**
 * The steps that run before everything else. The agent contacts no other party before the policy that it already knows
 * is in force, or has failed to apply.
 */
const startSteps: ReadonlySet<StepKind> = new Set(['links', 'start', 'repair', 'apply']);
const isForStart = (next: NextStep): boolean => next.kind === 'step' && startSteps.has(next.step);

export class Agent {
  readonly #loop: Loop;
  readonly #monitor: Watcher;
  readonly #recorder: FlowRecorder;
  /** What rules record without a break, and since when by the monotonic clock. */
  #recording: { readonly observed: Observe | undefined; readonly repairs: number; readonly since: number };
  /** What was in force since recorded traffic was taken. */
  #trail = new PolicyTrail();
  #wake: (() => void) | undefined;

  constructor(options: AgentOptions) {
    const { nft, random, failpoint, clock, monotonic } = options;
    const state = initialState(clock.now(), monotonic() + minute);
    const links = options.links(
      () => {
        state.linksChanged = true;
        this.#wake?.();
      },
      () => {
        if (state.judgeAt !== undefined) return;
        state.judgeAt = state.judgeRest;
        this.#wake?.();
      },
    );
    const enforcer = new Enforcer({ nft, random, ...(failpoint && { failpoint }) });
    this.#recording = { observed: undefined, repairs: 0, since: monotonic() };
    this.#recorder = new FlowRecorder({ nft, wait: (milliseconds) => sleep(clock, milliseconds) });
    const time = options.time ?? new PolicyClock({ clock, monotonic });
    const wake = (): void => this.#wake?.();
    this.#loop = { options, state, links, enforcer, time, wake, ended: new EndedFlows({ nft }) };
    this.#monitor = options.monitor((event) => {
      if (!markMonitorEvent(this.#loop, event)) return;
      // At once: a helper that hangs may hold up the step that would say so.
      this.#publish();
      this.#wake?.();
    });
  }

  /** Enforces until the signal is aborted. What is in force then stays. */
  async run({ signal }: { readonly signal: AbortSignal }): Promise<void> {
    const { state, links, options } = this.#loop;
    const { source, serverAccess } = options;
    const ends = [
      source.onChange(() => {
        state.sourceChanged = true;
        this.#wake?.();
      }),
      serverAccess?.onChange(() => this.#wake?.()),
    ];
    const onAbort = (): void => this.#wake?.();
    signal.addEventListener('abort', onAbort, { once: true });
    // As early as can be: they do not tell when they have begun to see, and nothing that happens to rules in force may be missed.
    links.start();
    this.#monitor.start();
    let following: Promise<void> | undefined;
    // A fault ends the source too. Otherwise the agent would stay connected to the server without enforcing anything.
    const fault = new AbortController();
    const ending = AbortSignal.any([signal, fault.signal]);
    try {
      while (!signal.aborted) {
        const isNew = this.#refresh();
        const next = chooseStep(this.#loop);
        if (!isForStart(next))
          following ??= source.run({ signal: ending }).catch((error: unknown) => this.#sourceEnded(error, ending));
        if (next.kind === 'wait') {
          if (isNew) this.#publish();
          serverAccess?.settled(state.target === undefined ? serverAccess.access : state.target.serverAccess);
          await this.#sleep(next.until);
        } else {
          const step = takeStep(this.#loop, next.step);
          // Work for the kernel starts first; while the kernel works, the agent publishes its status.
          if (isNew) await setImmediate().then(() => this.#publish());
          await step;
          this.#followRecording();
          this.#publish();
        }
      }
    } catch (error) {
      fault.abort();
      throw error;
    } finally {
      signal.removeEventListener('abort', onAbort);
      for (const end of ends) end?.();
      await Promise.all([links.stop(), this.#monitor.stop(), following]);
      // Deferred writes would be lost at the end, so they happen now. A write that fails here is not repeated.
      if (isUnsaved(this.#loop)) await savePolicy(this.#loop).catch(() => {});
      if (state.desired?.changesAt !== undefined) await saveTime(this.#loop).catch(() => {});
      await saveCounters(this.#loop);
    }
  }

  /** Reads the counters, for a status that is of this moment. Where they cannot be read, the totals stay. */
  count(): Promise<void> {
    return readCounters(this.#loop);
  }

  /** What the organization wants recorded and answered from now on. */
  follow(settings: ObserveSettings): void {
    const wanted = recorderSettings(settings);
    const { state } = this.#loop;
    if (wanted.observe === state.settings.observe && wanted.refuseWith === state.settings.refuseWith) return;
    state.settings = wanted;
    this.#wake?.();
  }

  /** What the kernel has recorded since the last call; nothing where no rule in force records. */
  async takeRecorded(): Promise<ObservedTraffic | undefined> {
    this.#followRecording();
    const { observed, since } = this.#recording;
    if (observed !== 'refused' && observed !== 'all') return undefined;
    const { enforcer, options, state } = this.#loop;
    const { desired } = state.inForce ?? {};
    const rules = desired?.membership?.form ?? desired?.policy ?? desired?.canonical;
    const trail = this.#trail;
    // What is recorded from now on is of the next call, also by the policy that is in force now.
    this.#trail = new PolicyTrail();
    this.#followRecording();
    try {
      const recorded = await this.#recorder.take(enforcer.recording);
      return { ...recorded, observed, recordedFor: options.monotonic() - since, rules, policies: trail };
    } catch (error) {
      this.#trail = trail;
      throw error;
    }
  }

  /** What the connections that are open now are with, as far as the policy in force admits them. */
  async openFlows(): Promise<OpenFlows> {
    const { state, options } = this.#loop;
    if (state.inForce === undefined || options.listOpen === undefined) return { tuples: [], beyond: 0 };
    const { policy, interface: name, serverAccess, forwarding } = state.inForce.target;
    const containers = forwarding === undefined ? 'ignore' : 'guard';
    return options.listOpen({ interface: name, policy, serverAccess, containers });
  }

  /** Takes our tables away. */
  remove(): Promise<void> {
    return this.#loop.enforcer.remove();
  }

  get status(): AgentStatus {
    const { selector, source, serverAccess } = this.#loop.options;
    const { connection } = source;
    const endedConnections = this.#loop.ended.size;
    const { clockOff } = this.#loop.time;
    const access = serverAccess?.access;
    const { isTrusted } = this.#loop.enforcer;
    const surroundings = { selector, connection, serverAccess: access, endedConnections, clockOff, isTrusted };
    return statusOf(this.#loop.state, surroundings);
  }

  /** Takes in what the source knows, and works out what should be in force. Answers whether the source was heard. */
  #refresh(): boolean {
    const { state } = this.#loop;
    // What the last run left comes first, or it would overwrite what the source says.
    const isHeard = state.sourceChanged && state.started;
    if (isHeard) {
      state.sourceChanged = false;
      followSource(this.#loop);
    }
    if (state.started) {
      followTime(this.#loop);
      followCheck(this.#loop);
    }
    refreshTarget(state, this.#loop.options.serverAccess?.access);
    return isHeard;
  }

  /** Other rules may record other packets, and what somebody else changed recorded nothing until it was repaired. */
  #followRecording(): void {
    const { enforcer, state, options } = this.#loop;
    const [observed, repairs] = [enforcer.target?.observe, state.driftRepairs];
    if (observed !== this.#recording.observed || repairs !== this.#recording.repairs)
      this.#recording = { observed, repairs, since: options.monotonic() };
    if (state.inForce !== undefined) this.#trail.add(state.inForce.desired.policy);
  }

  #sourceEnded(fault: unknown, signal: AbortSignal): void {
    if (signal.aborted) return;
    const message = fault instanceof Error ? fault.message : String(fault);
    this.#loop.options.log('error', `the policy source stopped; the current rules stay in force: ${message}`);
  }

  #publish(): void {
    this.#loop.options.onStatus?.(this.status);
  }

  /**
   * Milliseconds until the policy may change by time alone. The clock may be set meanwhile without notice, so the wait
   * is bounded.
   */
  #untilPolicyChanges(): number {
    const { state, time } = this.#loop;
    const changesAt = state.desired?.changesAt;
    return changesAt === undefined ? minute : Math.min(Math.max(0, changesAt - time.now()), clockCheck);
  }

  async #sleep(until: number): Promise<void> {
    const { clock, monotonic } = this.#loop.options;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        cancel();
        this.#wake = undefined;
        resolve();
      };
      const cancel = clock.after(
        Math.min(until - monotonic(), minute, this.#untilPolicyChanges(), untilCheck(this.#loop)),
        done,
      );
      this.#wake = done;
    });
  }
}
