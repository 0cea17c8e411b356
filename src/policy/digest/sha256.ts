/** Owns SHA-256 in plain JavaScript, for browsers. `#sha256` in package.json is `src/node/sha256.ts` on Node, and this file elsewhere. */
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';

/** 64 hex digits. */
export const sha256Hex = (data: string | Uint8Array): string =>
  bytesToHex(sha256(typeof data === 'string' ? utf8ToBytes(data) : data));
