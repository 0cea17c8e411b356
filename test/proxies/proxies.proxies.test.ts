/** Runs the set-ups of `docs/tls-and-proxies.md` in the real proxies, but for nginx, which `npm test` runs, and Envoy, which Debian lacks. */
import { describe } from 'vitest';
import { proxyContract } from '../lib/proxy-contract.ts';
import type { ProxyName } from '../lib/reverse-proxy.ts';

const proxies: readonly (readonly [name: ProxyName, passesUpgrade: boolean, speaksTls: boolean])[] = [
  ['HAProxy', false, true],
  ['HAProxy without TLS', false, false],
  ['Apache', true, true],
  ['Caddy', true, true],
  ['Varnish', true, false],
];

describe.each(proxies)('%s as documented', (name, passesUpgrade, speaksTls) => {
  proxyContract(name, { passesUpgrade, speaksTls });
});
