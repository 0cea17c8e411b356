/** Proves at which level the log notes a failed request. */
import { expect, test } from 'vitest';
import { HttpError } from '../../problems.ts';
import { createLog } from './log.ts';
import { problemResponse } from './problem-response.ts';

const request = { id: 'r', method: 'GET', url: '/api/users/me' };

function levels(failure: Error, draining: boolean): readonly unknown[] {
  const lines: unknown[] = [];
  const log = createLog('debug', { write: (line) => void lines.push(JSON.parse(line).level) });
  problemResponse(failure, request, { log, health: { draining } });
  return lines;
}

test('a server that stops does not warn of every request that it refuses', () => {
  const unavailable = new HttpError('unavailable', 'The server is shutting down. Try again.');
  expect(levels(unavailable, false)).toEqual(['warn']);
  expect(levels(unavailable, true)).toEqual(['debug']);
  expect(levels(new Error('a fault of ours'), true)).toEqual(['error']);
});
