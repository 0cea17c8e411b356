/** Runs the set-up of nginx in `docs/tls-and-proxies.md` in a real nginx; `npm run test:proxies` runs those of the other proxies. */
import { proxyContract } from '../lib/proxy-contract.ts';

proxyContract('nginx', { passesUpgrade: true, speaksTls: true });
