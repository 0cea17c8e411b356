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

test('what the server names as a parameter of the request, the command line names as an option', () => {
  const told = (message: string): readonly string[] =>
    commandExitOf(new RingfenceError({ code: 'changed_since', message, status: 409 }), { debug: false }).lines;
  expect(told('To undo the rest, repeat the request with ?force=true.')).toEqual(['To undo the rest, use --force.']);
  expect(told('An owner may continue with ?skip_tests=true.')).toEqual(['An owner may use --skip-tests.']);
  expect(told('Revoke the keys first, or repeat this with ?detach=true (--detach on the command line).')).toEqual([
    'Revoke the keys first, or use --detach.',
  ]);
});
