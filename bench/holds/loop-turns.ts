/** Owns the longest hold of the event loop: the processor time of its thread in one turn, whatever else the machine does meanwhile. */
import { closeSync, openSync, readSync } from 'node:fs';
import { Session, type Profiler } from 'node:inspector/promises';

/** One turn of the loop that took long; times in microseconds of the monotonic clock. */
interface Turn {
  readonly from: number;
  readonly to: number;
  readonly processorMs: number;
}

const microseconds = (): number => Number(process.hrtime.bigint() / 1_000n);

/** What the samples of a profile between two times were in, most first. */
function namesIn({ nodes, samples = [], timeDeltas = [], startTime }: Profiler.Profile, { from, to }: Turn): string {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const parents = new Map(nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id] as const)));
  const counts = new Map<string, number>();
  let at = startTime;
  for (const [index, sample] of samples.entries()) {
    at += timeDeltas[index] ?? 0;
    if (at < from || at > to) continue;
    const names = new Set<string>();
    for (let id: number | undefined = sample; id !== undefined; id = parents.get(id)) {
      const { functionName = '', url = '' } = byId.get(id)?.callFrame ?? {};
      if (functionName !== '' && functionName !== '(root)' && !url.startsWith('node:')) names.add(functionName);
    }
    for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return [...counts]
    .toSorted((a, b) => b[1] - a[1])
    .slice(0, 8)
    .map(([name, count]) => `${name} ${count}`)
    .join(', ');
}

export interface Hold {
  readonly ms: number;
  /** What ran meanwhile, with `named`. */
  readonly names: string;
}

/** Does the work, and gives the longest turn of the loop until it is done. `named` samples what ran, which itself costs something. */
export async function longestHold(work: () => Promise<unknown>, named: boolean): Promise<Hold> {
  const file = openSync('/proc/self/schedstat', 'r');
  const buffer = Buffer.alloc(100);
  const processorTime = (): number => {
    const length = readSync(file, buffer, 0, buffer.length, 0);
    return Number(buffer.toString('latin1', 0, length).split(' ')[0]) / 1e6;
  };
  const session = named ? new Session() : undefined;
  session?.connect();
  await session?.post('Profiler.enable');
  await session?.post('Profiler.setSamplingInterval', { interval: 200 });
  await session?.post('Profiler.start');
  let longest: Turn = { from: 0, to: 0, processorMs: 0 };
  let done = false;
  const watching = new Promise<void>((resolve) => {
    let [from, before] = [microseconds(), processorTime()];
    const turn = (): void => {
      const [to, now] = [microseconds(), processorTime()];
      if (now - before > longest.processorMs) longest = { from, to, processorMs: now - before };
      [from, before] = [to, processorTime()];
      if (done) resolve();
      else setImmediate(turn);
    };
    setImmediate(turn);
  });
  try {
    await work();
  } finally {
    done = true;
    await watching;
    closeSync(file);
  }
  const profile = await session?.post('Profiler.stop');
  session?.disconnect();
  return { ms: longest.processorMs, names: profile === undefined ? '' : namesIn(profile.profile, longest) };
}
