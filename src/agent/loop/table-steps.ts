/** Owns the steps that maintain our table: repair, verify, inspect, and remove unused objects. */
import { policyDigest } from '../../policy/digest/digest.ts';
import { saveCounters, readCounters } from './counters.ts';
import { noteDrift, noteFindings } from './drift-response.ts';
import type { Loop } from './loop.ts';
import { forgetOtherGroups } from './packet-counts.ts';

/** A packet on its way through old chains is gone by then. */
export const collectAfter = 1_000;
const minute = 60_000;
/** An inspection may take this part of the agent's time: at 100,000 ranges it takes a second. */
const inspectionShare = 200;

export async function repairTable(loop: Loop): Promise<void> {
  const { state, enforcer, ended, options } = loop;
  const { tableChange, endedChanged, changes } = state;
  state.tableChange = undefined;
  state.endedChanged = false;
  state.changes = [];
  try {
    if (tableChange !== undefined) await enforcer.repair(tableChange);
    if (endedChanged) await ended.repair();
  } catch (error) {
    state.tableChange = tableChange;
    state.endedChanged = endedChanged;
    state.changes = [...changes, ...state.changes];
    throw error;
  }
  // What the monitor's events do not show, an inspection finds.
  state.inspectAt = options.monotonic();
  for (const { by, what } of changes) noteDrift(loop, by, what);
}

export async function verifyTable(loop: Loop): Promise<void> {
  const { state, enforcer, options } = loop;
  const target = state.inForce?.target;
  const { findings, policy } = await enforcer.verify();
  noteFindings(loop, findings);
  state.unverified = false;
  state.verifiedAt = options.clock.now();
  if (target !== undefined && policy !== undefined) state.readBack = { target, digest: policyDigest(policy) };
}

export async function inspectTable(loop: Loop): Promise<void> {
  const { state, enforcer, ended, options } = loop;
  const { monotonic, inspectEvery = minute, clock } = options;
  const from = monotonic();
  // A setting may change without an event.
  state.forwarding = await options.forwarding?.();
  const { findings } = await enforcer.inspect();
  if (await ended.inspect()) noteDrift(loop, 'unknown', ['another program changed the table for ended connections']);
  const now = monotonic();
  // A mark that came meanwhile asks for another inspection.
  if (state.inspectAt <= from) state.inspectAt = now + Math.max(inspectEvery, (now - from) * inspectionShare);
  noteFindings(loop, findings);
  // Marks of packets and users select routes too, which nobody reports.
  state.judgeAt ??= Math.max(now, state.judgeRest);
  state.verifiedAt = clock.now();
  if (enforcer.garbage > 0) state.collectAt ??= now + collectAfter;
  await saveCounters(loop);
}

export async function collectGarbage(loop: Loop): Promise<void> {
  const { state, enforcer } = loop;
  // Counters go too: what they have counted is read first, and kept of the groups that stay.
  await readCounters(loop);
  await enforcer.collect();
  state.collectAt = undefined;
  if (state.inForce !== undefined) forgetOtherGroups(state.totals, state.inForce.desired);
  await saveCounters(loop);
}
