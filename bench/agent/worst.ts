/** Owns the measure of the worst policies that the limits admit: time to be in force and memory, each in a process of its own on the packaged runtime, beside `nft -f`. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Enforcer } from '../../src/agent/kernel/enforcer.ts';
import { RealNft } from '../../src/agent/kernel/real-nft.ts';
import { NetlinkChannel } from '../../src/agent/netlink/channel.ts';
import { tuneRuntime } from '../../src/agent/host/runtime.ts';
import { systemClock } from '../../src/client/clock.ts';
import { compile } from '../../src/nft/compile/compile.ts';
import { parseInterfaceName } from '../../src/nft/names.ts';
import { install } from '../../src/nft/plan/plan.ts';
import { printCommands } from '../../src/nft/print.ts';
import { canonicalize } from '../../src/policy/canonicalize.ts';
import { worstPolicy, worstShapes } from '../../src/policy/worst-policies.fixture.ts';
import { Namespace } from '../../test/lib/netns.ts';
import { childTimes, ProcessorMeter, sumOf } from '../lib/processor-time.ts';
import { askOnShipped, shippedRuntime } from '../lib/shipped-runtime.ts';
import { figure, table } from '../lib/table.ts';
import type { Goal } from '../lib/goals.ts';
import { loadOf } from './load.ts';

const where = { interface: parseInterfaceName('rf0'), neighbourDiscovery: true };
/** What this program is started with to apply one policy and tell what it took. */
export const applyArgument = 'apply-worst';

interface Applied {
  /** Milliseconds until the policy was in force: worked out, staged, flipped. */
  readonly inForce: number;
  /** Until it was also read back and compared. */
  readonly verified: number;
  /** Milliseconds of the processor until it was in force: this process and its nft, and this process alone. */
  readonly processor: number;
  readonly own: number;
  /** Largest resident memory in MB: until it was in force, and until it was verified. */
  readonly memory: number;
  readonly memoryVerified: number;
}

/** The most so far. Not what `process.resourceUsage` says: that counts what the process had before it became this program, which was its parent's. */
const megabytes = (): number => Number(/VmHWM:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]) / 1_000;

/** In a process of its own, with the agent's bounds of its heap, whose memory and time nothing else shares: the policy comes as text, as it does from the server. */
export async function applyWorst(text: string, prefix: readonly string[]): Promise<Applied> {
  const folder = mkdtempSync(join(tmpdir(), 'ringfence-bench-worst-'));
  const netlink = new NetlinkChannel({ clock: systemClock, prefix });
  const nft = new RealNft({ clock: systemClock, scratch: folder, prefix, netlink });
  try {
    netlink.start();
    const enforcer = new Enforcer({ nft, random: Math.random });
    const policy = JSON.parse(text) as ReturnType<typeof worstPolicy>;
    const [from, before, meter] = [performance.now(), process.cpuUsage(), new ProcessorMeter(process.pid)];
    meter.start();
    await enforcer.apply({ policy: canonicalize(policy), ...where });
    const inForce = performance.now() - from;
    meter.stop();
    const { user, system } = process.cpuUsage(before);
    const processor = sumOf(meter.total) / 1_000;
    const memory = megabytes();
    await enforcer.verify();
    const verified = performance.now() - from;
    return { inForce, verified, processor, own: (user + system) / 1_000, memory, memoryVerified: megabytes() };
  } finally {
    await Promise.all([nft.close(), netlink.close()]);
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The other side of `applyArgument`: reads the policy from the input and reports what it took. */
export async function applyFromInput(prefix: readonly string[]): Promise<void> {
  tuneRuntime();
  let text = '';
  for await (const part of process.stdin.setEncoding('utf8')) text += String(part);
  console.log(JSON.stringify(await applyWorst(text, prefix)));
}

const rangesIn = (policy: ReturnType<typeof worstPolicy>): number =>
  policy.groups
    .flatMap(({ inbound, outbound }) => [...inbound, ...outbound])
    .reduce((sum, { ip_ranges }) => sum + (ip_ranges?.length ?? 0), 0);

export async function measureWorst(): Promise<readonly Goal[]> {
  const folder = mkdtempSync(join(tmpdir(), 'ringfence-bench-worst-'));
  const [own, other] = await Promise.all([Namespace.create(), Namespace.create()]);
  try {
    const node = shippedRuntime(folder);
    const rows: (readonly (string | number)[])[] = [];
    const goals: Goal[] = [];
    for (const [name, shape] of Object.entries(worstShapes)) {
      const policy = worstPolicy(shape);
      const ruleset = compile(canonicalize(policy), { ...where, salt: '' });
      const file = join(folder, 'same.nft');
      writeFileSync(file, printCommands(install(ruleset)));
      await other.run(['nft', 'flush', 'ruleset']);
      const from = performance.now();
      const { stdout } = await other.run(['bash', '-c', 'nft -f "$0" && times', file]);
      const loaded = performance.now() - from;
      const loadedProcessor = childTimes(stdout);
      await own.run(['nft', 'flush', 'ruleset']);
      const applied = (await askOnShipped(node, [applyArgument, ...own.inside([])], JSON.stringify(policy))) as Applied;
      const { chains, rules, sets, ranges, hosts, entries } = loadOf(ruleset);
      rows.push([
        name,
        rangesIn(policy),
        chains,
        rules,
        sets,
        ranges + hosts + entries,
        applied.processor,
        applied.own,
        loadedProcessor,
        applied.processor / loadedProcessor,
        applied.inForce,
        loaded,
        applied.verified,
        applied.memory,
        applied.memoryVerified,
      ]);
      goals.push(
        {
          what: `in force, processor time: ${name}`,
          goal: 2_000,
          measured: applied.processor,
          unit: 'ms',
          beside: `nft -f alone ${figure(loadedProcessor)} ms`,
        },
        {
          what: `memory: ${name}`,
          goal: 150,
          measured: Math.max(applied.memory, applied.memoryVerified),
          unit: 'MB',
        },
      );
    }
    console.log(
      '\nThe worst policies within all limits: processor time until in force, of the agent and its nft, beside `nft -f` of the same text; the wall clock; resident memory of the agent’s process:\n',
    );
    console.log(
      table(
        [
          'policy',
          'ranges',
          'chains',
          'rules',
          'sets',
          'elements',
          'processor, ms',
          'of it ours',
          '`nft -f`',
          '× `nft -f`',
          'in force, ms',
          '`nft -f`, ms',
          'verified, ms',
          'MB',
          'MB verified',
        ],
        rows,
      ),
    );
    return goals;
  } finally {
    await Promise.all([own.close(), other.close()]);
    rmSync(folder, { recursive: true, force: true });
  }
}
