/** Proves the limits on open streams: they are exact, released, shared by processes, and independent of a frozen process. */
import { expect, test, vi } from 'vitest';
import {
  counterTimeoutMs,
  LocalStreamQuota,
  SharedStreamQuota,
  StreamCounts,
  type StreamBound,
  type StreamClaim,
  type StreamCounter,
  type StreamQuota,
} from './stream-quota.ts';

const limits = { perUserCredential: 3, perDeviceToken: 2, perOrganization: 5, waits: 2 };
const user = (credential: string, organization = 'acme'): StreamClaim => ({ kind: 'user', credential, organization });
const device = (credential: string, organization = 'acme'): StreamClaim => ({
  kind: 'device',
  credential,
  organization,
});

/** Takes reservations one after the other; gives what came of each. */
async function takeAll(streamQuota: StreamQuota, claims: readonly StreamClaim[]): Promise<readonly string[]> {
  const outcomes: string[] = [];
  for (const claim of claims) {
    const reservation = await streamQuota.take(claim);
    outcomes.push(typeof reservation === 'string' ? reservation : 'taken');
  }
  return outcomes;
}

test('a user’s credential, a device’s token and an organization have each their own bound', async () => {
  const claims = [user('a'), user('a'), user('a'), user('a'), device('d'), device('d'), device('d'), user('b')];
  expect(await takeAll(new LocalStreamQuota(limits), claims)).toEqual([
    'taken',
    'taken',
    'taken',
    'credential',
    'taken',
    'taken',
    'credential',
    'organization',
  ]);
});

test('a reservation that is given back, once or twice, is free once; nothing is remembered of those that are gone', async () => {
  const streamQuota = new LocalStreamQuota(limits);
  const reservation = await streamQuota.take(device('d'));
  await streamQuota.take(device('d'));
  if (typeof reservation === 'string') throw new Error(reservation);
  reservation.release();
  reservation.release();
  expect(await takeAll(streamQuota, [device('d'), device('d')])).toEqual(['taken', 'credential']);
  const counts = new StreamCounts(limits);
  counts.add(user('a'));
  counts.remove(user('a'));
  expect(counts.size).toBe(0);
});

/** A counting process that answers only when the test says so. */
class Counter implements StreamCounter {
  readonly counts = new StreamCounts(limits);
  readonly asked: number[] = [];
  frozen = false;
  readonly #late: (() => void)[] = [];

  add(claims: readonly StreamClaim[]): Promise<readonly (StreamBound | undefined)[]> {
    this.asked.push(claims.length);
    const answer = (): (StreamBound | undefined)[] => claims.map((claim) => this.counts.add(claim));
    if (!this.frozen) return Promise.resolve(answer());
    return new Promise((resolve) => this.#late.push(() => resolve(answer())));
  }

  remove(claim: StreamClaim): void {
    this.counts.remove(claim);
  }

  thaw(): void {
    this.frozen = false;
    for (const answer of this.#late.splice(0)) answer();
  }
}

test('processes that share a counter have one bound together, and claims that come together are one question', async () => {
  const counter = new Counter();
  const [one, other] = [new SharedStreamQuota(counter, limits), new SharedStreamQuota(counter, limits)];
  const first = await Promise.all([one.take(user('a')), one.take(user('a'))]);
  expect(counter.asked).toEqual([2]);
  expect(await takeAll(other, [user('a'), user('a')])).toEqual(['taken', 'credential']);
  const [reservation] = first;
  if (reservation === undefined || typeof reservation === 'string') throw new Error('no reservation');
  reservation.release();
  await Promise.resolve();
  expect(await takeAll(other, [user('a'), user('a')])).toEqual(['taken', 'credential']);
});

test('what a process has reached by itself is refused without asking', async () => {
  const counter = new Counter();
  const streamQuota = new SharedStreamQuota(counter, limits);
  expect(await takeAll(streamQuota, [device('d'), device('d'), device('d')])).toEqual(['taken', 'taken', 'credential']);
  expect(counter.asked).toEqual([1, 1]);
});

test('while the counting process is frozen, a process goes by its own counts; later the counts are true again', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout'] });
  try {
    const counter = new Counter();
    const streamQuota = new SharedStreamQuota(counter, limits);
    counter.counts.add(device('d'));
    counter.frozen = true;
    const claims = [streamQuota.take(device('d')), streamQuota.take(device('d'))];
    await new Promise((resolve) => setImmediate(resolve));
    await vi.advanceTimersByTimeAsync(counterTimeoutMs);
    const taken = await Promise.all(claims);
    expect(taken.map((reservation) => typeof reservation)).toEqual(['object', 'object']);
    counter.thaw();
    for (const reservation of taken) if (typeof reservation !== 'string') reservation.release();
    await new Promise((resolve) => setImmediate(resolve));
    // One of them was counted and is free again; the other never was.
    expect(counter.counts.add(device('d'))).toBeUndefined();
    expect(counter.counts.add(device('d'))).toBe('credential');
  } finally {
    vi.useRealTimers();
  }
});

test('whoever waits has a bound of its own, and waiting takes no reservation from streams', async () => {
  const wait = (credential: string): StreamClaim => ({ kind: 'wait', credential });
  const streamQuota = new LocalStreamQuota({ ...limits, perOrganization: 1 });
  expect(await takeAll(streamQuota, [wait('a'), wait('a'), wait('a'), wait('b'), user('c'), user('c')])).toEqual([
    'taken',
    'taken',
    'credential',
    'taken',
    'taken',
    'organization',
  ]);
});
