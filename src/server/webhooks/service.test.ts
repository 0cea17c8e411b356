/** Proves when the webhook service checks devices: after a start or an outage, only once devices had time to reconnect, and no organization late because of others. */
import { expect, onTestFinished, test, vi } from 'vitest';
import { parseOrganizationId, type OrganizationId } from '../../policy/ids.ts';
import { DueWorkLoop } from '../scheduling/due-work.ts';
import { processSlices } from '../scheduling/time-slices.ts';
import type { LookShare } from '../store/webhooks/webhook-row.ts';
import { startWebhooks, type WebhookServiceOptions } from './service.ts';

function startLoop(): DueWorkLoop {
  const leases = { claim: async () => true, release: async () => {} };
  return new DueWorkLoop({ leases, onWarning: () => {} });
}

test('nothing is looked at in the first minute, nor in the first after the database was away', async () => {
  let now = 0;
  let isAway = false;
  const calls = { ping: 0, failure: 0, look: 0 };
  const store = {
    async ping() {
      if (isAway) {
        calls.failure += 1;
        throw new Error('away');
      }
      calls.ping += 1;
    },
    webhooks: {
      async claimScan() {
        if (isAway) {
          calls.failure += 1;
          throw new Error('away');
        }
        calls.look += 1;
        return undefined;
      },
      claimDeliveries: async () => [],
    },
  };
  const loop = startLoop();
  onTestFinished(() => loop.close());
  startWebhooks({
    start: (work) => loop.start(work),
    store: store as unknown as WebhookServiceOptions['store'],
    convergence: { read: async () => ({ revision: 0, devices: [] }) },
    slices: processSlices(),
    hosts: [],
    clock: () => now,
    random: () => 0,
    outcomes: { inc: () => {} },
    onWarning: () => {},
    settings: { settleMs: 60_000, workEveryMs: 1 },
  });
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

test('organizations that take forever to look at keep no other one waiting, and there are few of them at a time', async () => {
  const organization = (n: number): OrganizationId =>
    parseOrganizationId(`00000000-0000-4000-8000-${String(n).padStart(12, '0')}`);
  const late = Array.from({ length: 40 }, (_, n) => organization(n));
  const honest = organization(99);
  // The late ones first: more than have places at a time.
  const due = [...late.slice(0, 10), honest];
  const counts = { begun: 0, underWay: 0, most: 0 };
  const told: OrganizationId[] = [];
  let release = (): void => {};
  const released = new Promise<void>((resolve) => (release = resolve));
  const store = {
    ping: async () => {},
    enrollmentKeys: { list: async () => [] },
    webhooks: {
      async claimScan(_everyMs: number, _own: unknown, share: LookShare) {
        const isAdmitted = (org: OrganizationId): boolean =>
          !share.without.includes(org) && (share.among?.includes(org) ?? true);
        const organization_id = due.find(isAdmitted);
        if (organization_id === undefined) return undefined;
        due.splice(due.indexOf(organization_id), 1);
        return { id: organization_id, organization_id, events: ['device.failed'], offline_after: 900 };
      },
      claimDeliveries: async () => [],
      tell: async ({ organization_id }: { organization_id: OrganizationId }) => told.push(organization_id),
    },
  };
  const loop = startLoop();
  startWebhooks({
    start: (work) => loop.start(work),
    store: store as unknown as WebhookServiceOptions['store'],
    convergence: {
      async read(org) {
        if (org !== honest) {
          counts.begun += 1;
          counts.underWay += 1;
          counts.most = Math.max(counts.most, counts.underWay);
          await released;
          counts.underWay -= 1;
        }
        return { revision: 0, devices: [] };
      },
    },
    slices: processSlices(),
    hosts: [],
    clock: () => 0,
    random: () => 0,
    outcomes: { inc: () => {} },
    onWarning: () => {},
    settings: { settleMs: 0, workEveryMs: 1, slowMs: 1 },
  });
  onTestFinished(async () => {
    release();
    await loop.close();
  });
  await vi.waitFor(() => expect(told).toEqual([honest]), { timeout: 60_000, interval: 2 });
  due.push(...late.slice(10));
  await vi.waitFor(() => expect(counts.underWay).toBe(16), { timeout: 60_000, interval: 2 });
  release();
  await vi.waitFor(() => expect(counts.begun).toBe(40), { timeout: 60_000, interval: 2 });
  expect(counts.most).toBe(16);
});
