/** Owns the search for the worst policies that the limits admit: by what the kernel has to load and what we compute. */
import { compile } from '../../src/nft/compile/compile.ts';
import { parseInterfaceName } from '../../src/nft/names.ts';
import { install } from '../../src/nft/plan/plan.ts';
import { printCommands } from '../../src/nft/print.ts';
import { canonicalize } from '../../src/policy/canonicalize.ts';
import {
  addressKinds,
  familyKinds,
  numbers,
  portKinds,
  protocolKinds,
  withinLimits,
  worstPolicy,
  type Shape,
} from '../../src/policy/worst-policies.fixture.ts';
import { table } from '../lib/table.ts';
import { loadOf, milliseconds, type Load } from './load.ts';

const where = { interface: parseInterfaceName('rf0'), neighbourDiscovery: true, salt: '' };

interface Found {
  readonly shape: Shape;
  readonly load: Load;
  /** Milliseconds of our own processor time, and what the load is expected to take the kernel. */
  readonly own: number;
  readonly kernel: number;
  readonly bytes: number;
}

function weigh(shape: Shape): Found {
  const policy = worstPolicy(shape);
  const before = process.cpuUsage();
  const ruleset = compile(canonicalize(policy), where);
  const { length: bytes } = printCommands(install(ruleset));
  const { user, system } = process.cpuUsage(before);
  const load = loadOf(ruleset);
  return { shape: withinLimits(shape), load, own: (user + system) / 1_000, kernel: milliseconds(load), bytes };
}

const score = ({ own, kernel }: Found): number => own + kernel;

function draw(below: (n: number) => number): Shape {
  const pick = <T>(all: readonly T[]): T => all[below(all.length)] as T;
  return {
    groups: pick([1, 2, 3, 5, 8, 16, 32, 64]),
    rules: pick([1, 10, 50, 100, 200, 400, 780, 1_000]),
    ranges: pick([1, 2, 3, 5, 10, 25, 50, 100, 1_000]),
    addresses: pick(addressKinds),
    ports: pick(portKinds),
    protocols: pick(protocolKinds),
    families: pick(familyKinds),
    directions: pick([1, 2]),
    seed: below(1_000),
  };
}

/** Another shape that differs in one or two properties. */
function change(shape: Shape, below: (n: number) => number): Shape {
  const other = draw(below);
  const keys = Object.keys(shape) as (keyof Shape)[];
  const changed = new Set([keys[below(keys.length)], keys[below(keys.length)]]);
  return Object.fromEntries(keys.map((key) => [key, (changed.has(key) ? other : shape)[key]])) as unknown as Shape;
}

/** Climbs from several random beginnings, always to the worst neighbour seen. The same seed takes the same way. */
export function searchWorst(seed = 1, climbs = 6, steps = 25): void {
  const below = numbers(seed);
  const best: Found[] = [];
  for (let climb = 0; climb < climbs; climb++) {
    let here = weigh(draw(below));
    for (let step = 0; step < steps; step++) {
      const next = weigh(change(here.shape, below));
      if (score(next) > score(here)) here = next;
    }
    best.push(here);
    const { shape, load, own, kernel, bytes } = here;
    console.log(
      `${JSON.stringify(shape)} ${JSON.stringify(load)} ours ${own.toFixed(0)} ms, kernel about ${kernel.toFixed(0)} ms, ${(bytes / 1e6).toFixed(1)} MB`,
    );
  }
  const worst = best.toSorted((a, b) => score(b) - score(a));
  console.log(
    `\nThe worst policies of ${climbs} climbs of ${steps} steps (ms of the processor: ours as measured, the kernel’s by the load):\n`,
  );
  console.log(
    table(
      ['shape', 'chains', 'rules', 'sets', 'elements', 'ours', 'kernel'],
      worst.map(({ shape, load, own, kernel }) => [
        JSON.stringify(shape),
        load.chains,
        load.rules,
        load.sets,
        load.ranges + load.hosts + load.entries,
        own,
        kernel,
      ]),
    ),
  );
}
