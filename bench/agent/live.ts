/** Owns what is measured on a real agent that follows a real server over TLS, both on the packaged runtime: from the API's answer to the kernel, drift, memory, idle time. */
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Lab } from '../../dev/lab/lab.ts';
import type { Client } from '../../src/client/http.ts';
import { watch } from '../../src/client/watch.ts';
import { openTlsLab, startAsUnit, type TlsLabOptions } from '../lib/agent-as-unit.ts';
import { figure, table } from '../lib/table.ts';
import type { BenchTls } from '../lib/tls.ts';
import { compile, residentKb } from '../watch/tools.ts';
import { at, median, type Goal } from '../lib/goals.ts';
import { measureFloors, warmUp } from './floors.ts';
import { Operator, type ChangeTimes } from './operator.ts';
import { flips, now, Witness } from './witness.ts';

const changes = 100;
/** With a stream beside the agent's. */
const toldChanges = 30;
/** Between two changes, so that the agent is at rest again: it has connections to end, a disk to write and a kernel to read. */
const pause = 250;
const drifts = 25;
/** In which a tick of the kernel's clock is a hundredth of a second. */
const ticksPerSecond = 100;
const idleSeconds = 8;

export async function measureLive(options: Omit<TlsLabOptions, 'devices'>): Promise<readonly Goal[]> {
  const { lab, tls } = await openTlsLab({ ...options, devices: 1 });
  const witness = new Witness(lab.device(1).namespace, compile('../agent/stamp.c', options.folder));
  try {
    await startAsUnit(lab);
    await sleep(1_500); // The monitor needs a moment before it sees everything.
    return [...(await latency(lab, witness, tls)), ...(await drift(lab, witness)), ...(await footprint(lab))];
  } finally {
    await lab.close();
  }
}

async function latency(lab: Lab, witness: Witness, tls: BenchTls): Promise<readonly Goal[]> {
  const operator = new Operator(lab.url, lab.place.token);
  try {
    return await latencyBy(operator, lab, witness, tls);
  } finally {
    await operator.end();
  }
}

async function latencyBy(operator: Operator, lab: Lab, witness: Witness, tls: BenchTls): Promise<readonly Goal[]> {
  const { organization, token } = lab.place;
  const client = lab.client(token);
  const elsewhere = await warmUp(client, operator);
  const group = await client.groups.create(organization, { group_name: 'measured', inbound_rules: [] });
  const [record] = await client.devices.list(organization);
  await client.devices.update(organization, record?.id ?? '', { security_groups: [group.id] });
  await sleep(1_500);
  const change = (port: number): Promise<ChangeTimes> =>
    operator.changeGroup(organization, group.id, {
      inbound_rules: [{ ip_protocol: 'tcp', from_port: port, to_port: port }],
    });
  const [answers, kernel, whole]: [number[], number[], number[]] = [[], [], []];
  for (let n = 0; n < changes; n++) {
    const from = witness.seen.length;
    const { asked, answered } = await change(1_000 + n);
    const { at: flipped } = await witness.next(from, flips);
    answers.push(answered - asked);
    kernel.push(Math.max(0, flipped - answered));
    whole.push(flipped - asked);
    await sleep(pause);
  }
  const streamed = await untilTold(client, organization, change);
  const hot: number[] = [];
  for (let n = 0; n < changes; n++) {
    const { asked, answered } = await operator.changeGroup(organization, group.id, { group_description: `${n}` });
    hot.push(answered - asked);
  }
  const floors = await measureFloors(lab, elsewhere, { pause, tls });
  console.log(
    `\nA small change, ${changes} times (ms; the kernel's side as \`nft monitor\` tells it, the device behind a relay):\n`,
  );
  const row = (what: string, values: readonly number[]) => [what, at(values, 0.5), at(values, 0.99)] as const;
  console.log(
    table(
      ['part', 'p50', 'p99'],
      [
        row('request → answer of the API', answers),
        row('answer → told on a stream', streamed),
        row('answer → in force in the kernel', kernel),
        row('request → in force in the kernel', whole),
        row('request → answer, one right after the other', hot),
        row('floor: an HTTP server that only answers', floors.http),
        row('floor: a question that PostgreSQL needs not think about', floors.question),
        row('floor: the statement and its commit, by a bare client', floors.statement),
        row('floor: 8 KB on the disk of the database', floors.disk),
        row('floor: an `nft` that runs turns a chain', floors.filter),
      ],
    ),
  );
  return [
    { what: 'API → kernel, median', goal: 15, measured: median(kernel), unit: 'ms' },
    {
      what: 'request → kernel, median',
      goal: 8,
      measured: median(whole),
      unit: 'ms',
      beside: `the API's answer ${figure(median(answers))} ms; bare HTTP ${figure(median(floors.http))} + the statement alone ${figure(median(floors.statement))} ms`,
    },
  ];
}

