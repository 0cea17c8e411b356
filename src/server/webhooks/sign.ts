/** Owns the signature of a delivery, as defined by Standard Webhooks (https://www.standardwebhooks.com), which many libraries verify. */
import { createHmac } from 'node:crypto';

export interface Delivery {
  /** The same in every attempt, so that a receiver can detect duplicates. */
  readonly id: string;
  readonly body: string;
}

/** The headers that prove who sent the body and when. */
export function signedHeaders(secret: string, { id, body }: Delivery, seconds: number): Record<string, string> {
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  const signature = createHmac('sha256', key).update(`${id}.${seconds}.${body}`).digest('base64');
  return { 'webhook-id': id, 'webhook-timestamp': String(seconds), 'webhook-signature': `v1,${signature}` };
}
