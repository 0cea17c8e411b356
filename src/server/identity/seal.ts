/** Owns the encryption of data that is stored with a session and can be read only with that session's secret. */
import { createCipheriv, createDecipheriv, createHash } from 'node:crypto';
import type { Random } from './secret.ts';

const nonceBytes = 12;
const tagBytes = 16;

/** The secret has 256 random bits, so a digest is a key; another one than is stored. */
const keyOf = (secret: string): Buffer => createHash('sha256').update(`seal ${secret}`, 'utf8').digest();

export function seal(secret: string, text: string, random: Random): Uint8Array {
  const nonce = new Uint8Array(nonceBytes);
  random(nonce);
  const cipher = createCipheriv('aes-256-gcm', keyOf(secret), nonce);
  const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
  return Buffer.concat([nonce, cipher.getAuthTag(), body]);
}

/** Undefined for anything that was not sealed with this secret. */
export function unseal(secret: string, sealed: Uint8Array): string | undefined {
  try {
    const cipher = createDecipheriv('aes-256-gcm', keyOf(secret), sealed.subarray(0, nonceBytes));
    cipher.setAuthTag(sealed.subarray(nonceBytes, nonceBytes + tagBytes));
    const body = sealed.subarray(nonceBytes + tagBytes);
    return Buffer.concat([cipher.update(body), cipher.final()]).toString('utf8');
  } catch {
    return undefined;
  }
}
