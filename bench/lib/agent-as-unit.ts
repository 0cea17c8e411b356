/** Owns a lab over TLS on the packaged runtime, and the start of its agent by the door and with the environment that its unit gives it: what is measured is what runs on a device. */
import { copyFileSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { heapEnvironment } from '../../src/agent/host/runtime.ts';
import { Lab } from '../../dev/lab/lab.ts';
import { relayAddress } from '../../dev/lab/topology.ts';
import { root } from '../watch/tools.ts';
import { shippedRuntime } from './shipped-runtime.ts';
import { makeCertificate, type BenchTls } from './tls.ts';

/** The door of a program that was built into `dist`, where an installation has it: through it the agent begins without the other commands. */
export function installedDoor(program: string): string {
  const folder = join(dirname(program), '..', 'bin');
  mkdirSync(folder, { recursive: true });
  const door = join(folder, 'ringfence.mjs');
  copyFileSync(join(root, 'bin', 'ringfence'), door);
  return door;
}

export interface TlsLabOptions {
  readonly program: string;
  /** For programs that are built on the way. */
  readonly folder: string;
  readonly devices: number;
}

export async function openTlsLab({
  program,
  folder,
  devices,
}: TlsLabOptions): Promise<{ readonly lab: Lab; readonly tls: BenchTls }> {
  const tls = makeCertificate(folder);
  const lab = await Lab.open({
    devices,
    tunnel: 'veth',
    program: [shippedRuntime(folder), installedDoor(program)],
    serverArguments: tls.serverArguments,
    agentArguments: ['--server', `https://${relayAddress.address}:${relayAddress.port}`, '--tls-ca', tls.cert],
  });
  return { lab, tls };
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
