/** Proves for how long an ended connection stays ended: never shorter than the kernel would have remembered it. */
import { expect, test } from 'vitest';
import { readSilence } from './conntrack-timeouts.ts';

const settings =
  (known: Readonly<Record<string, string>>) =>
  (name: string): string => {
    const text = known[name];
    if (text === undefined) throw new Error(`ENOENT: no such file or directory, open '${name}'`);
    return text;
  };

test.each([
  ['a kernel without settings', {}, { stream: 432_000, tuple: 180, pair: 600 }],
  [
    'a kernel that forgets early',
    { udp_timeout_stream: '120\n', tcp_timeout_established: '60\n', generic_timeout: '30\n' },
    { stream: 180, tuple: 180, pair: 180 },
  ],
  [
    'a kernel that remembers for long',
    { udp_timeout_stream: '900\n', tcp_timeout_established: '7200\n', gre_timeout_stream: '700\n' },
    { stream: 7_200, tuple: 900, pair: 700 },
  ],
  ['settings that are no numbers', { udp_timeout_stream: 'soon\n' }, { stream: 432_000, tuple: 180, pair: 600 }],
  [
    'settings that no set takes',
    { udp_timeout_stream: '4294967295\n' },
    { stream: 432_000, tuple: 31_536_000, pair: 600 },
  ],
])('%s', (_, known, expected) => {
  const read = settings(Object.fromEntries(Object.entries(known).map(([key, text]) => [`nf_conntrack_${key}`, text])));
  expect(readSilence(read)).toEqual(expected);
});
