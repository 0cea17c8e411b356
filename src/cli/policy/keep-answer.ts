/** Owns the policy test that an answer of `explain` becomes: the same two ends, and the same verdict. */
import { printAddress } from '../../policy/address.ts';
import type { Transport } from '../../policy/packet.ts';
import type { PolicyTest, TestEnd } from '../../policy/policy-test/policy-test.ts';
import { usageError } from '../terminal/exit.ts';
import type { ExplainEndpoint } from './explain-endpoints.ts';

/** A device stays the same device when it gets another name or address. */
const endOf = ({ device, address }: ExplainEndpoint): TestEnd =>
  device === undefined ? { address: printAddress(address.family, address.value) } : { device_id: device.id };

function connectionOf(transport: Transport): Pick<PolicyTest, 'protocol' | 'port'> {
  switch (transport.kind) {
    case 'tcp':
    case 'udp':
      return { protocol: transport.kind, port: transport.dport };
    case 'icmp':
    case 'icmpv6':
      return { protocol: 'icmp' };
    case 'other':
      throw usageError('a policy test is about tcp, udp or icmp: --keep does not work with other protocols');
    default:
      return transport satisfies never;
  }
}

export interface ExplainAnswer {
  readonly from: ExplainEndpoint;
  readonly to: ExplainEndpoint;
  readonly transport: Transport;
  readonly passes: boolean;
  /** What the test is called; true: what the answer says. */
  readonly name: string | true;
  /** `tcp 5432` */
  readonly words: string;
}

export const testOf = ({ from, to, transport, passes, name, words }: ExplainAnswer): PolicyTest => ({
  name: name === true ? `${from.name} ${passes ? 'reaches' : 'does not reach'} ${to.name} on ${words}` : name,
  from: endOf(from),
  to: endOf(to),
  ...connectionOf(transport),
  expect: passes ? 'allow' : 'refuse',
});
