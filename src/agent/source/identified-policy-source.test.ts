/** Proves that a source which must be identified first keeps trying, says why it waits, and then is the stream itself. */
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
  const logConnection = connectionLog((level, message) => logged.push(`${level}: ${message}`));
  let changes = 0;
  source.onChange(() => {
    changes += 1;
    logConnection(source.connection);
  });
  const abort = new AbortController();
  const ended = source.run({ signal: abort.signal });
  const end = async (): Promise<void> => {
    abort.abort();
    await ended;
  };
  return { clock, inner, source, logged, end, attempts: () => attempts, changes: () => changes };
}

describe('a source that must be identified first', () => {
  test('knows nothing before, and then what the stream knows', async () => {
    const { source, inner, end, changes } = setUp(0);
    expect(source.read()).toMatchObject({ kind: 'unknown', early: true });
    await turn(3);
    expect(source.who).toBe('me');
    expect(inner.running).toBe(true);
    const before = changes();
    inner.know(7, groupOf(1, []));
    expect(changes()).toBe(before + 1);
    expect(source.read()).toMatchObject({ kind: 'known', revision: 7 });
    expect(source.connection).toBe(inner.connection);
    await end();
  });

  test('tries again after growing waits, and logs each trouble once', async () => {
    const { clock, source, logged, end, attempts, inner } = setUp(6);
    await turn(3);
    expect(source.connection).toMatchObject({ phase: 'waiting', failures: 1, lastError: { message: 'no such key' } });
    await clock.advance(5_000);
    const early = attempts();
    expect(early).toBeGreaterThan(2);
    await clock.advance(120_000);
    expect(attempts()).toBe(7);
    expect(logged).toEqual([
      'warn: not connected to the server; the current rules stay in force; trying again: no such key',
    ]);
    inner.know(1, groupOf(1, []));
    expect(logged.at(-1)).toBe('info: connected to the server again');
    await end();
  });

  test('ends in the middle of a wait when it is asked to', async () => {
    const { clock, source, end } = setUp(100);
    await turn(3);
    await end();
    expect(source.who).toBeUndefined();
    expect(clock.timers).toBe(0);
  });
});

test('the log shows a live stream once, and each other trouble once', () => {
  const logged: string[] = [];
  const logConnection = connectionLog((level, message) => logged.push(`${level}: ${message}`));
  const waiting = (message: string) => ({ phase: 'waiting', since: 0, failures: 1, lastError: { message, at: 0 } });
  const live = { phase: 'live', since: 0, failures: 0 };
  logConnection({ phase: 'connecting', since: 0, failures: 0 });
  logConnection(live);
  // A stream that reached its maximum age is followed by the next one without a log line.
  logConnection({ phase: 'connecting', since: 0, failures: 0 });
  logConnection(live);
  for (const message of ['away', 'away', 'refused', 'away', 'refused']) logConnection(waiting(message));
  for (const message of ['read ECONNRESET', 'socket hang up']) {
    const { lastError, ...rest } = waiting(message);
    logConnection({ ...rest, lastError: { ...lastError, kind: 'unreachable' } });
  }
  logConnection({ ...live, lastError: { message: 'refused', at: 0 } });
  expect(logged).toEqual([
    'info: connected to the server',
    'warn: not connected to the server; the current rules stay in force; trying again: away',
    'warn: not connected to the server; the current rules stay in force; trying again: refused',
    'warn: not connected to the server; the current rules stay in force; trying again: read ECONNRESET',
    'info: connected to the server again',
  ]);
});
