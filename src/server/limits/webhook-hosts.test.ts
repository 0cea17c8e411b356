/** Proves which hosts webhooks reach: only those that the operator allows, on the allowed ports. */
import { describe, expect, it } from 'vitest';
import { reachOf, readWebhookHost } from './webhook-hosts.ts';

const hosts = (...texts: readonly string[]) => texts.map((text) => readWebhookHost(text));
const reach = (url: string, ...texts: readonly string[]) => reachOf(new URL(url), hosts(...texts));

describe('a host of a webhook', () => {
  it.each([
    ['https://hooks.example.com/x?y=1', 'hooks.example.com', 'anywhere'],
    ['https://HOOKS.example.com/', 'Hooks.Example.com', 'anywhere'],
    ['https://hooks.example.com:8443/', 'hooks.example.com:8443', 'anywhere'],
    ['http://127.0.0.1:9000/', 'http://127.0.0.1:9000', 'anywhere'],
    ['https://[fd00::1]/', '[fd00::1]', 'anywhere'],
    ['https://a.example.com/', '*.example.com', 'public'],
    ['https://a.b.example.com/', '*.example.com', 'public'],
    ['https://anything.org/', '*', 'public'],
  ])('%s is reached where %s is allowed: %s', (url, host, expected) => {
    expect(reach(url, host)).toBe(expected);
  });

  it.each([
    ['another port of the same host', 'https://hooks.example.com:22/', 'hooks.example.com'],
    ['plain HTTP where HTTPS was meant', 'http://hooks.example.com/', 'hooks.example.com'],
    ['HTTPS where plain HTTP was meant', 'https://127.0.0.1:9000/', 'http://127.0.0.1:9000'],
    ['the domain itself under a pattern of its names', 'https://example.com/', '*.example.com'],
    ['a name that only ends alike', 'https://badexample.com/', '*.example.com'],
    ['another port under a pattern', 'https://a.example.com:8443/', '*.example.com'],
    ['plain HTTP under a pattern', 'http://a.example.com/', '*'],
    ['an address under a pattern, however it is written', 'https://127.0.0.1/', '*'],
    ['an address as one number', 'https://2130706433/', '*'],
    ['an address of IPv6', 'https://[::1]/', '*'],
    ['a host that is not named', 'https://other.example/', 'hooks.example.com'],
  ])('never: %s', (_, url, host) => {
    expect(reach(url, host)).toBeUndefined();
  });

  it('is nowhere while the operator allows none', () => {
    expect(reach('https://hooks.example.com/')).toBeUndefined();
  });

  it.each([
    '',
    'a b',
    'hooks.example.com/path',
    'user@hooks.example.com',
    'ftp://x',
    '*.',
    '*.*',
    'a*.b',
    '*.10.0.0.1',
    'x?y',
  ])('is refused when it is written as `%s`', (text) => {
    expect(() => readWebhookHost(text)).toThrow(/It must be hosts like/);
  });
});
