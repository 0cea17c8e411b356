/** Owns the interface of tokens in the store. */
import type { TokenScope } from './records.ts';

/** SHA-256 of a secret, 32 bytes. The secret itself never enters the store. */
export type Digest = Uint8Array;

export interface NewToken {
  readonly digest: Digest;
  readonly name: string;
  readonly scope: TokenScope;
  readonly expires_at?: Date | undefined;
}