/** The time from the response until a stream of this process delivers the change. */
async function untilTold(
  client: Client,
  organization: string,
  change: (port: number) => Promise<ChangeTimes>,
): Promise<readonly number[]> {
  let heardAt = 0;
  const end = new AbortController();
  const following = (async () => {
    const stream = watch(client, organization, [{ kind: 'security-groups' }], { signal: end.signal });
    for await (const { type } of stream) {
      if (type === 'change') heardAt = now();
    }
  })().catch(() => {});
  await sleep(500);
  const times: number[] = [];
  for (let n = 0; n < toldChanges; n++) {
    const { answered } = await change(2_000 + n);
    await sleep(pause);
    times.push(Math.max(0, heardAt - answered));
  }
  end.abort();
  await following;
  return times;
}

async function drift(lab: Lab, witness: Witness): Promise<readonly Goal[]> {
  const { namespace } = lab.device(1);
  const exposure = async (change: readonly string[]): Promise<number> => {
    const from = witness.seen.length;
    await namespace.run(['nft', ...change]);
    const foreign = await witness.next(from, flips);
    const repair = await witness.next(witness.seen.indexOf(foreign) + 1, flips);
    await sleep(200);
    return repair.at - foreign.at;
  };
  const inserted: number[] = [];
  const deleted: number[] = [];
  for (let i = 0; i < drifts; i++) {
    inserted.push(await exposure(['insert', 'rule', 'inet', 'service', 'service-inbound', 'accept']));
    deleted.push(await exposure(['delete', 'table', 'inet', 'service']));
  }
  console.log(`\nFrom a foreign change to its repair, ${drifts} times each (ms):\n`);
  console.log(
    table(
      ['foreign change', 'median', 'worst'],
      [
        ['a rule inserted', median(inserted), Math.max(...inserted)],
        ['the table deleted', median(deleted), Math.max(...deleted)],
      ],
    ),
  );
  return [
    { what: 'drift exposure, a rule inserted, median', goal: 3, measured: median(inserted), unit: 'ms' },
    { what: 'drift exposure, the table deleted, median', goal: 25, measured: median(deleted), unit: 'ms' },
  ];
}

/** Processor time used so far, in seconds. */
function usedBy(pid: number): number {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
}

async function footprint(lab: Lab): Promise<readonly Goal[]> {
  const pid = lab.device(1).agent?.pid ?? 0;
  await sleep(2_000);
  const before = usedBy(pid);
  await sleep(idleSeconds * 1_000);
  const idle = ((usedBy(pid) - before) / idleSeconds) * 100;
  const resident = residentKb(pid) / 1_024;
  console.log(
    `\nThe agent at rest: ${resident.toFixed(1)} MB resident, ${idle.toFixed(2)} % of a processor over ${idleSeconds} s.`,
  );
  return [
    { what: 'resident memory of the agent', goal: 60, measured: resident, unit: 'MB' },
    { what: 'idle processor time of the agent', goal: 0.25, measured: idle, unit: '%' },
  ];
}
