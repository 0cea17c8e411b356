/** Owns the advice to an operator about a step that fails. */
import { NftError, type NftErrorCode } from '../kernel/nft.ts';
import { StateUnwritable } from '../state/state-folder.ts';

const advice: { readonly [C in NftErrorCode]: string | undefined } = {
  timed_out:
    'the policy may be too large for this device: use fewer ranges, rules or groups, or reduce the load on the device',
  interrupted: 'check whether the system killed nft because of low memory',
  refused: 'check that the kernel and nftables are recent enough, and read the kernel log',
  not_permitted: 'run the agent as root or with CAP_NET_ADMIN',
  missing: 'install nftables',
  no_scratch: 'free disk space in the state directory',
  unreadable: 'check that nftables is recent enough',
  closed: undefined,
};

/** A stable code for programs, and a sentence for people; nothing where there is nothing to say. */
export function adviceFor(error: unknown): { readonly code?: string; readonly advice?: string } {
  if (!(error instanceof Error)) return {};
  const code = 'code' in error && typeof error.code === 'string' ? error.code : undefined;
  const text =
    error instanceof NftError
      ? advice[error.code]
      : error instanceof StateUnwritable
        ? 'free disk space on the file system of the state directory, or make it writable'
        : undefined;
  return { ...(code !== undefined && { code }), ...(text !== undefined && { advice: text }) };
}
