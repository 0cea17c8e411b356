/** Proves whom a device is taken to ask for addresses: what its configuration names, and nothing that it does not. */
import { describe, expect, test } from 'vitest';
import { printAddress, type Address } from '../../policy/address.ts';
import { parseResolvers, readResolvers } from './resolvers.ts';

const shown = (addresses: readonly Address[]): string[] =>
  addresses.map(({ family, value }) => printAddress(family, value));

describe('a resolv.conf', () => {
  test.each<[what: string, text: string, resolvers: string[]]>([
    ['plain lines', 'nameserver 10.0.0.53\nnameserver fd00::53\n', ['10.0.0.53', 'fd00::53']],
    [
      'spaces, tabs, comments and other lines',
      '# nameserver 9.9.9.9\n; x\n\t nameserver\t10.0.0.1 # mine\nsearch lan\noptions edns0\n',
      ['10.0.0.1'],
    ],
    [
      'more than the system asks',
      [1, 2, 3, 4].map((n) => `nameserver 10.0.0.${n}`).join('\n'),
      ['10.0.0.1', '10.0.0.2', '10.0.0.3'],
    ],
    ['a link-local one with its interface', 'nameserver fe80::1%wg0\n', ['fe80::1']],
    ['a zone where none belongs', 'nameserver fd00::1%wg0\nnameserver 10.0.0.1%wg0\n', []],
    [
      'names, ranges, prefixes and octal numbers',
      'nameserver dns.example\nnameserver 10.0.0.0/8\nnameserver 10.0.0.1-10.0.0.9\nnameserver 010.0.0.1\nnameserver 10.1\n',
      [],
    ],
    ['two addresses in one line', 'nameserver 10.0.0.1 10.0.0.2\n', []],
    ['another word that begins alike', 'nameservers 10.0.0.1\nnameserver10.0.0.2\n', []],
    ['nothing', '', []],
  ])('with %s', (_, text, resolvers) => {
    expect(shown(parseResolvers(text))).toEqual(resolvers);
  });

  test('of a megabyte in one line is read as quickly as a short one', () => {
    expect(parseResolvers(`nameserver ${' '.repeat(1_000_000)}x`)).toEqual([]);
  });
});

describe('the resolvers of a device', () => {
  const files = (all: Record<string, string>) => async (path: string) => {
    const text = all[path];
    if (text === undefined) throw new Error('ENOENT');
    return text;
  };

  test('are not on the device itself', async () => {
    const read = files({ '/etc/resolv.conf': 'nameserver 127.0.0.1\nnameserver ::1\nnameserver 10.0.0.53\n' });
    expect(shown(await readResolvers(read))).toEqual(['10.0.0.53']);
  });

  test('are those behind the stub of systemd-resolved', async () => {
    const stub = 'nameserver 127.0.0.53\noptions edns0 trust-ad\n';
    const upstream = 'nameserver 100.64.0.53\nnameserver fd7f::53\n';
    expect(
      shown(await readResolvers(files({ '/etc/resolv.conf': stub, '/run/systemd/resolve/resolv.conf': upstream }))),
    ).toEqual(['100.64.0.53', 'fd7f::53']);
    expect(await readResolvers(files({ '/etc/resolv.conf': stub }))).toEqual([]);
    const other = files({ '/etc/resolv.conf': 'nameserver 127.0.0.1\n', '/run/systemd/resolve/resolv.conf': upstream });
    expect(await readResolvers(other)).toEqual([]);
  });

  test('are none where nothing can be read', async () => {
    expect(await readResolvers(files({}))).toEqual([]);
  });
});
