/**
 * Owns the decoding of a digest's bytes into verdicts, which proves that the bytes contain everything about a policy.
 */
import { isEcho } from '../match.ts';
import type { Packet } from '../packet.ts';
import { lastAddress } from '../range.ts';
import type { Family } from '../rule.ts';
import { digestForm } from './digest-form.ts';
import { allPorts, firstMixed, portCount } from './port-sets.ts';

interface Step {
  readonly at: bigint;
  readonly kind: number;
  readonly tcp: number;
  readonly udp: number;
}

/** Whether a new connection's first packet is admitted; packets of other connections pass. */
export function decodePolicy(bytes: Uint8Array): (packet: Packet) => boolean {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const number = (): number => view.getUint32((at += 4) - 4);
  const address = (family: Family): bigint => {
    let value = 0n;
    for (let words = family === 4 ? 1 : 4; words > 0; words -= 1) value = (value << 32n) | BigInt(number());
    return value;
  };
  const list = <T>(read: () => T): readonly T[] => Array.from({ length: number() }, read);
  const steps = (family: Family): readonly Step[] =>
    list(() => ({ at: address(family), kind: number(), tcp: number(), udp: number() }));
  const part = (): Record<Family, readonly Step[]> => ({ 4: steps(4), 6: steps(6) });
  const direction = () => ({ admitted: part(), forbidden: part() });
  if (number() !== digestForm) throw new Error('These bytes are of another form.');
  const policy = { inbound: direction(), outbound: direction() };
  const sets = list(() => [number(), number()] as const);
  if (at !== bytes.length) throw new Error('There are bytes behind the end.');

  const holds = (set: number, port: number, size = portCount): boolean => {
    if (set < firstMixed) return set === allPorts;
    const [lower, upper] = sets[set - firstMixed] ?? [0, 0];
    return port < size / 2 ? holds(lower, port, size / 2) : holds(upper, port - size / 2, size / 2);
  };
  const isMatched = (all: Record<Family, readonly Step[]>, packet: Packet): boolean => {
    const { family, remote, transport } = packet;
    if (remote > lastAddress(family)) return false;
    const step = all[family].findLast((each) => each.at <= remote);
    if (step === undefined) return false;
    if (step.kind === 2 || (step.kind === 1 && isEcho(packet))) return true;
    return (transport.kind === 'tcp' || transport.kind === 'udp') && holds(step[transport.kind], transport.dport);
  };
  return (packet) => {
    if (packet.state === 'established' || packet.state === 'related') return true;
    const { admitted, forbidden } = policy[packet.direction];
    return !isMatched(forbidden, packet) && isMatched(admitted, packet);
  };
}
