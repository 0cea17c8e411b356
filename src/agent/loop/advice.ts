/** Owns what an operator can do about a step that fails. */
import { NftError, type NftErrorCode } from '../kernel/nft.ts';
import { StateUnwritable } from '../state/state-folder.ts';

const advice: { readonly [C in NftErrorCode]: string | undefined } = {
  timed_out:
    'the policy may be too large for this device: fewer ranges, rules or groups help, or less load on the device',
  interrupted: 'look whether the system ended nft for lack of memory',
  refused: 'look whether kernel and nftables are new enough, and in the log of the kernel',
  not_permitted: 'run the agent as root or with CAP_NET_ADMIN',
  missing: 'install nftables',
  no_scratch: 'make room in the state directory',
  unreadable: 'look whether nftables is new enough',
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
        ? 'make room on the file system of the state directory, or make it writable'
        : undefined;
  return { ...(code !== undefined && { code }), ...(text !== undefined && { advice: text }) };
}
