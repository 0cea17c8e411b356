/** Owns SHA-256, wherever JavaScript runs. Programs for Node are built with `src/node/sha256.ts` in its place (decision 0047). */
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';

/** 64 hex digits. */
export const sha256Hex = (data: string | Uint8Array): string =>
  bytesToHex(sha256(typeof data === 'string' ? utf8ToBytes(data) : data));
