/** Measures the way from written rules to nft text by size, beside the kernel's own time to load that text; not the network, not the watch. */
import { writeFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { canonicalize } from '../src/policy/canonicalize.ts';
import { policyDigest } from '../src/policy/digest/digest.ts';
import { printAddress, printRange } from '../src/policy/address.ts';
import { parseGroupId } from '../src/policy/ids.ts';
import type { EffectivePolicy } from '../src/policy/effective.ts';
import type { Family, StoredRule } from '../src/policy/rule.ts';
import { worstPolicy, worstShapes } from '../src/policy/worst-policies.fixture.ts';
import type { Ruleset } from '../src/nft/ast.ts';
import { compile } from '../src/nft/compile/compile.ts';
import { decompile } from '../src/nft/read/decompile.ts';
import { parseListing } from '../src/nft/read/parse-listing.fixture.ts';
import { parseInterfaceName } from '../src/nft/names.ts';
import { install, plan } from '../src/nft/plan/plan.ts';
import { printCommands } from '../src/nft/print.ts';
import { Namespace } from '../test/lib/netns.ts';
import { table } from './lib/table.ts';

const options = { interface: parseInterfaceName('wg0'), neighbourDiscovery: false };
const id = parseGroupId('00000000-0000-4000-8000-000000000001');

/** The same numbers in every run. */
function generator(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

function rangeText(family: Family, below: (n: number) => number): string {
  const base =
    family === 4 ? BigInt(below(2 ** 32)) : (0xfdn << 120n) | (BigInt(below(2 ** 31)) << 64n) | BigInt(below(2 ** 16));
  switch (below(3)) {
    case 0:
      return printAddress(family, base);
    case 1:
      return `${printAddress(family, base)}/${family === 4 ? 24 + below(8) : 64 + below(60)}`;
    default:
      return printRange(family, { first: base & ~63n, last: (base & ~63n) + BigInt(1 + below(60)) });
  }
}

/** Rules as people have them: up to 100 ranges each, of both families, in no order; ports alone and in short ranges. */
function written(ranges: number, seed = 1): EffectivePolicy {
  const below = generator(seed);
  const rules: StoredRule[] = [];
  for (let left = ranges; left > 0; left -= 100) {
    const from = 1 + below(60_000);
    rules.push({
      ip_protocol: below(4) === 0 ? 'udp' : 'tcp',
      from_port: from,
      to_port: from + (below(4) === 0 ? below(20) : 0),
      ip_ranges: Array.from({ length: Math.min(left, 100) }, () => rangeText(below(4) === 0 ? 6 : 4, below)),
    });
  }
  return { source: 'list', groups: [{ id, name: 'bench', inbound: rules, outbound: [] }] };
}

/** Port ranges one inside the other, each for addresses of its own. */
function nested(count: number, each: number): EffectivePolicy {
  const inbound = Array.from({ length: count }, (_, i): StoredRule => ({
    ip_protocol: 'tcp',
    from_port: 1 + i * 3,
    to_port: 65_000 - i * 7,
    ip_ranges: Array.from({ length: each }, (_unused, k) => printAddress(4, BigInt(0x0a00_0000 + (i * each + k) * 2))),
  }));
  return { source: 'list', groups: [{ id, name: 'bench', inbound, outbound: [] }] };
}

/** Rules remember their parsed ranges: a copy starts afresh, as a new policy from the server does. */
const fresh = (policy: EffectivePolicy): EffectivePolicy => structuredClone(policy);

const medianOf = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;
const bestOf = (values: readonly number[]): number => Math.min(...values);
const worstOf = (values: readonly number[]): number => Math.max(...values);

interface Timing {
  readonly canonical: number[];
  readonly compiled: number[];
  readonly printed: number[];
  readonly total: number[];
}

/** One way from rules to text, timed step by step. */
function once(policy: EffectivePolicy, timing: Timing): { readonly text: string; readonly ruleset: Ruleset } {
  const copy = fresh(policy);
  const start = performance.now();
  const canonical = canonicalize(copy);
  const afterCanonical = performance.now();
  const ruleset = compile(canonical, options);
  const afterCompile = performance.now();
  const text = printCommands(install(ruleset));
  const end = performance.now();
  timing.canonical.push(afterCanonical - start);
  timing.compiled.push(afterCompile - afterCanonical);
  timing.printed.push(end - afterCompile);
  timing.total.push(end - start);
  return { text, ruleset };
}

const noTiming = (): Timing => ({ canonical: [], compiled: [], printed: [], total: [] });

/** Warms up, then measures; the garbage of the warm-up is not the measured runs' to sweep. */
function measure(
  policy: EffectivePolicy,
  times: number,
): Timing & { readonly text: string; readonly ruleset: Ruleset } {
  for (let run = 0; run < Math.min(times, 10); run += 1) once(policy, noTiming());
  globalThis.gc?.();
  const timing = noTiming();
  let last = once(policy, timing);
  for (let run = 1; run < times; run += 1) last = once(policy, timing);
  return { ...timing, ...last };
}

const rangesIn = ({ helpers }: Ruleset): number =>
  helpers
    .flatMap(({ rules }) => rules.flatMap(({ matches }) => matches))
    .reduce((sum, match) => sum + (match.kind === 'address' ? match.ranges.length : 0), 0);

function bySize(): void {
  const sizes: readonly (readonly [number, number])[] = [
    [10, 500],
    [1_000, 100],
    [10_000, 25],
    [100_000, 7],
  ];
  const rows = sizes.map(([n, times]) => {
    const { canonical, compiled, printed, total, text } = measure(written(n), times);
    const perRange = (bestOf(total) * 1e6) / n;
    return [
      n.toLocaleString('en-US'),
      String(times),
      medianOf(canonical),
      medianOf(compiled),
      medianOf(printed),
      medianOf(total),
      bestOf(total),
      worstOf(total),
      perRange,
      perRange / Math.log2(n),
      text.length / 1024,
    ];
  });
  const head = [
    'ranges',
    'runs',
    'canonical ms',
    'compile ms',
    'print ms',
    'total ms',
    'best ms',
    'worst ms',
    'ns/range',
    'ns/(range·log₂n)',
    'text KiB',
  ];
  console.log('\nWritten rules → canonical form → content-named chains → text (medians; per range by the best run):\n');
  console.log(table(head, rows));
}

/** Milliseconds of the processor that some work takes. */
function processorMs(work: () => unknown): number {
  const from = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(from);
  return (user + system) / 1_000;
}

/** What a receipt costs beside the canonical form that both server and agent need anyway. */
function digests(): void {
  const policies: readonly (readonly [string, EffectivePolicy])[] = [
    ['50,000 written ranges', written(50_000)],
    ...Object.entries(worstShapes).map(([name, shape]) => [name, worstPolicy(shape)] as const),
  ];
  const rows = policies.map(([name, policy]) => {
    const [forms, made]: [number[], number[]] = [[], []];
    for (let run = 0; run < 5; run += 1) {
      const copy = fresh(policy);
      forms.push(processorMs(() => canonicalize(copy)));
      const form = canonicalize(copy);
      made.push(processorMs(() => policyDigest(form)));
    }
    return [name, medianOf(forms), medianOf(made), worstOf(made), medianOf(made) / medianOf(forms)];
  });
  console.log('\nThe digest of a policy beside its canonical form, in processor time (medians of 5, in turn):\n');
  console.log(table(['policy', 'canonical ms', 'digest ms', 'worst ms', '× canonical'], rows));
}

async function againstTheKernel(folder: string): Promise<void> {
  const namespace = await Namespace.create();
  try {
    const policy = written(10_000);
    const { text, ruleset } = measure(policy, 10);
    const [full, nothing] = [join(folder, 'full.nft'), join(folder, 'nothing.nft')];
    writeFileSync(full, text);
    writeFileSync(nothing, '');
    const timed = async (file: string): Promise<number> => {
      const start = performance.now();
      await namespace.run(['nft', '-f', file]);
      return performance.now() - start;
    };
    // Turn by turn, so that whatever else the machine does weighs on all alike.
    const timing = noTiming();
    const empty: number[] = [];
    const loaded: number[] = [];
    for (let run = 0; run < 25; run += 1) {
      once(policy, timing);
      await namespace.run(['nft', 'flush', 'ruleset']);
      empty.push(await timed(nothing));
      loaded.push(await timed(full));
    }
    const { total } = timing;
    const { stdout } = await namespace.run(['nft', '-j', 'list', 'table', 'inet', 'service']);
    const back: number[] = [];
    for (let run = 0; run < 25; run += 1) {
      const start = performance.now();
      const installed = parseListing(JSON.parse(stdout));
      if (installed === undefined || decompile(installed).findings.length > 0) throw new Error('it does not read back');
      if (plan(installed, ruleset).kind !== 'update') throw new Error('it does not read back as itself');
      back.push(performance.now() - start);
    }
    const ours = medianOf(total);
    console.log('\n10,000 ranges, 25 times in turn:\n');
    console.log(
      table(
        ['step', 'median ms', 'best ms', 'worst ms', '× ours'],
        [
          ['written rules → text (ours)', ours, bestOf(total), worstOf(total), 1],
          [
            '`nft -f` of that text: a process, parsing, the kernel',
            medianOf(loaded),
            bestOf(loaded),
            worstOf(loaded),
            medianOf(loaded) / ours,
          ],
          [
            '`nft -f` of an empty file: the process alone',
            medianOf(empty),
            bestOf(empty),
            worstOf(empty),
            medianOf(empty) / ours,
          ],
          [
            'kernel JSON → policy and an empty plan (ours)',
            medianOf(back),
            bestOf(back),
            worstOf(back),
            medianOf(back) / ours,
          ],
        ],
      ),
    );
  } finally {
    await namespace.close();
  }
}

function nestedRanges(): void {
  const rows = [10, 100, 1_000].map((count) => {
    const policy = nested(count, 10);
    const { total, text, ruleset } = measure(policy, count > 500 ? 5 : 15);
    const { inbound } = canonicalize(policy);
    const kind = inbound.kind === 'closed' ? inbound.tcp.ports.kind : inbound.kind;
    // Cut into disjoint intervals, ranges add up towards the middle and down again.
    const disjoint = count * count * 10;
    return [
      `${count.toLocaleString('en-US')} × 10`,
      count * 10,
      kind,
      rangesIn(ruleset),
      disjoint,
      ruleset.helpers.length,
      text.length / 1024,
      medianOf(total),
    ];
  });
  const head = [
    'nested ports × addresses',
    'ranges in',
    'port map',
    'ranges out',
    'as intervals',
    'chains',
    'text KiB',
    'total ms',
  ];
  console.log('\nPort ranges one inside the other, each with addresses of its own:\n');
  console.log(table(head, rows));
}

const folder = mkdtempSync(join(tmpdir(), 'ringfence-bench-'));
try {
  bySize();
  await againstTheKernel(folder);
  nestedRanges();
  digests();
} finally {
  rmSync(folder, { recursive: true, force: true });
}
