/**
 * Owns the steps that establish the starting state: which interface the agent guards, and what the last run left
 * behind.
 */
import { chooseDriver, type Driver, type Note, type Selector } from '../host/driver-interface.ts';
import { policyAt } from '../../policy/time/policy-at.ts';
import type { LastGoodPolicy } from '../state/last-good-policy.ts';
import type { SavedTime } from '../state/saved-time.ts';
import { installedSettings } from '../kernel/recorder-settings.ts';
import { readCounters } from './counters.ts';
import { resumeCheck } from './checked-apply.ts';
import type { DesiredPolicy } from './desired-policy.ts';
import type { Loop } from './loop.ts';
import { jitter } from './policy-clock.ts';
import { startingPolicy } from './starting-policy.ts';
import { markUncheckedFlows } from './unchecked-flows.ts';

/** Reads the interfaces, whether the device forwards between them, and chooses the driver interface among them. */
export async function readLinks(loop: Loop): Promise<void> {
  const { state, links, options } = loop;
  const { selector, log, forwarding } = options;
  state.linksChanged = false;
  state.forwarding = await forwarding?.();
  try {
    const before = state.driver;
    const { driver, notes } = chooseDriver(selector, await links.read(), before);
    state.driver = driver;
    const isOther = driver?.index !== before?.index || driver?.name !== before?.name;
    if (before !== undefined && driver?.index !== undefined && isOther) markUncheckedFlows(loop);
    noteMaster(loop, driver);
    for (const note of notes) log(note.kind === 'renamed' ? 'warn' : 'info', sentence(note));
  } catch (error) {
    state.linksChanged = true;
    state.driver ??= chooseDriver(selector, [], undefined).driver;
    throw error;
  }
}

/**
 * Reports an interface whose traffic passes our rules by. The agent leaves the interface that takes it alone: its rules are for the driver
 * interface only (reference 1.2 (1)). Once the interface is free again, whatever came in meanwhile is judged.
 */
function noteMaster(loop: Loop, driver: Driver | undefined): void {
  const { state, options } = loop;
  const { clock, log, monotonic } = options;
  const { enslaved: before } = state;
  const message =
    driver?.master === undefined
      ? undefined
      : `${driver.master} receives the traffic of ${driver.name}: rules for ${driver.name} have no effect`;
  if (before?.message === message) return;
  if (message !== undefined && driver?.master !== undefined) {
    const advice = `separate ${driver.name} from ${driver.master}, or start the agent with --interface ${driver.master}`;
    state.enslaved = { step: 'links', message, code: 'interface_enslaved', advice, at: clock.now() };
    state.lastError = state.enslaved;
    log('error', `the policy is not in force: ${message} (${advice})`, { code: 'interface_enslaved' });
    return;
  }
  state.enslaved = undefined;
  markUncheckedFlows(loop);
  state.inspectAt = monotonic();
  log('info', 'the driver interface receives its own traffic again; the policy is in force');
}

/** Takes up what the disk and the kernel hold, so that it is in force before anybody is asked. */
export async function takeUpLastRun(loop: Loop): Promise<void> {
  const { state, enforcer, options, time } = loop;
  const { state: folder, untilFirstPolicy, log, selector } = options;
  const absent = { kind: 'absent' } as const;
  const [lastGood, intent] = [
    (await folder?.readPolicy('policy')) ?? absent,
    (await folder?.readPolicy('intent')) ?? absent,
  ];
  if (lastGood.kind === 'found') state.driver = driverLastTime(state.driver, selector, lastGood.record);
  const kernel = await enforcer.read();
  if (enforcer.installed !== undefined) state.settings = installedSettings(enforcer.installed);
  // Rules that were there have judged what there is, but perhaps not all the time, and the last run may have ended before it dealt with the connections.
  markUncheckedFlows(loop);
  // Before anything is put in force: counters that are not there now will begin anew.
  if (folder !== undefined) state.totals = await folder.readCounterTotals();
  if (kernel !== undefined) await readCounters(loop);
  const unwritable = await folder?.whyUnwritable();
  // The clock may have been set back since: what had expired by then stays so.
  const savedTime = await folder?.readTime();
  if (savedTime !== undefined) {
    time.resume(savedTime);
    state.savedTime = { ...state.savedTime, offset: savedTime.offset };
  }
  for (const stored of [lastGood, intent])
    if (stored.kind === 'found') resumeTime(loop, stored.record, savedTime ?? { time: 0, offset: 0 });
  const start = startingPolicy({ lastGood, intent, kernel, unwritable, untilFirstPolicy, moment: time.moment });
  const { desired, record, lost, notes } = start;
  state.desired = desired;
  // Where rules have expired since, it is saved again: the file says which moment the kernel's rules are of.
  if (lastGood.kind === 'found' && record === lastGood.record && !hasChanged(record, desired)) {
    state.saved = { policy: desired?.policy, interface: record.interface };
  }
  const check = options.checkedApply && (await folder?.readCheck());
  state.savedCheck = check;
  if (check !== undefined) resumeCheck(state, check, time.moment);
  state.lost = lost && { step: 'start', ...lost, at: options.clock.now() };
  state.lastError = state.lost ?? state.lastError;
  state.started = true;
  for (const note of notes) log('warn', note);
  if (lost !== undefined) log('error', lost.message, { code: lost.code });
}

/**
 * The time is no earlier than when the policy was saved, until the server has answered. A clock that shows less than the last run knew was set back, and nobody can tell for how
 * long a change that is being tried still has: then it has ended, until the server says otherwise.
 */
function resumeTime({ time, options }: Loop, { policy, at = 0 }: LastGoodPolicy, saved: SavedTime): void {
  time.resume({ time: at, offset: saved.offset });
  const shown = options.clock.now() + Math.max(0, saved.offset);
  if (shown + jitter >= Math.max(at, saved.time)) return;
  for (let { next } = policy; next !== undefined; { next } = next.policy) time.presume(next.at);
}

/** Whether time has changed the policy since it was saved. */
function hasChanged({ policy, at = 0 }: LastGoodPolicy, desired: DesiredPolicy | undefined): boolean {
  return (policyAt(policy, at).changesAt ?? Number.POSITIVE_INFINITY) <= (desired?.at ?? 0);
}

/** The interface as it was last time, where its current state is unknown: it may come back under its name. */
function driverLastTime(
  driver: Driver | undefined,
  selector: Selector,
  { interface: name, neighbourDiscovery }: LastGoodPolicy,
): Driver | undefined {
  const isUnknown = driver === undefined ? selector.kind === 'pattern' : driver.index === undefined;
  if (!isUnknown || (driver !== undefined && driver.name !== name)) return driver;
  return { name, index: undefined, neighbourDiscovery };
}

function sentence(note: Note): string {
  switch (note.kind) {
    case 'renamed':
      return `the driver interface was renamed from ${note.from} to ${note.to}; the policy follows it`;
    case 'replaced':
      return `the configured name belongs to another interface now; the policy no longer applies to ${note.now}`;
    case 'several':
      return `the pattern matches several interfaces; the policy applies to ${note.chosen}, not to ${note.others.join(', ')}`;
    case 'gone':
      return `the interface ${note.name} disappeared; its rules stay and apply when it returns`;
    default:
      return note satisfies never;
  }
}
