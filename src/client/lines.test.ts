/** Proves that a line takes as much memory as it is long, however it arrives. */
import { expect, it } from 'vitest';
import { collectMemory } from '../../test/lib/collect-memory.ts';
import { LineReader } from './lines.ts';

const bytesInUse = (): number => {
  collectMemory();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
};

const million = 1_000_000;

it('a line that comes byte by byte is kept in a few bytes for each', () => {
  const lines = new LineReader({ longest: 2 * million });
  const before = bytesInUse();
  // Each piece is of its own, as pieces from a socket are.
  for (let sent = 0; sent < million; sent += 1) lines.push(Uint8Array.of(0x78));
  expect(lines.pending).toBe(million);
  expect(bytesInUse() - before).toBeLessThan(10 * million);
  expect(lines.push(new TextEncoder().encode('y\nz\n'))).toEqual([`${'x'.repeat(million)}y`, 'z']);
  expect(lines.pending).toBe(0);
});

it.each([
  ['in one piece', ['x'.repeat(11)]],
  ['in one piece with its end', ['x'.repeat(11), '\n']],
  ['in several', ['x'.repeat(6), 'x'.repeat(5), '\n']],
])('a line that is too long is refused, %s', (_, pieces) => {
  const lines = new LineReader({ longest: 10 });
  expect(lines.push(new TextEncoder().encode(`${'x'.repeat(10)}\n`))).toHaveLength(1);
  expect(() => {
    for (const piece of pieces) lines.push(new TextEncoder().encode(piece));
  }).toThrow(expect.objectContaining({ code: 'document_too_large' }));
});
