/** Owns SHA-256 of a text by the runtime's own code: what programs for Node hold instead of `src/policy/digest/sha256.ts` (decision 0047). */
import { hash } from 'node:crypto';

/** 64 hex digits. */
export const sha256Hex = (text: string): string => hash('sha256', text, 'hex');
