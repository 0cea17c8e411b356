/**
 * Measures how long it takes to end 1,000 of 100,000 tracked connections, those of one device that left: over netlink, whole and in
 * its parts, beside one `conntrack -D` of that device and the least code in C that could do it (`flows/floor.c`) in the same run; by the clock, and by the time of
 * processors, which a busy machine changes less. Not measured: sockets of the device, of which there are none.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { systemClock } from '../src/client/clock.ts';
import { commandFlowTable } from '../src/agent/host/command-flow-table.ts';
import { commandRouteTable } from '../src/agent/host/command-route-table.ts';
import { revokeFlows, type RevocationPorts } from '../src/agent/host/revoke-flows.ts';
import { commandRunner } from '../src/agent/host/run-command.ts';
import { NetlinkChannel } from '../src/agent/netlink/channel.ts';
import { forgetConnections, type KernelFlow } from '../src/agent/netlink/connections.ts';
import { listConnections } from '../src/agent/netlink/connections.fixture.ts';
import { netlinkFlowTable } from '../src/agent/netlink/flow-table.ts';
import { netlinkRouteTable } from '../src/agent/netlink/route-table.ts';
import { policyOf, written } from '../src/nft/policies.fixture.ts';
import { parseInterfaceName } from '../src/nft/names.ts';
import { EndedFlows } from '../src/agent/kernel/ended-flows.ts';
import { RealNft } from '../src/agent/kernel/real-nft.ts';
import { connect, Namespace } from '../test/lib/netns.ts';
import { median, showGoals } from './lib/goals.ts';
import { figure, table } from './lib/table.ts';
import { compile } from './watch/tools.ts';

const rounds = Number(process.env['RINGFENCE_BENCH_ROUNDS'] ?? 5);
const [others, revoked] = [99_000, 1_000];
const leaver = '100.64.255.1';
const farEnd = { address: leaver, direction: 'inbound' } as const;

const line = (source: string, port: number): string =>
  `-I -p tcp -s ${source} -d 100.64.0.1 --sport ${port} --dport 5432 --state ESTABLISHED -u SEEN_REPLY,ASSURED -t 3600\n`;
/** Never the same connections twice: what is kept ended already costs less. */
let nextPort = 1_000;
function leaving(): string {
  nextPort = nextPort + 2 * revoked > 65_536 ? 1_000 : nextPort + revoked;
  return Array.from({ length: revoked }, (_, i) => line(leaver, nextPort + i)).join('');
}
const staying = Array.from({ length: others }, (_, i) =>
  line(`100.64.${1 + Math.floor(i / 1_000)}.${1 + (i % 200)}`, 20_000 + (i % 1_000)),
).join('');

const before = policyOf([written('tcp', 5_432, 5_432, '100.64.0.0/16')]);
const after = policyOf([written('tcp', 5_432, 5_432, '100.64.0.0-100.64.255.0')]);

/** Microseconds that the helper has run. */
function helperTime(pid: number | undefined): number {
  const [ran = '0'] = pid === undefined ? [] : readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ');
  return Number(ran) / 1_000;
}

