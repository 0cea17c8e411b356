/** Owns the processor time of a program and its children, from the kernel's own accounts: what it costs, however busy the machine is. */
import { readdirSync, readFileSync } from 'node:fs';

/** Microseconds so far. */
export interface ProcessorTime {
  readonly user: number;
  readonly system: number;
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return ''; // It ended meanwhile.
  }
}

/** The process and all that descend from it. */
export function treeOf(pid: number): readonly number[] {
  const children = read(`/proc/${pid}/task/${pid}/children`).trim().split(' ').filter(Boolean).map(Number);
  return [pid, ...children.flatMap(treeOf)];
}

const listed = (path: string): readonly string[] => {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
};

/** Microseconds that the threads of a process have run, to the nanosecond. */
export const ranFor = (pid: number): number =>
  listed(`/proc/${pid}/task`).reduce((sum, task) => {
    const [ran = '0'] = read(`/proc/${pid}/task/${task}/schedstat`).split(' ');
    return sum + Number(ran) / 1_000;
  }, 0);

/** Clock ticks of ten milliseconds, in user mode and in the kernel. */
function ticksOf(pid: number): readonly [number, number] {
  const fields = read(`/proc/${pid}/stat`)
    .replace(/^.*\) /, '')
    .split(' ');
  return [Number(fields[11] ?? 0), Number(fields[12] ?? 0)];
}

interface Spent {
  readonly ran: number;
  readonly user: number;
  readonly system: number;
}

/** Measures one program over any number of stretches of time. What a process did that began and ended within one is not seen. */
export class ProcessorMeter {
  readonly #pids: readonly number[];
  #ran = 0;
  #user = 0;
  #system = 0;
  #from: ReadonlyMap<number, Spent> | undefined;

  /** Of one program or of several, each with its children. */
  constructor(...pids: readonly number[]) {
    this.#pids = pids;
  }

  start(): void {
    this.#from = this.#read();
  }

  stop(): void {
    const [from, to] = [this.#from, this.#read()];
    if (from === undefined) return;
    this.#from = undefined;
    for (const [pid, { ran, user, system }] of to) {
      const before = from.get(pid);
      this.#ran += ran - (before?.ran ?? 0);
      this.#user += user - (before?.user ?? 0);
      this.#system += system - (before?.system ?? 0);
    }
  }

  /** All stretches together: the sum is exact, how it divides is known by clock ticks. */
  get total(): ProcessorTime {
    const share = this.#user / Math.max(1, this.#user + this.#system);
    return { user: this.#ran * share, system: this.#ran * (1 - share) };
  }

  #read(): ReadonlyMap<number, Spent> {
    return new Map(
      this.#pids.flatMap(treeOf).map((pid) => {
        const [user, system] = ticksOf(pid);
        return [pid, { ran: ranFor(pid), user, system }];
      }),
    );
  }
}

/** Microseconds that this process and its children run while they do some work: reading the accounts is no part of it. */
export async function spentBy(work: () => Promise<unknown>): Promise<number> {
  const children = treeOf(process.pid).slice(1);
  const ofChildren = (): number => children.reduce((sum, pid) => sum + ranFor(pid), 0);
  const before = ofChildren();
  const from = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(from);
  return user + system + ofChildren() - before;
}

export const sumOf = ({ user, system }: ProcessorTime): number => user + system;

/** Milliseconds of the processor that a shell's children took, from what its `times` prints: its own, then theirs. */
export const childTimes = (text: string): number =>
  [...(text.trim().split('\n').at(-1) ?? '').matchAll(/(\d+)m([\d.]+)s/g)].reduce(
    (sum, [, minutes, seconds]) => sum + Number(minutes) * 60_000 + Number(seconds) * 1_000,
    0,
  );
