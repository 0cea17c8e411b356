/** Proves who shares a stream, when there is none, and that pages which crash or hide leave nothing behind. */
import { expect, test } from 'vitest';
import { RingfenceError } from '../../client/error.ts';
import { FakeClock, fakeNetwork, FakeStream, turn } from '../../client/fake.fixture.ts';
import { change, tail } from '../../client/informer.fixture.ts';
import { createInformer } from '../../client/informer.ts';
import { device, organization } from '../../client/records.fixture.ts';
import { SharedStreams, type StreamSubject, type WorkerMessage } from './shared-streams.ts';

const subject = (more: Partial<StreamSubject> = {}): StreamSubject => ({
  organization,
  user: 'ada',
  token: 'rf_user_ada',
  ...more,
});

/** Streams whose informers only say whether they run; each fails when it is told to. */
function shared(graceTicks = 2) {
  const clock = new FakeClock();
  const made: { readonly subject: StreamSubject; runs: boolean; fail: (error: unknown) => void }[] = [];
  const streams = new SharedStreams({
    graceTicks,
    clock,
    newInformer: (of) => {
      const one = { subject: of, runs: false, fail: ((): void => undefined) as (error: unknown) => void };
      made.push(one);
      return {
        run: ({ signal }) =>
          new Promise((resolve, reject) => {
            one.runs = true;
            one.fail = reject;
            signal.addEventListener('abort', () => {
              one.runs = false;
              resolve();
            });
          }),
        onChange: () => () => undefined,
        onState: () => () => undefined,
        whenSynced: () => new Promise(() => {}),
        view: (kind) => ({ kind, size: 0, get: () => undefined, *[Symbol.iterator]() {} }),
        retryNow: () => undefined,
        state: { phase: 'live', since: 0, failures: 0 },
      };
    },
  });
  const page = (of: StreamSubject) => {
    const told: WorkerMessage[] = [];
    const say = streams.connect((message) => told.push(message));
    return {
      told,
      follow: (as = of) => say({ type: 'follow', subject: as, version: undefined }),
      leave: () => say({ type: 'leave' }),
    };
  };
  const running = (): number => made.filter(({ runs }) => runs).length;
  return { clock, made, page, running };
}

test('pages of one organization and one credential share a stream; it ends after the last of them', async () => {
  const { clock, made, page, running } = shared();
  const [one, two] = [page(subject()), page(subject())];
  one.follow();
  two.follow();
  await turn();
  expect([made.length, running()]).toEqual([1, 1]);
  one.leave();
  await clock.advance(10_000);
  expect(running()).toBe(1);
  two.leave();
  await clock.advance(1_000);
  expect(running()).toBe(1);
  await clock.advance(2_000);
  expect(running()).toBe(0);
  // The copy is still there for a page that comes back, but not for ever.
  one.follow();
  await turn();
  expect([made.length, running()]).toEqual([1, 1]);
  one.leave();
  await clock.advance(601_000);
  expect(clock.timers).toBe(0);
  one.follow();
  await turn();
  expect([made.length, running()]).toEqual([2, 1]);
});

test('another token, user or organization has a stream of its own, and a page that changes leaves its old one', async () => {
  const { clock, made, page, running } = shared();
  const one = page(subject());
  one.follow();
  for (const other of [{ token: 'rf_user_other' }, { token: undefined }, { user: 'eve', token: undefined }]) {
    one.follow(subject(other));
    await clock.advance(3_000);
    expect(made.at(-1)).toMatchObject({ subject: other, runs: true });
    expect(running()).toBe(1);
  }
  expect(made).toHaveLength(4);
});

test('a page that crashed is forgotten after half a minute of silence; one that shows itself is not', async () => {
  const { clock, page, running } = shared();
  const [one, other] = [page(subject()), page(subject({ token: 'rf_user_other' }))];
  one.follow();
  other.follow();
  for (let seconds = 0; seconds < 60; seconds += 5) {
    other.follow();
    await clock.advance(5_000);
  }
  expect(running()).toBe(1);
  expect(other.told.some(({ type }) => type === 'alive')).toBe(true);
});

test('streams of more than three organizations take turns, and everyone has one before anybody has a second', async () => {
  const { clock, made, page, running } = shared();
  const pages = Array.from({ length: 7 }, (_, number) => page(subject({ token: `rf_user_${number}` })));
  const had = new Set<unknown>();
  for (let seconds = 0; seconds < 15; seconds += 1) {
    for (const one of pages) one.follow();
    await clock.advance(1_000);
    expect(running()).toBe(3);
    for (const { subject: of, runs } of made) if (runs) had.add(of.token);
  }
  expect(had.size).toBe(7);
});

test('without grace a stream ends with the word of the page that leaves, because a frozen page does nothing later', async () => {
  const { page, running } = shared(0);
  const one = page(subject());
  one.follow();
  await turn();
  expect(running()).toBe(1);
  one.leave();
  expect(running()).toBe(0);
});

test('a failure reaches every page once, and who asks again gets a new stream', async () => {
  const { made, page, running } = shared();
  const pages = [page(subject()), page(subject())];
  for (const one of pages) one.follow();
  await turn();
  made[0]?.fail(new RingfenceError({ code: 'unauthenticated', message: 'no', status: 401 }));
  await turn();
  for (const { told } of pages)
    expect(told.at(-1)).toMatchObject({ type: 'failed', error: { code: 'unauthenticated', status: 401 } });
  for (const one of pages) one.follow();
  await turn();
  expect([made.length, running()]).toEqual([2, 2]);
});

test('a page that comes later gets all records; one that comes back and missed nothing gets none', async () => {
  const opened: FakeStream[] = [];
  const { client, clock } = fakeNetwork(({ signal }) => {
    const next = new FakeStream(signal);
    opened.push(next);
    return next.response;
  });
  const streams = new SharedStreams({
    graceTicks: 2,
    clock,
    newInformer: () => createInformer({ client, organization, kinds: ['device', 'security-groups'] }),
  });
  const send = async (...documents: readonly object[]): Promise<void> => {
    await turn(5);
    opened[0]?.send(...documents);
    await turn(5);
  };
  const told: WorkerMessage[] = [];
  const say = streams.connect((message) => told.push(message));
  say({ type: 'follow', subject: subject(), version: undefined });
  await send(change(device(1, 1), 'device'), tail('device'), tail('security-groups'));
  expect(told[0]).toMatchObject({ type: 'records', devices: [] });
  expect(told.at(-1)).toMatchObject({ type: 'status', synced: true, connection: { phase: 'live' } });
  await send(change(device(2, 2), 'device'));
  const changes = told.findLast(({ type }) => type === 'changes');
  expect(changes).toMatchObject({ changes: [{ type: 'added', new: { id: device(2, 2).id } }] });
  const version = changes?.type === 'changes' ? changes.version : undefined;
  const kinds = (): readonly string[] => told.map(({ type }) => type);
  say({ type: 'leave' });
  told.length = 0;
  say({ type: 'follow', subject: subject(), version });
  expect(kinds()).not.toContain('records');
  say({ type: 'leave' });
  await send(change(device(3, 3), 'device'));
  told.length = 0;
  say({ type: 'follow', subject: subject(), version });
  expect(told[0]).toMatchObject({ type: 'records', devices: [{}, {}, {}] });
});