const folder = mkdtempSync(join(tmpdir(), 'ringfence-bench-flows-'));
const [device, far] = [await Namespace.create(), await Namespace.create()];
const channel = new NetlinkChannel({ clock: systemClock, prefix: device.inside([]) });
try {
  await connect(
    { namespace: device, name: 'rf0', addresses: ['100.64.0.1/16'] },
    { namespace: far, name: 'rf0', addresses: ['100.64.0.2/16'] },
  );
  const run = commandRunner(device.inside([]));
  const load = (lines: string): Promise<unknown> =>
    device.run(['sh', '-c', 'cat | conntrack --load-file - 2> /dev/null'], lines);
  await load(staying);
  // By the kernel's own number: a hundred thousand connections read here would be garbage in the next measure.
  const count = async (): Promise<number> => Number((await run(['conntrack', '-C'])).stdout);
  const total = await count();
  const flows = netlinkFlowTable(channel, commandFlowTable(run));
  const routes = netlinkRouteTable(channel, commandRouteTable(run));
  const nft = new RealNft({ clock: systemClock, scratch: folder, prefix: device.inside([]), netlink: channel });
  const ended = new EndedFlows({ nft });
  const block: RevocationPorts['block'] = (local) =>
    ended.block(local, { interface: parseInterfaceName('rf0'), containers: 'guard' });
  const revocation = { interface: 'rf0', before: [before], after };
  /** Answers with its own processor time, in milliseconds. */
  const programTime = async (command: string): Promise<number> => {
    const { stderr } = await run(['bash', '-c', `TIMEFORMAT='%U %S'; time ${command} > /dev/null 2>&1`]);
    return stderr
      .trim()
      .split(' ')
      .reduce((sum, seconds) => sum + Number(seconds) * 1_000, 0);
  };
  const floor = compile('../flows/floor.c', folder);
  const ways: readonly [string, () => Promise<unknown>][] = [
    ['conntrack -D, one call for that device', () => programTime(`conntrack -D -s ${leaver}`)],
    ['floor in C: list and forget, its start included', () => programTime(`${floor} ${leaver}`)],
    [
      'netlink, whole: list, judge, block',
      () => revokeFlows({ routes, table: flows, block }, { ...revocation, remotes: [farEnd] }),
    ],
  ];
  // The cost of keeping them ended, beside the same without it.
  const unkept: (typeof ways)[number] = [
    '… without keeping them ended',
    () =>
      revokeFlows(
        { routes, table: flows, block: async ({ length }) => ({ count: length, toForget: [], beyond: 0 }) },
        { ...revocation, remotes: [farEnd] },
      ),
  ];
  const unknown: (typeof ways)[number] = [
    '… where it is not known who left',
    () => revokeFlows({ routes, table: flows, block }, revocation),
  ];
  const times = new Map<string, number[]>();
  const spent = new Map<string, number[]>();
  const note = (into: Map<string, number[]>, name: string, value: number): void =>
    void into.set(name, [...(into.get(name) ?? []), value]);
  // This process and the helper; a program that ends reports its own time.
  const meter = (): number => process.cpuUsage().user + process.cpuUsage().system + helperTime(channel.pid);
  const time = async (name: string, round: number, work: () => Promise<unknown>): Promise<void> => {
    globalThis.gc?.();
    // What it found is swept up by other threads, for a moment yet.
    await sleep(100);
    const [from, ranFor] = [performance.now(), meter()];
    const told = await work();
    // The first round warms up.
    if (round === 0) return;
    note(times, name, performance.now() - from);
    note(spent, name, typeof told === 'number' ? told : (meter() - ranFor) / 1_000);
  };
  const measure = async (round: number, [name, work]: (typeof ways)[number]): Promise<void> => {
    await load(leaving());
    await time(name, round, work);
    // Ended connections stay in the kernel's table, which other interfaces use too.
    await run(['conntrack', '-D', '-s', leaver]);
    const left = await count();
    if (left !== total) throw new Error(`${name}: ${left} connections are left, not ${total}`);
  };
  for (let round = 0; round <= rounds; round += 1) {
    for (const way of [...ways, unkept]) await measure(round, way);
    await load(leaving());
    let listed: readonly KernelFlow[] = [];
    await time('floor in C, the listing alone', round, () => programTime(`${floor} ${leaver} list`));
    await time('… the listing alone', round, async () => (listed = await listConnections(channel, [farEnd])));
    await time('… the forgetting alone', round, () => forgetConnections(channel, listed));
  }
  for (let round = 0; round <= rounds; round += 1) await measure(round, unknown);
  const [[, peer = []] = []] = times;
  const [[, peerSpent = []] = []] = spent;
  const rows = [...times].map(([name, all]) => [
    name,
    `${figure(median(all))} ms`,
    `${figure(Math.max(...all))} ms`,
    figure(median(all) / median(peer)),
    `${figure(median(spent.get(name) ?? []))} ms`,
    figure(median(spent.get(name) ?? []) / median(peerSpent)),
  ]);
  console.log(
    table(
      ['1,000 of 100,000 connections end', 'median', 'worst', '÷ conntrack -D', 'processor', '÷ conntrack -D'],
      rows,
    ),
  );
  const [, , ours] = ways;
  const whole = median(times.get(ours?.[0] ?? '') ?? []);
  const what = '1,000 of 100,000 connections end';
  const inFloor = (of: ReadonlyMap<string, readonly number[]>): string =>
    `floor in C ${figure(median(of.get(ways[1]?.[0] ?? '') ?? []))} ms`;
  const ratioOf = (of: ReadonlyMap<string, readonly number[]>): number =>
    median(of.get(ours?.[0] ?? '') ?? []) / median(of.get(unkept[0]) ?? []);
  showGoals([
    { what: `${what}, ÷ without keeping them ended`, goal: 1.2, measured: ratioOf(times), unit: '×' },
    { what: `${what}, processor time ÷ without`, goal: 1.2, measured: ratioOf(spent), unit: '×' },
    { what, goal: 50, measured: whole, unit: 'ms', beside: inFloor(times) },
    // Where a quiet machine takes 204 ms for the one, 50 ms for the other are a quarter.
    { what: `${what}, ÷ conntrack -D`, goal: 0.25, measured: whole / median(peer), unit: '×' },
    {
      what: `${what}, processor time`,
      goal: 50,
      measured: median(spent.get(ours?.[0] ?? '') ?? []),
      unit: 'ms',
      beside: inFloor(spent),
    },
  ]);
} finally {
  await channel.close();
  await Promise.all([device.close(), far.close()]);
  rmSync(folder, { recursive: true, force: true });
}
