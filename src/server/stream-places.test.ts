/** Proves the bounds on open streams: exact, given back, shared by processes, and no reason to wait for a frozen one. */
import { expect, test, vi } from 'vitest';
import {
  LocalStreamPlaces,
  SharedStreamPlaces,
  StreamCounts,
  type StreamBound,
  type StreamClaim,
  type StreamCounter,
  type StreamPlaces,
} from './stream-places.ts';

const limits = { perUserCredential: 3, perDeviceToken: 2, perOrganization: 5, waits: 2 };
const user = (credential: string, organization = 'acme'): StreamClaim => ({ kind: 'user', credential, organization });
const device = (credential: string, organization = 'acme'): StreamClaim => ({
  kind: 'device',
  credential,
  organization,
});

/** Takes places one after the other; gives what came of each. */
async function takeAll(places: StreamPlaces, claims: readonly StreamClaim[]): Promise<readonly string[]> {
  const outcomes: string[] = [];
  for (const claim of claims) {
    const place = await places.take(claim);
    outcomes.push(typeof place === 'string' ? place : 'taken');
  }
  return outcomes;
}

test('a user’s credential, a device’s token and an organization have each their own bound', async () => {
  const claims = [user('a'), user('a'), user('a'), user('a'), device('d'), device('d'), device('d'), user('b')];
  expect(await takeAll(new LocalStreamPlaces(limits), claims)).toEqual([
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

test('a place that is given back, once or twice, is free once; nothing is remembered of those that are gone', async () => {
  const places = new LocalStreamPlaces(limits);
  const place = await places.take(device('d'));
  await places.take(device('d'));
  if (typeof place === 'string') throw new Error(place);
  place.release();
  place.release();
  expect(await takeAll(places, [device('d'), device('d')])).toEqual(['taken', 'credential']);
  const counts = new StreamCounts(limits);
  counts.add(user('a'));
  counts.remove(user('a'));
  expect(counts.size).toBe(0);
});

/** A counting process that answers when it is told to. */
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
  const [one, other] = [new SharedStreamPlaces(counter, limits), new SharedStreamPlaces(counter, limits)];
  const first = await Promise.all([one.take(user('a')), one.take(user('a'))]);
  expect(counter.asked).toEqual([2]);
  expect(await takeAll(other, [user('a'), user('a')])).toEqual(['taken', 'credential']);
  const [place] = first;
  if (place === undefined || typeof place === 'string') throw new Error('no place');
  place.release();
  await Promise.resolve();
  expect(await takeAll(other, [user('a'), user('a')])).toEqual(['taken', 'credential']);
});

test('what a process has reached by itself is refused without asking', async () => {
  const counter = new Counter();
  const places = new SharedStreamPlaces(counter, limits);
  expect(await takeAll(places, [device('d'), device('d'), device('d')])).toEqual(['taken', 'taken', 'credential']);
  expect(counter.asked).toEqual([1, 1]);
});

test('while the counting process is frozen, a process goes by its own counts; later the counts are true again', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout'] });
  try {
    const counter = new Counter();
    const places = new SharedStreamPlaces(counter, limits);
    counter.counts.add(device('d'));
    counter.frozen = true;
    const claims = [places.take(device('d')), places.take(device('d'))];
    await new Promise((resolve) => setImmediate(resolve));
    await vi.advanceTimersByTimeAsync(1_000);
    const taken = await Promise.all(claims);
    expect(taken.map((place) => typeof place)).toEqual(['object', 'object']);
    counter.thaw();
    for (const place of taken) if (typeof place !== 'string') place.release();
    await new Promise((resolve) => setImmediate(resolve));
    // One of them was counted and is free again; the other never was.
    expect(counter.counts.add(device('d'))).toBeUndefined();
    expect(counter.counts.add(device('d'))).toBe('credential');
  } finally {
    vi.useRealTimers();
  }
});

test('whoever waits has a bound of its own, and waiting takes no place from streams', async () => {
  const wait = (credential: string): StreamClaim => ({ kind: 'wait', credential });
  const places = new LocalStreamPlaces({ ...limits, perOrganization: 1 });
  expect(await takeAll(places, [wait('a'), wait('a'), wait('a'), wait('b'), user('c'), user('c')])).toEqual([
    'taken',
    'taken',
    'credential',
    'taken',
    'taken',
    'organization',
  ]);
});
