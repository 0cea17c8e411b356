/** Owns the measure of putting a policy in force on the packaged runtime, by size, by the clock and by processor time: ours, `nft -f` of the same text, and one `nft` for each rule. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runtimeVersion } from '../../scripts/packaging/runtime.mjs';
import { tuneRuntime } from '../../src/agent/host/runtime.ts';
import { systemClock } from '../../src/client/clock.ts';
import { Enforcer } from '../../src/agent/kernel/enforcer.ts';
import { RealNft } from '../../src/agent/kernel/real-nft.ts';
import { NetlinkChannel } from '../../src/agent/netlink/channel.ts';
import { compile } from '../../src/nft/compile/compile.ts';
import { parseInterfaceName } from '../../src/nft/names.ts';
import { install } from '../../src/nft/plan/plan.ts';
import { printCommands } from '../../src/nft/print.ts';
import { Namespace } from '../../test/lib/netns.ts';
import { childTimes, spentBy } from '../lib/processor-time.ts';
import { askOnShipped, shippedRuntime } from '../lib/shipped-runtime.ts';
import { figure, table } from '../lib/table.ts';
import { median, type Goal } from '../lib/goals.ts';
import { policyOfSize } from './ranges.ts';

const where = { interface: parseInterfaceName('rf0'), neighbourDiscovery: true };

/** What this program is started with to put policies of all sizes in force and tell what it took. */
export const sizesArgument = 'apply-sizes';

/** Milliseconds by the clock, each time, and of the processors, on average: ours, and `nft -f` of the same text. */
interface Size {
  readonly count: number;
  readonly fromNothing: readonly number[];
  readonly changed: readonly number[];
  readonly loaded: readonly number[];
  readonly processor: number;
  readonly loadedProcessor: number;
}

/** Ours and `nft -f` in turn, each in a namespace of its own. */
async function applySize(count: number, times: number, { nft, other, file }: Places): Promise<Size> {
  const fromNothing: number[] = [];
  const changed: number[] = [];
  const loaded: number[] = [];
  let [processor, loadedProcessor] = [0, 0];
  for (let run = 0; run < times; run++) {
    const enforcer = new Enforcer({ nft, random: Math.random });
    const target = { policy: policyOfSize(count), ...where };
    const text = printCommands(install(compile(target.policy, { ...where, salt: '' })));
    processor += await spentBy(async () => {
      fromNothing.push(await timed(() => enforcer.apply(target)));
    });
    const other1 = { policy: policyOfSize(count, run + 1), ...where };
    changed.push(await timed(() => enforcer.apply(other1)));
    await enforcer.remove();
    writeFileSync(file, text);
    await other.run(['nft', 'flush', 'ruleset']);
    loaded.push(await timed(() => other.run(['nft', '-f', file])));
    await other.run(['nft', 'flush', 'ruleset']);
    loadedProcessor += childTimes((await other.run(['bash', '-c', 'nft -f "$0" && times', file])).stdout);
  }
  const [ours, theirs] = [processor / 1_000 / times, loadedProcessor / times];
  return { count, fromNothing, changed, loaded, processor: ours, loadedProcessor: theirs };
}

interface Places {
  readonly nft: RealNft;
  readonly other: Namespace;
  readonly file: string;
}

/** The other side of `sizesArgument`: of each size so many times, in this order. */
export async function applySizes(sizes: readonly string[]): Promise<void> {
  tuneRuntime();
  const folder = mkdtempSync(join(tmpdir(), 'ringfence-bench-apply-'));
  const [own, other] = await Promise.all([Namespace.create(), Namespace.create()]);
  const netlink = new NetlinkChannel({ clock: systemClock, prefix: own.inside([]) });
  const nft = new RealNft({ clock: systemClock, scratch: folder, prefix: own.inside([]), netlink });
  try {
    netlink.start();
    const applied: Size[] = [];
    for (const size of sizes) {
      const [count = 0, times = 0] = size.split('x').map(Number);
      applied.push(await applySize(count, times, { nft, other, file: join(folder, 'same.nft') }));
    }
    console.log(JSON.stringify(applied));
  } finally {
    await Promise.all([nft.close(), netlink.close()]);
    await Promise.all([own.close(), other.close()]);
    rmSync(folder, { recursive: true, force: true });
  }
}

const readable = (count: number): string => count.toLocaleString('en-US');

