/** Measures the simulation of a group change: the processor time until the whole answer is written, and how long it holds the event loop. */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { limits } from '../src/api/limits.ts';
import { deviceChange, groupChange } from '../src/organization/read-records.ts';
import {
  emptyOrganization,
  overlay,
  type Organization,
  type OrganizationChange,
} from '../src/organization/organization.ts';
import { affectedDevices, writeSimulation } from '../src/server/preview/simulation.ts';
import { processorMs, processSlices } from '../src/server/scheduling/time-slices.ts';
import { showGoals, type Goal } from './lib/goals.ts';

const idOf = (kind: number, n: number): string => `00000000-0000-4000-8${kind}00-${n.toString(16).padStart(12, '0')}`;

/** A group that the whole fleet has, and that admits a tenth of it. */
const shared = (port: number): OrganizationChange =>
  groupChange({
    id: idOf(1, 0),
    group_name: 'shared',
    applies_to: [{ all_devices: true }],
    inbound_rules: [{ ip_protocol: 'tcp', from_port: port, to_port: port, peers: [{ labels: ['app'] }] }],
  });

/** Fifty groups by label besides; each device has labels of its own, as machines of a real fleet do. */
function fleet(devices: number): Organization {
  return overlay(emptyOrganization, [
    groupChange({ id: idOf(1, 1), group_name: 'default', is_default: true }),
    shared(5432),
    ...Array.from({ length: 50 }, (_, n) =>
      groupChange({
        id: idOf(1, n + 2),
        group_name: `site ${n}`,
        applies_to: [{ labels: [`site-${n}`] }],
        inbound_rules: [{ ip_protocol: 'tcp', from_port: 22, to_port: 22, ip_ranges: [`10.${n}.0.0/16`] }],
      }),
    ),
    ...Array.from({ length: devices }, (_, n) =>
      deviceChange({
        id: idOf(2, n),
        hostname: `host-${n}`,
        tunnel_ip: `100.${64 + (n >> 16)}.${(n >> 8) & 255}.${n & 255}`,
        labels: [`host-${n}`, `site-${n % 50}`, ...(n % 10 === 1 ? ['app'] : [])],
      }),
    ),
  ]);
}

/** Milliseconds of the processor until the whole answer is written, the longest turn of the event loop, and the size of the answer. */
async function measure(devices: number): Promise<readonly [tookMs: number, heldMs: number, megabytes: number]> {
  const before = fleet(devices);
  const slices = processSlices();
  const delay = monitorEventLoopDelay({ resolution: 1 });
  await new Promise((resolve) => setTimeout(resolve, 50));
  delay.enable();
  const start = processorMs();
  const after = overlay(before, [shared(5433)]);
  const affected = await affectedDevices(before, after, { bytes: limits.answer }, slices);
  let size = 0;
  const answer = { ...affected, revision: 1, inForce: new Map(), warnings: [], tests: [] };
  for await (const part of writeSimulation(answer)) size += part.length;
  const took = processorMs() - start;
  delay.disable();
  return [took, delay.max / 1e6, size / 1e6];
}

const goals: Goal[] = [];
for (const [devices, goalMs] of [
  [1_000, 300],
  [10_000, 1_000],
] as const) {
  await measure(devices);
  const [took, held, megabytes] = await measure(devices);
  const beside = `answer of ${megabytes.toFixed(0)} MB`;
  goals.push(
    { what: `a group change on ${devices} devices`, goal: goalMs, measured: took, unit: 'ms', beside },
    { what: `longest turn of the event loop, ${devices} devices`, goal: 10, measured: held, unit: 'ms' },
  );
}
showGoals(goals);
