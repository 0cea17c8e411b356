/** Owns the lookup of this device's addresses on its driver interface. */
import { isObject } from '../../policy/json.ts';
import type { Run } from './run-command.ts';

/**
 * The interface's addresses that reach beyond the link, IPv4 before IPv6; none where it has none, or cannot tell. Without those that the kernel
 * replaces every day (temporary IPv6 addresses) or does not use because another device has them.
 */
export async function tunnelAddresses(run: Run, name: string | undefined): Promise<readonly string[]> {
  if (name === undefined) return [];
  try {
    const { code, stdout } = await run(['ip', '-j', 'address', 'show', 'dev', name]);
    return code === 0 ? lastingAddresses(JSON.parse(stdout)) : [];
  } catch {
    return []; // It is a courtesy to those who read the device's record, and no reason not to enroll.
  }
}

function lastingAddresses(links: unknown): readonly string[] {
  const addresses = (Array.isArray(links) ? (links as readonly unknown[]) : [])
    .flatMap((link): unknown => (isObject(link) ? link['addr_info'] : []))
    .filter(isObject)
    .filter(({ scope, temporary, dadfailed }) => scope === 'global' && temporary !== true && dadfailed !== true);
  const of = (family: string): readonly unknown[] =>
    addresses.filter((address) => address['family'] === family).map(({ local }) => local);
  return [...new Set([...of('inet'), ...of('inet6')])].filter((local) => typeof local === 'string');
}
