/** Owns the steps that find out where the agent stands: which interface it guards, and what the last run left behind. */
import { chooseDriver, type Driver, type Note, type Selector } from '../host/driver-interface.ts';
import type { LastGoodPolicy } from '../state/last-good-policy.ts';
import { readCounters } from './counting.ts';
import type { Loop } from './loop.ts';
import { withNarrowed } from './pending-revocation.ts';
import { startingPolicy } from './starting-policy.ts';
import { noteUnchecked } from './unchecked.ts';

/** Reads the interfaces, whether the device forwards between them, and chooses the driver interface among them. */
export async function readLinks({ state, links, options }: Loop): Promise<void> {
  const { selector, log, forwarding } = options;
  state.linksChanged = false;
  state.forwarding = await forwarding?.();
  try {
    const before = state.driver;
    const { driver, notes } = chooseDriver(selector, await links.read(), before);
    state.driver = driver;
    const isOther = driver?.index !== before?.index || driver?.name !== before?.name;
    if (before !== undefined && driver?.index !== undefined && isOther) noteUnchecked({ state, options });
    for (const note of notes) log(note.kind === 'renamed' ? 'warn' : 'info', sentence(note));
  } catch (error) {
    state.linksChanged = true;
    state.driver ??= chooseDriver(selector, [], undefined).driver;
    throw error;
  }
}

/** Takes up what the disk and the kernel hold, so that it is in force before anybody is asked. */
export async function takeUpLastRun(loop: Loop): Promise<void> {
  const { state, enforcer, options } = loop;
  const { state: folder, untilFirstPolicy, log, selector } = options;
  const absent = { kind: 'absent' } as const;
  const [lastGood, intent] = [
    (await folder?.readPolicy('policy')) ?? absent,
    (await folder?.readPolicy('intent')) ?? absent,
  ];
  if (lastGood.kind === 'found') state.driver = driverLastTime(state.driver, selector, lastGood.record);
  const kernel = await enforcer.read();
  // Rules that were there have judged what there is, but perhaps not all the time: the server's policy, the newest, decides.
  const isAdopted = kernel?.enforced?.interface !== undefined && kernel.enforced.interface === state.driver?.name;
  noteUnchecked(loop, isAdopted ? 'server' : 'any');
  // Before anything is put in force: counters that are not there now will begin anew.
  if (folder !== undefined) state.totals = await folder.readCounterTotals();
  if (kernel !== undefined) await readCounters(loop);
  const unwritable = await folder?.whyUnwritable();
  const start = startingPolicy({ lastGood, intent, kernel, unwritable, untilFirstPolicy });
  const { desired, record, revokeFrom, lost, notes } = start;
  state.desired = desired;
  if (revokeFrom !== undefined) state.revocation = withNarrowed(state.revocation, revokeFrom, undefined);
  if (lastGood.kind === 'found' && record === lastGood.record) {
    state.saved = { policy: desired?.policy, interface: record.interface };
  }
  state.lost = lost && { step: 'start', ...lost, at: options.clock.now() };
  state.lastError = state.lost ?? state.lastError;
  state.started = true;
  for (const note of notes) log('warn', note);
  if (lost !== undefined) log('error', lost.message, { code: lost.code });
}

/** The interface as it was, where it cannot be told how it is: it may come back under its name. */
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
      return `the given name is on another interface now; the policy leaves ${note.now}`;
    case 'several':
      return `the pattern finds several interfaces; the policy binds ${note.chosen}, not ${note.others.join(', ')}`;
    case 'gone':
      return `the interface ${note.name} is gone; its rules stay for when it comes back`;
    default:
      return note satisfies never;
  }
}
