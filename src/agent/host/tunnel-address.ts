/** Owns the lookup of this device's address on its driver interface. */
import { isObject } from '../../policy/json.ts';
import type { Run } from './run-command.ts';

/** The interface's first address that reaches beyond the link, IPv4 before IPv6; nothing where it has none, or cannot tell. */
export async function tunnelAddress(run: Run, name: string | undefined): Promise<string | undefined> {
  if (name === undefined) return undefined;
  try {
    const { code, stdout } = await run(['ip', '-j', 'address', 'show', 'dev', name]);
    return code === 0 ? firstAddress(JSON.parse(stdout)) : undefined;
  } catch {
    return undefined; // It is a courtesy to those who read the device's record, and no reason not to enroll.
  }
}

function firstAddress(links: unknown): string | undefined {
  const addresses = (Array.isArray(links) ? (links as readonly unknown[]) : [])
    .flatMap((link): unknown => (isObject(link) ? link['addr_info'] : []))
    .filter(isObject)
    .filter(({ scope }) => scope === 'global');
  const of = (family: string): unknown => addresses.find((address) => address['family'] === family)?.['local'];
  const found = of('inet') ?? of('inet6');
  return typeof found === 'string' ? found : undefined;
}
