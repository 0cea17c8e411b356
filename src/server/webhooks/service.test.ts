/** Proves when the webhook service checks devices: after a start or an outage, only once devices had time to reconnect. */
import { expect, onTestFinished, test, vi } from 'vitest';
import { processSlices } from '../scheduling/time-slices.ts';
import { startWebhooks, type WebhookServiceOptions } from './service.ts';

test('nothing is looked at in the first minute, nor in the first after the database was away', async () => {
  let now = 0;
  let isAway = false;
  const calls = { ping: 0, failure: 0, look: 0 };
  const store = {
    async ping() {
      if (isAway) throw new Error('away');
      calls.ping += 1;
    },
    webhooks: {
      async claimScan() {
        if (isAway) throw new Error('away');
        calls.look += 1;
        return undefined;
      },
      claimDeliveries: async () => [],
    },
  };
  const service = startWebhooks({
    store: store as unknown as WebhookServiceOptions['store'],
    convergence: { read: async () => ({ revision: 0, devices: [] }) },
    slices: processSlices(),
    hosts: [],
    clock: () => now,
    random: () => 0,
    outcomes: { inc: () => {} },
    onWarning: () => (calls.failure += 1),
    settings: { settleMs: 60_000, workEveryMs: 1 },
  });
  onTestFinished(() => service.close());
  /** Twice, so that one began and ended after this call. */
  const again = (name: keyof typeof calls) => {
    const before = calls[name];
    return vi.waitFor(() => expect(calls[name]).toBeGreaterThan(before + 1), { timeout: 60_000, interval: 2 });
  };

  await again('ping');
  now = 59_999;
  await again('ping');
  expect(calls.look).toBe(0);
  now = 60_000;
  await again('look');

  isAway = true;
  await again('failure');
  isAway = false;
  await again('ping');
  const looks = calls.look;
  now = 119_999;
  await again('ping');
  expect(calls.look).toBe(looks);
  now = 120_000;
  await again('look');
});
