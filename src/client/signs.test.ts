/** Proves the signs of life of a stream by a clock that is set by hand: how often, by which way, and what a server that cannot be reached means for the stream. */
import { describe, expect, it, vi } from 'vitest';
import { RingfenceError } from './error.ts';
import { FakeStream, fakeNetwork, json, turn } from './fake.fixture.ts';
import { createInformer } from './informer.ts';
import { organization } from './records.fixture.ts';
import type { FetchResponse } from './request.ts';
import { watch } from './watch.ts';

const items = [{ kind: 'device' }] as const;
const unreachable = new RingfenceError({ code: 'unreachable', message: 'no route' });

/** A request that ends with its signal alone. */
const unanswered = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));

/** A stream that is answered like this, and read in the background. */
async function follow(
  answer: (stream: FakeStream) => FetchResponse,
  request: (signal: AbortSignal) => Promise<unknown> = () => Promise.resolve(),
) {
  let stream: FakeStream | undefined;
  const network = fakeNetwork(({ signal }) => answer((stream = new FakeStream(signal))));
  const asked = vi.fn(request);
  const ended = (async (): Promise<unknown> => {
    try {
      for await (const _ of watch(network.client, organization, items, { signs: { request: asked } }));
      return 'ended';
    } catch (error) {
      return error instanceof RingfenceError ? error.code : error;
    }
  })();
  await turn(4);
  if (stream === undefined) throw new Error('no stream was opened');
  return { ...network, stream, asked, ended };
}

const applied = {
  'content-type': 'application/json;stream=watch',
  'preference-applied': 'signs-of-life=20, heartbeat=15',
};
const oneWay = ({ response }: FakeStream): FetchResponse => new Response(response.body, { headers: applied });

describe('a stream that goes both ways', () => {
  it('carries a line feed at the interval that the server tells, the first one sooner', async () => {
    const written: string[] = [];
    const { seen, clock, stream, asked } = await follow((one) => ({
      ...one.twoWay(),
      write: (text) => written.push(text),
    }));
    expect(seen[0]).toMatchObject({ upgrade: 'ringfence-watch', headers: { prefer: 'signs-of-life' } });
    for (let second = 0; second < 60; second += 1) {
      stream.push('\n');
      await clock.advance(1_000);
    }
    // After 10 (the half, by chance), 30 and 50 seconds.
    expect(written).toEqual(['\n', '\n', '\n']);
    expect(asked).not.toHaveBeenCalled();
    stream.end();
  });

  it('is dead after ten seconds without the heartbeat that is due', async () => {
    const { clock, stream, ended } = await follow((one) => one.twoWay());
    stream.push('\n');
    await clock.advance(24_900);
    expect(stream.closed).toBe(false);
    await clock.advance(200);
    expect(await ended).toBe('silent');
    expect(clock.timers).toBe(0);
  });

  it('ends in good order by its last line, and is cut off without it', async () => {
    const clean = await follow((one) => one.twoWay());
    clean.stream.push('{"type":"tail"}\n{"type":"end"}\n');
    clean.stream.end();
    expect(await clean.ended).toBe('ended');
    const cut = await follow((one) => one.twoWay());
    cut.stream.push('{"type":"tail"}\n');
    cut.stream.end();
    expect(await cut.ended).toBe('cut_off');
  });

  it('never shows signs more often than four times a second, whatever the server asks for', async () => {
    const written: string[] = [];
    const { clock, stream } = await follow((one) => ({
      ...one.twoWay('signs-of-life=0.001, heartbeat=15'),
      write: (text) => written.push(text),
    }));
    await clock.advance(2_000);
    expect(written.length).toBeLessThanOrEqual(8);
    stream.end();
  });
});

describe('a stream that a proxy keeps to one way', () => {
  it('has requests beside it, and is dead when the server cannot be reached by them', async () => {
    let isGone = false;
    const { clock, stream, asked, ended } = await follow(oneWay, () =>
      isGone ? Promise.reject(unreachable) : Promise.resolve(),
    );
    stream.push('\n');
    await clock.advance(15_000);
    stream.push('\n');
    expect(asked).toHaveBeenCalledTimes(1);
    isGone = true;
    await clock.advance(16_000);
    expect(asked).toHaveBeenCalledTimes(2);
    expect(await ended).toBe('unreachable');
  });

  it('is dead when a request is not answered within ten seconds, and lives on when it is refused', async () => {
    const refused = new RingfenceError({ code: 'rate_limited', message: 'too often', status: 429 });
    const answers = [() => Promise.reject(refused), unanswered];
    const { clock, stream, ended } = await follow(oneWay, (signal) => answers.shift()?.(signal) ?? Promise.resolve());
    for (let second = 0; second < 39; second += 1) {
      stream.push('\n');
      await clock.advance(1_000);
    }
    expect(stream.closed).toBe(false);
    await clock.advance(1_000);
    expect(await ended).toBe('timed_out');
  });

  it('has none at a server that does not ask for signs', async () => {
    const { clock, stream, asked } = await follow(({ response }) => response);
    await clock.advance(39_000);
    expect(asked).not.toHaveBeenCalled();
    stream.end();
  });
});

describe('an informer', () => {
  it('does without what something on the way refuses, every other time, and waits at most five seconds where nothing answers', async () => {
    const answers: (() => FetchResponse)[] = [
      () => new Response('no', { status: 400 }),
      () => new Response('no', { status: 502 }),
      () => json({}, { status: 500, headers: { 'x-request-id': 'r' } }),
    ];
    const { client, clock, seen } = fakeNetwork(
      () => {
        const answer = answers.shift();
        if (answer === undefined) throw new TypeError('fetch failed');
        return answer();
      },
      { random: () => 1 },
    );
    const end = new AbortController();
    const signs = { request: () => Promise.resolve() };
    const informer = createInformer({ client, organization, kinds: ['device'], signs, giveUp: () => false });
    const running = informer.run({ signal: end.signal });
    await clock.advance(7_000);
    expect(seen.slice(0, 4).map(({ upgrade }) => upgrade !== undefined)).toEqual([true, false, true, true]);
    await clock.advance(60_000);
    expect(clock.next).toBeLessThanOrEqual(5_000);
    expect(seen.length).toBeGreaterThan(12);
    end.abort();
    await running;
  });
});