function goalsOf({ count, fromNothing, loaded, processor, loadedProcessor }: Size): readonly Goal[] {
  const what = `${readable(count)} ranges from nothing, against \`nft -f\``;
  return [
    {
      what,
      goal: 1,
      measured: median(fromNothing) / median(loaded),
      unit: '×',
      beside: `${figure(median(fromNothing))} and ${figure(median(loaded))} ms`,
    },
    {
      what: `${what}, processor time`,
      goal: 1,
      measured: processor / loadedProcessor,
      unit: '×',
      beside: `${figure(processor)} and ${figure(loadedProcessor)} ms`,
    },
  ];
}

const rowOf = (name: string, { fromNothing, changed, loaded, processor, loadedProcessor }: Size) => [
  name,
  fromNothing.length,
  median(fromNothing),
  median(changed),
  median(loaded),
  median(fromNothing) / median(loaded),
  processor,
  loadedProcessor,
];

/** Fresh processes whose first policy is measured: nothing of the program has run before. */
const coldStarts = 5;

function together(sizes: readonly Size[]): Size {
  const all = (of: (size: Size) => readonly number[]): number[] => sizes.flatMap(of);
  const average = (of: (size: Size) => number): number => sizes.reduce((sum, size) => sum + of(size), 0) / sizes.length;
  return {
    count: sizes[0]?.count ?? 0,
    fromNothing: all((size) => size.fromNothing),
    changed: all((size) => size.changed),
    loaded: all((size) => size.loaded),
    processor: average((size) => size.processor),
    loadedProcessor: average((size) => size.loadedProcessor),
  };
}

export async function measureApply(): Promise<readonly Goal[]> {
  const folder = mkdtempSync(join(tmpdir(), 'ringfence-bench-apply-'));
  const other = await Namespace.create();
  try {
    const node = shippedRuntime(folder);
    const ask = async (...sizes: readonly string[]): Promise<readonly Size[]> =>
      (await askOnShipped(node, [sizesArgument, ...sizes])) as readonly Size[];
    const warm = await ask('10x30', '1000x15', '10000x5', '100000x3');
    const cold: Size[] = [];
    for (let start = 0; start < coldStarts; start++) cold.push(...(await ask('1000x1')));
    console.log(
      `\nA policy of so many ranges is put in force on Node ${runtimeVersion}, the packaged runtime (ms; medians by the clock, means of processor time):\n`,
    );
    console.log(
      table(
        [
          'ranges',
          'runs',
          'from nothing',
          'one range changed',
          '`nft -f` of the same text',
          'ours ÷ `nft -f`',
          'processors, ours and its nft',
          'processors, `nft -f`',
        ],
        [...warm.map((size) => rowOf(readable(size.count), size)), rowOf('1,000, first of a process', together(cold))],
      ),
    );
    const thousand = warm.find(({ count }) => count === 1_000);
    const ours = median(thousand?.fromNothing ?? []);
    const each = oneByOne(other, 100);
    console.log(
      `\nOne \`nft\` for each rule: ${each.toFixed(1)} ms a rule (100 rules), so ${each.toFixed(1)} s for 1,000; ours ${ours.toFixed(1)} ms.`,
    );
    return [
      ...warm.filter(({ count }) => count === 1_000 || count === 10_000).flatMap(goalsOf),
      {
        what: '1,000 rules, against one nft per rule',
        goal: 50,
        measured: (each * 1_000) / ours,
        unit: '×',
        atLeast: true,
      },
    ];
  } finally {
    await other.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Milliseconds for a rule, each by a process of its own, as a script would. */
function oneByOne(namespace: Namespace, rules: number): number {
  const nft = (...args: readonly string[]): void => {
    const [command = '', ...rest] = namespace.inside(['nft', ...args]);
    execFileSync(command, rest, { stdio: 'ignore' });
  };
  nft('flush', 'ruleset');
  nft('add', 'table', 'inet', 'naive');
  nft('add', 'chain', 'inet', 'naive', 'in', '{ type filter hook input priority 0; }');
  const start = performance.now();
  for (let i = 0; i < rules; i++) {
    nft('add', 'rule', 'inet', 'naive', 'in', `ip saddr 10.0.${i >> 8}.${i & 255} tcp dport ${1_000 + i} accept`);
  }
  return (performance.now() - start) / rules;
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}
