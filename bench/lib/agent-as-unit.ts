/** Owns the start of a lab's agent by the door and with the environment that its unit gives it: what is measured is what runs on a device. */
import { copyFileSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { root } from '../watch/tools.ts';
import { heapEnvironment } from '../../src/agent/host/runtime.ts';
import type { Lab } from '../../src/cli/lab/lab.ts';

/** The door of a program that was built into `dist`, where an installation has it: through it the agent begins without the other commands. */
export function installedDoor(program: string): string {
  const folder = join(dirname(program), '..', 'bin');
  mkdirSync(folder, { recursive: true });
  const door = join(folder, 'ringfence.mjs');
  copyFileSync(join(root, 'bin', 'ringfence'), door);
  return door;
}

/** Starts the agent of the lab's first device anew; answers with its process. */
export async function startAsUnit(lab: Lab): Promise<number> {
  const device = lab.device(1);
  await device.stopAgent();
  const before = new Map(Object.keys(heapEnvironment).map((name) => [name, process.env[name]]));
  Object.assign(process.env, heapEnvironment);
  try {
    await lab.startAgent(device);
    return device.agent?.pid ?? 0;
  } finally {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  }
}
