/** Owns the check whether this device forwards packets, read from the kernel's settings. */
import { readFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import type { Forwarding } from '../../nft/compile/base.ts';

export interface Settings {
  read(path: string): string | Promise<string>;
  list(path: string): Promise<readonly string[]>;
}

const families = ['ipv4', 'ipv6'] as const;
const system: Settings = {
  // At once: the kernel has it at hand. Through another thread, each would take sixteen times the processor time, and 64 KB to read two bytes.
  read: (path) => readFileSync(`/proc/sys/net/${path}`, 'utf8'),
  list: (path) => readdir(`/proc/sys/net/${path}`),
};

/**
 * `off` only where every interface of both families says so: a packet is forwarded as its interface of arrival is set.
 * What cannot be read counts as on, because then everything is judged by the rules.
 */
export async function readForwarding(settings: Settings = system): Promise<Forwarding> {
  const isOn = async (path: string): Promise<boolean> => (await settings.read(path)).trim() !== '0';
  try {
    for (const family of families) {
      const interfaces = await settings.list(`${family}/conf`).catch((error: unknown): readonly string[] => {
        if (family === 'ipv6' && error instanceof Error && 'code' in error && error.code === 'ENOENT') return [];
        throw error;
      });
      // The setting for all is what container engines set, so the others are seldom looked at.
      if (interfaces.includes('all') && (await isOn(`${family}/conf/all/forwarding`))) return 'on';
      for (const name of interfaces) {
        // An interface may go while we look.
        if (await isOn(`${family}/conf/${name}/forwarding`).catch(() => false)) return 'on';
      }
    }
    return 'off';
  } catch {
    return 'on';
  }
}
