/** Owns the digest of a policy: 64 hex digits that two programs compare to know that they mean the same rules. */
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';
import type { Addresses, CanonicalPolicy, DirectionPolicy, MatchSet, PortMap, TransportPolicy } from '../canonical.ts';
import type { Family } from '../rule.ts';
import { printFingerprint, setFingerprint } from './fingerprint.ts';
import { portSteps } from './port-sweep.ts';

const families: readonly Family[] = [4, 6];

const addressesText = ({ v4, v6 }: Addresses): string =>
  families.map((family) => printFingerprint(setFingerprint(family, family === 4 ? v4 : v6))).join(' ');

function portsText(ports: PortMap): string {
  const steps = (family: Family): string =>
    portSteps(ports, family)
      .map(({ port, addresses }) => `${port}:${printFingerprint(addresses)}`)
      .join(',');
  return families.map(steps).join(' ');
}

/** Rules about both protocols are one object: it is looked at once. */
class Printer {
  readonly #ports = new Map<PortMap, string>();

  transport({ anyPort, ports }: TransportPolicy): string {
    const text = this.#ports.get(ports) ?? portsText(ports);
    this.#ports.set(ports, text);
    return `any ${addressesText(anyPort)} ports ${text}`;
  }

  matches({ any, echo, tcp, udp }: MatchSet): string {
    const [ip, ping] = [addressesText(any), addressesText(echo)];
    return `ip ${ip}\necho ${ping}\ntcp ${this.transport(tcp)}\nudp ${this.transport(udp)}\n`;
  }

  direction(name: string, policy: DirectionPolicy): string {
    const forbid = policy.forbid === undefined ? '' : `forbid\n${this.matches(policy.forbid)}`;
    return `${name} ${policy.kind}\n${policy.kind === 'open' ? '' : this.matches(policy)}${forbid}`;
  }
}

/**
 * SHA-256 over the canonical form: over the addresses, protocols and ports that it matches, not over how they were cut
 * into intervals, layers or sets, nor to whom packets are counted. Address sets stand in it by their fingerprints.
 */
export function policyDigest({ inbound, outbound }: CanonicalPolicy): string {
  const printer = new Printer();
  const text = `policy 1\n${printer.direction('inbound', inbound)}${printer.direction('outbound', outbound)}`;
  return bytesToHex(sha256(utf8ToBytes(text)));
}
