/** Owns the measure of putting a policy in force, by size, by the clock and by processor time: ours, `nft -f` of the same text, and one `nft` for each rule. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../../src/client/clock.ts';
import { Enforcer } from '../../src/agent/kernel/enforcer.ts';
import { RealNft } from '../../src/agent/kernel/real-nft.ts';
import { NetlinkChannel } from '../../src/agent/netlink/channel.ts';
import { compile } from '../../src/nft/compile.ts';
import { parseInterfaceName } from '../../src/nft/names.ts';
import { install } from '../../src/nft/plan.ts';
import { printCommands } from '../../src/nft/print.ts';
import { Namespace } from '../../test/lib/netns.ts';
import { childTimes, ProcessorMeter, sumOf } from '../lib/processor-time.ts';
import { figure, table } from '../lib/table.ts';
import { median, type Goal } from '../lib/goals.ts';
import { policyOfSize } from './ranges.ts';

const where = { interface: parseInterfaceName('rf0'), neighbourDiscovery: true };

export async function measureApply(): Promise<readonly Goal[]> {
  const folder = mkdtempSync(join(tmpdir(), 'ringfence-bench-apply-'));
  const [own, other] = await Promise.all([Namespace.create(), Namespace.create()]);
  const netlink = new NetlinkChannel({ clock: systemClock, prefix: own.inside([]) });
  const nft = new RealNft({ clock: systemClock, scratch: folder, prefix: own.inside([]), netlink });
  try {
    netlink.start();
    const rows: (readonly (string | number)[])[] = [];
    let atThousand = 0;
    const goals: Goal[] = [];
    for (const [count, times] of [
      [10, 30],
      [1_000, 15],
      [10_000, 5],
      [100_000, 3],
    ] as const) {
      const fromNothing: number[] = [];
      const changed: number[] = [];
      const loaded: number[] = [];
      const meter = new ProcessorMeter(process.pid);
      let loadedProcessor = 0;
      const file = join(folder, 'same.nft');
      for (let run = 0; run < times; run++) {
        const enforcer = new Enforcer({ nft, random: Math.random });
        const target = { policy: policyOfSize(count), ...where };
        const text = printCommands(install(compile(target.policy, { ...where, salt: '' })));
        meter.start();
        fromNothing.push(await timed(() => enforcer.apply(target)));
        meter.stop();
        const other1 = { policy: policyOfSize(count, run + 1), ...where };
        changed.push(await timed(() => enforcer.apply(other1)));
        await enforcer.remove();
        writeFileSync(file, text);
        await other.run(['nft', 'flush', 'ruleset']);
        loaded.push(await timed(() => other.run(['nft', '-f', file])));
        await other.run(['nft', 'flush', 'ruleset']);
        loadedProcessor += childTimes((await other.run(['bash', '-c', 'nft -f "$0" && times', file])).stdout);
      }
      const processor = sumOf(meter.total) / 1_000 / times;
      loadedProcessor /= times;
      if (count === 1_000) atThousand = median(fromNothing);
      const size = `${count.toLocaleString('en-US')} ranges from nothing, against \`nft -f\``;
      if (count === 1_000 || count === 10_000)
        goals.push(
          {
            what: size,
            goal: 1,
            measured: median(fromNothing) / median(loaded),
            unit: '×',
            beside: `${figure(median(fromNothing))} and ${figure(median(loaded))} ms`,
          },
          {
            what: `${size}, processor time`,
            goal: 1,
            measured: processor / loadedProcessor,
            unit: '×',
            beside: `${figure(processor)} and ${figure(loadedProcessor)} ms`,
          },
        );
      rows.push([
        count.toLocaleString('en-US'),
        times,
        median(fromNothing),
        median(changed),
        median(loaded),
        median(fromNothing) / median(loaded),
        processor,
        loadedProcessor,
      ]);
    }
    console.log('\nA policy of so many ranges is put in force (ms; medians by the clock, means of processor time):\n');
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
        rows,
      ),
    );
    const each = oneByOne(other, 100);
    const thousand = each * 1_000;
    console.log(
      `\nOne \`nft\` for each rule: ${each.toFixed(1)} ms a rule (100 rules), so ${(thousand / 1_000).toFixed(1)} s for 1,000; ours ${atThousand.toFixed(1)} ms.`,
    );
    return [
      ...goals,
      {
        what: '1,000 rules, against one nft per rule',
        goal: 50,
        measured: thousand / atThousand,
        unit: '×',
        atLeast: true,
      },
    ];
  } finally {
    await Promise.all([nft.close(), netlink.close()]);
    await Promise.all([own.close(), other.close()]);
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
