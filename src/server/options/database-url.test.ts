/** Proves how database URLs are parsed: hosts, sockets, encodings, TLS, and invalid ones. */
import { expect, test } from 'vitest';
import { parseDatabaseUrl, withoutPassword } from './database-url.ts';

const hostsOf = (url: string): readonly string[] =>
  parseDatabaseUrl(url).hosts.map(({ host, port }) => `${host} ${port}`);

test.each([
  ['postgres://a/db', ['a 5432']],
  ['postgresql://u:p@a:5433/db', ['a 5433']],
  ['postgres://a,b:5433/db', ['a 5432', 'b 5433']],
  ['postgres://[::1]:6000,[2001:db8::1]/db', ['::1 6000', '2001:db8::1 5432']],
  ['postgres://u@/db?host=/run/postgresql', ['/run/postgresql 5432']],
  ['postgres://u@%2Frun%2Fpg:6000/db', ['/run/pg 6000']],
  ['postgres:///db?host=a,b&port=1,2', ['a 1', 'b 2']],
  ['postgres:///db?host=a,b&port=7', ['a 7', 'b 7']],
] as const)('%s names these hosts', (url, hosts) => {
  expect(hostsOf(url)).toEqual(hosts);
});

test('names and passwords are read in their percent encoding, and are never shown', () => {
  const url = 'postgres://us%40er:p%3Aa%2Fs%40s%2C@a,b/d%20b?sslmode=verify-full';
  expect(parseDatabaseUrl(url)).toMatchObject({ user: 'us@er', password: 'p:a/s@s,', database: 'd b' });
  expect(withoutPassword(url)).toBe('us@er:***@a:5432,b:5432/d b (sslmode verify-full)');
  expect(withoutPassword('postgres://a/db?password=secret')).not.toContain('secret');
});

test('the server needs a primary, and says so of a URL that asks for a standby', () => {
  expect(parseDatabaseUrl('postgres://a,b/db?target_session_attrs=read-write').hosts).toHaveLength(2);
  expect(() => parseDatabaseUrl('postgres://a,b/db?target_session_attrs=standby')).toThrow(
    /does not work on a standby/,
  );
});

test('with the authorities of the system, names are checked, as libpq does', () => {
  expect(parseDatabaseUrl('postgres://a/db?sslrootcert=system').tls.mode).toBe('verify-full');
  expect(parseDatabaseUrl('postgres://a/db').tls.mode).toBe('disable');
});

test.each([
  ['mysql://a/db', /must start with postgres/],
  ['postgres://a:port/db', /bad host/],
  ['postgres://a:70000/db', /bad port/],
  ['postgres://a/db?sslmod=require', /unknown parameter: sslmod/],
  ['postgres://a/db?sslmode=yes', /sslmode must be one of/],
  ['postgres://a/db?options=-c%20x=y', /unknown parameter: options/],
  ['postgres://a/db?sslcert=/c', /both sslcert and sslkey, or neither/],
  ['postgres://a/db?sslmode=require&sslkey=/k', /both sslcert and sslkey, or neither/],
  ['postgres://a/db?sslrootcert=/ca', /certificates but no TLS: add sslmode=verify-full/],
  ['postgres://a/db?sslmode=disable&sslcert=/c&sslkey=/k', /certificates but no TLS/],
  ['postgres://a/db?sslmode=require&sslrootcert=system', /sslmode must be verify-full/],
  ['postgres://a/db?sslmode=verify-ca&sslrootcert=system', /sslmode must be verify-full/],
  ['postgres://a%zz/db', /percent encoding/],
  ['postgres:///db?host=a,b,c&port=1,2', /number of ports does not match/],
] as const)('%s is refused in words', (url, words) => {
  expect(() => parseDatabaseUrl(url)).toThrow(words);
});
