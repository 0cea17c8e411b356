/** Proves that a source which must be identified first tries on, tells why it waits, and then is the stream itself. */
import { describe, expect, test } from 'vitest';
import { FakeClock, turn } from '../../client/fake.fixture.ts';
import { FakeSource, groupOf } from '../loop/agent.fixture.ts';
import { connectionLog } from '../report/connection-log.ts';
import { IdentifiedSource } from './identified-policy-source.ts';

function setUp(failures: number) {
  const clock = new FakeClock();
  const inner = new FakeSource();
  const logged: string[] = [];
  let left = failures;
  let attempts = 0;
  const source = new IdentifiedSource({
    identify: async () => {
      attempts += 1;
      if (left-- > 0) throw new Error('no such key');
      return 'me';
    },
    open: () => inner,
    clock,
    random: () => 0.5,
  });
  const tell = connectionLog((level, message) => logged.push(`${level}: ${message}`));
  let news = 0;
  source.onNews(() => {
    news += 1;
    tell(source.connection);
  });
  const abort = new AbortController();
  const ended = source.run({ signal: abort.signal });
  const end = async (): Promise<void> => {
    abort.abort();
    await ended;
  };
  return { clock, inner, source, logged, end, attempts: () => attempts, news: () => news };
}

describe('a source that must be identified first', () => {
  test('knows nothing before, and then what the stream knows', async () => {
    const { source, inner, end, news } = setUp(0);
    expect(source.read()).toMatchObject({ kind: 'unknown', early: true });
    await turn(3);
    expect(source.who).toBe('me');
    expect(inner.running).toBe(true);
    const before = news();
    inner.know(7, groupOf(1, []));
    expect(news()).toBe(before + 1);
    expect(source.read()).toMatchObject({ kind: 'known', revision: 7 });
    expect(source.connection).toBe(inner.connection);
    await end();
  });

  test('tries again after growing waits, and tells each trouble once', async () => {
    const { clock, source, logged, end, attempts, inner } = setUp(6);
    await turn(3);
    expect(source.connection).toMatchObject({ phase: 'waiting', failures: 1, lastError: { message: 'no such key' } });
    await clock.advance(5_000);
    const early = attempts();
    expect(early).toBeGreaterThan(2);
    await clock.advance(120_000);
    expect(attempts()).toBe(7);
    expect(logged).toEqual(['warn: not connected, rules stay as they are; trying again: no such key']);
    inner.know(1, groupOf(1, []));
    expect(logged.at(-1)).toBe('info: following the server again');
    await end();
  });

  test('ends in the middle of a wait when it is told to', async () => {
    const { clock, source, end } = setUp(100);
    await turn(3);
    await end();
    expect(source.who).toBeUndefined();
    expect(clock.timers).toBe(0);
  });
});

test('the log tells of a live stream once, and of each other trouble once', () => {
  const logged: string[] = [];
  const tell = connectionLog((level, message) => logged.push(`${level}: ${message}`));
  const waiting = (message: string) => ({ phase: 'waiting', since: 0, failures: 1, lastError: { message, at: 0 } });
  const live = { phase: 'live', since: 0, failures: 0 };
  tell({ phase: 'connecting', since: 0, failures: 0 });
  tell(live);
  // A stream that reached its age is followed by the next: nobody need know.
  tell({ phase: 'connecting', since: 0, failures: 0 });
  tell(live);
  for (const message of ['away', 'away', 'refused', 'away', 'refused']) tell(waiting(message));
  for (const message of ['read ECONNRESET', 'socket hang up']) {
    const { lastError, ...rest } = waiting(message);
    tell({ ...rest, lastError: { ...lastError, kind: 'unreachable' } });
  }
  tell({ ...live, lastError: { message: 'refused', at: 0 } });
  expect(logged).toEqual([
    'info: following the server',
    'warn: not connected, rules stay as they are; trying again: away',
    'warn: not connected, rules stay as they are; trying again: refused',
    'warn: not connected, rules stay as they are; trying again: read ECONNRESET',
    'info: following the server again',
  ]);
});
