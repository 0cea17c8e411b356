/** Proves what a command says when the server refuses it. */
import { expect, test } from 'vitest';
import { RingfenceError } from '../../client/error.ts';
import { commandExitOf } from './exit.ts';

test('every device in the way is named, also where the message names another one that begins the same', () => {
  const said = (message: string, devices: readonly string[]): readonly string[] =>
    commandExitOf(new RingfenceError({ code: 'would_open', status: 409, message, devices }), {
      debug: false,
    }).lines.slice(1);
  expect(said('Devices web-10, a.web-1 and web-1.example use it.', ['web-1'])).toEqual(['  device web-1']);
  expect(said('Devices web-10 and web-1.', ['web-1', 'web-10'])).toEqual([]);
  expect(said('In use.', ['web-1'])).toEqual(['  device web-1']);
});
