/** Owns the reading of the kernel's timeouts for silent connections. */
import { readFileSync } from 'node:fs';
import type { EndedSilence } from '../../nft/ended-flows.ts';

/** Seconds, at least, whatever the settings say. */
const least = 180;
/** More is not asked of a set. */
const most = 365 * 86_400;
/** The kernel's default timeout for established TCP connections. */
const fiveDays = 432_000;

const readSetting = (name: string): string => readFileSync(`/proc/sys/net/netfilter/${name}`, 'utf8');

/** For how long both sides of an ended connection must be silent: at least as long as the kernel would have remembered it. */
export function readSilence(read: (name: string) => string = readSetting): EndedSilence {
  const longest = (otherwise: number, ...names: readonly string[]): number => {
    const known = names.flatMap((name) => secondsIn(() => read(`nf_conntrack_${name}`)) ?? []);
    return Math.min(Math.max(least, ...(known.length === 0 ? [otherwise] : known)), most);
  };
  return {
    stream: longest(fiveDays, 'tcp_timeout_established', 'sctp_timeout_established', 'dccp_timeout_open'),
    tuple: longest(least, 'udp_timeout_stream', 'udp_timeout'),
    pair: longest(600, 'generic_timeout', 'gre_timeout_stream'),
  };
}

/** Nothing where a kernel does not have the setting. */
function secondsIn(read: () => string): number | undefined {
  try {
    const seconds = Number(read());
    return Number.isFinite(seconds) ? seconds : undefined;
  } catch {
    return undefined;
  }
}
