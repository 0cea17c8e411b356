/** Owns SHA-256 by the runtime's own implementation: `#sha256` in package.json resolves to this file on Node. */

let hash: typeof import('node:crypto').hash | undefined;

/** 64 hex digits. What makes them is loaded for the first: a tenth of a short command. */
export const sha256Hex = (data: string | Uint8Array): string =>
  (hash ??= process.getBuiltinModule('node:crypto').hash)('sha256', data, 'hex');
