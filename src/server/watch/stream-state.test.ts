/** Proves the invariants of a stream's states over every sequence of transitions. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { isOpen, nextState, type StreamEvent, type StreamState } from './stream-state.ts';

const events: readonly StreamEvent[] = ['behind', 'caught_up', 'full', 'flushed', 'read', 'loaded', 'end', 'close'];
const anyWay = fc.array(fc.constantFrom(...events), { maxLength: 30 });
const after = (way: readonly StreamEvent[]): StreamState => way.reduce<StreamState>(nextState, 'ready');

test('a stream that was sent its end, or has closed, is never served again', () => {
  fc.assert(
    fc.property(anyWay, fc.constantFrom('end' as const, 'close' as const), anyWay, (before, last, later) => {
      expect(isOpen(after([...before, last, ...later]))).toBe(false);
    }),
  );
});

test('a closed stream stays closed, whatever comes late', () => {
  fc.assert(fc.property(anyWay, anyWay, (before, later) => after([...before, 'close', ...later]) === 'closed'));
});

test('a stream whose connection took not all is written to only after it has, whatever comes in between', () => {
  const others = fc.array(fc.constantFrom(...events.filter((event) => !['flushed', 'end', 'close'].includes(event))));
  fc.assert(
    fc.property(anyWay, others, (before, between) => {
      const full = after([...before, 'full']);
      fc.pre(full === 'blocked');
      expect(between.reduce<StreamState>(nextState, full)).toBe('blocked');
      expect(nextState('blocked', 'flushed')).toBe('ready');
    }),
  );
});

test('only what a stream waits for makes it ready again', () => {
  const waking = (state: StreamState): readonly StreamEvent[] =>
    events.filter((event) => nextState(state, event) === 'ready');
  expect({ live: waking('live'), blocked: waking('blocked'), reading: waking('reading') }).toEqual({
    live: ['behind'],
    blocked: ['flushed'],
    reading: ['loaded'],
  });
});
