/**
 * Proves the timing of signs of life with the default intervals, what a reader may send, and how the hub handles
 * silence, with a clock that the test sets.
 */
import { describe, expect, test } from 'vitest';
import { parseDeviceId } from '../../policy/ids.ts';
import { lookMs } from '../presence/device-streams.ts';
import { device, hubMaker, loopTurns } from './hub.fixture.ts';
import { sweepMs } from './service.ts';
import { defaultWatchSettings as defaults } from './settings.ts';
import { SignBudget, signEveryMs, signsApplied } from './signs.ts';
import type { FakeSink } from './sink.fixture.ts';

const make = hubMaker();
const id = parseDeviceId('22222222-2222-4222-8222-222222222222');

describe('the default intervals', () => {
  test('show a pulled cable within 60 seconds, with time to spare for the database', () => {
    expect(defaults.silentMs + sweepMs + lookMs).toBeLessThan(50_000);
  });

  test('let one sign be lost, and ten thousand devices show 500 signs a second', () => {
    expect(signEveryMs(defaults)).toBe(20_000);
    expect(2 * signEveryMs(defaults)).toBeLessThan(defaults.silentMs);
    expect(signsApplied(defaults)).toBe('signs-of-life=20, heartbeat=15');
  });

  test('keep an agent of an earlier version online between two of its reports, one of which may be lost', () => {
    expect(defaults.unpromisedSilentMs).toBeGreaterThan(2 * 5 * 60_000);
  });
});

describe('a reader', () => {
  const takes = (budget: SignBudget, text: string, now: number): boolean => budget.takes(Buffer.from(text), now);

  test('may send line feeds, sixty within a minute, and nothing else', () => {
    const budget = new SignBudget();
    expect(takes(budget, '\n'.repeat(60), 0)).toBe(true);
    expect(takes(budget, '\n', 59_999)).toBe(false);
    expect(takes(budget, '\n', 60_000)).toBe(true);
    for (const text of [' ', '\r\n', '\0', 'GET / HTTP/1.1\r\n\r\n', '\n{"type":"alive"}\n']) {
      expect(takes(new SignBudget(), text, 0), text).toBe(false);
    }
  });
});

describe('a stream', () => {
  const setUp = () => {
    const events: string[] = [];
    const t = make({
      devices: {
        opened: (_device, signs, silenceMs) => events.push(`opened ${signs} ${silenceMs}`),
        heard: (_device, isReport) => events.push(isReport ? 'reported' : 'heard'),
        closed: (_device, _signs, silent) => events.push(silent ? 'silent' : 'left'),
      },
    });
    const watch = (signs?: 'stream' | 'requests') =>
      t.watch(device, { kind: 'device', device: id, ...(signs && { signs }), chunked: signs !== 'stream' });
    /** Time passes as it does for a server, which looks twice a second. */
    const pass = async (seconds: number, each: () => void = () => {}): Promise<void> => {
      for (let second = 0; second < seconds; second += 1) {
        await t.pass(1_000);
        each();
      }
    };
    const sign = (sink: FakeSink, text = '\n'): void => sink.stream?.received(Buffer.from(text));
    const endings = () => Object.fromEntries(t.hub.stats.endings);
    return { t, events, watch, pass, sign, endings };
  };

  test('that carries signs is cut off without one for 45 seconds, whatever the server writes to it', async () => {
    const { t, events, watch, pass, sign, endings } = setUp();
    const sink = await watch('stream');
    await pass(40);
    sign(sink);
    await pass(44, () => t.db.create('device'));
    expect(sink.destroyed).toBe(false);
    await pass(1);
    expect(sink.destroyed).toBe(true);
    expect(events).toEqual(['opened stream 45000', 'heard', 'silent']);
    expect(endings()).toEqual({ silent: 1 });
  });

  test('that carries signs is cut off when anything else comes on it', async () => {
    const { watch, sign, events, endings } = setUp();
    const sink = await watch('stream');
    sign(sink, 'x');
    expect(sink.destroyed).toBe(true);
    expect(events.at(-1)).toBe('left');
    expect(endings()).toEqual({ misused: 1 });
  });

  test('that carries signs ends with a line of its own, so that the end of a server is not taken for it', async () => {
    const { t, watch } = setUp();
    const sink = await watch('stream');
    void t.hub.drain();
    await loopTurns();
    expect(sink.body(false).endsWith('\n{"type":"end"}\n')).toBe(true);
  });

  test('of a device that promised signs by requests, or none, ends in good order after ten minutes without any', async () => {
    for (const signs of ['requests', undefined] as const) {
      const { t, events, watch, pass, endings } = setUp();
      const sink = await watch(signs);
      await pass(600);
      t.hub.heard(id, true);
      await pass(619);
      expect(sink.ended).toBe(false);
      await pass(2);
      expect(sink.clean).toBe(true);
      sink.close();
      expect(events).toEqual([`opened ${signs ?? 'unpromised'} ${signs ? 45_000 : 620_000}`, 'reported', 'left']);
      expect(endings()).toEqual({ unheard: 1 });
    }
  });

  test('of a user needs no signs', async () => {
    const { t, pass } = setUp();
    const sink = await t.watch(device);
    await pass(1_200);
    expect([sink.ended, sink.destroyed]).toEqual([false, false]);
  });

  test('is not cut off for the time in which the server itself stood still, or by which its clock was set', async () => {
    const { t, watch, pass } = setUp();
    const sink = await watch('stream');
    await pass(40);
    await t.pass(600_000);
    await pass(4);
    expect(sink.destroyed).toBe(false);
    await t.pass(-600_000);
    await pass(2);
    expect(sink.destroyed).toBe(true);
  });
});
