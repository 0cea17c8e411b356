/** Owns how much of the processors the host of a virtual machine takes for others: what was measured meanwhile seems slower than it is. */
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** Above this share of stolen time, a measurement says more about the host than about the program. */
export const robbedShare = 0.05;
const quietShare = 0.02;

interface Ticks {
  readonly stolen: number;
  /** What was asked for, stolen or not. */
  readonly wanted: number;
}

/** Clock ticks since the machine started, of the text of `/proc/stat`. */
export function readTicks(text: string): Ticks {
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, stolen = 0] = (/^cpu +(.*)$/m.exec(text)?.[1] ?? '')
    .split(' ')
    .map(Number);
  return { stolen, wanted: user + nice + system + irq + softirq + stolen };
}

const ticks = (): Ticks => readTicks(readFileSync('/proc/stat', 'utf8'));

/** From now on: gives the share of what all programs asked for that was stolen. */
export function stolenSince(): () => number {
  const before = ticks();
  return () => {
    const { stolen, wanted } = ticks();
    return (stolen - before.stolen) / Math.max(1, wanted - before.wanted);
  };
}

/** Asks for a processor for half a second, and gives the share that it did not get: an idle machine cannot tell what it would get. */
function missedShare(): number {
  const [began, { user, system }] = [performance.now(), process.cpuUsage()];
  while (performance.now() - began < 500);
  const spent = process.cpuUsage();
  return 1 - (spent.user + spent.system - user - system) / 1_000 / (performance.now() - began);
}

/** Waits until the machine is quiet; false when it was not in time. */
export async function quietBefore(until: number): Promise<boolean> {
  while (Date.now() < until) {
    // Twice, some seconds apart: others come in bursts.
    if (missedShare() <= quietShare) {
      await sleep(3_000);
      if (missedShare() <= quietShare) return true;
    }
    await sleep(10_000);
  }
  return false;
}
