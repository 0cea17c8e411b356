/** Owns the wording of why a rule does not match a packet, for explanations of refusals. */
import { printAddress } from '../../policy/address.ts';
import { isAboutTransport, isAnyPort, onlyFamily, ruleAdmits } from '../../policy/match.ts';
import type { Packet } from '../../policy/packet.ts';
import type { StoredRule } from '../../policy/rule.ts';
import { expiryWords } from './expiry.ts';
import { portWords } from './rule.ts';

const transportWord = ({ transport }: Packet): string => {
  if (transport.kind === 'icmp' || transport.kind === 'icmpv6') return 'ping';
  return transport.kind === 'other' ? `protocol ${transport.protocol}` : transport.kind;
};

const ruleWord = ({ ip_protocol }: StoredRule): string =>
  ip_protocol === 'icmp' || ip_protocol === 'icmpv6' ? 'ping' : ip_protocol;

/** `its port is 443, not 22`; undefined where the rule matches. A rule whose peers were not looked up is not judged here. */
export function mismatchWords(rule: StoredRule, packet: Packet, farEnd: string | undefined): string | undefined {
  if (ruleAdmits(rule, packet)) return undefined;
  const { expired, ...before } = rule;
  const faults = expired === true && rule.expires_at !== undefined ? [`it ${expiryWords(rule.expires_at)}`] : [];
  return [...faults, ...fieldFaults(before, packet, farEnd)].join(', and ');
}

/** Which fields of the rule do not match. */
function fieldFaults(rule: StoredRule, packet: Packet, farEnd: string | undefined): readonly string[] {
  const { transport, family, remote } = packet;
  const faults: string[] = [];
  if (!isAboutTransport(rule, packet)) {
    const isPorted = transport.kind === 'tcp' || transport.kind === 'udp';
    const sameProtocol = isAboutTransport({ ...rule, from_port: 0, to_port: 0 }, packet);
    if (isPorted && sameProtocol && !isAnyPort(rule)) {
      const word = rule.from_port === rule.to_port ? 'port is' : 'ports are';
      faults.push(`its ${word}${portWords(rule)}, not ${transport.dport}`);
    } else faults.push(`it applies to ${ruleWord(rule)}, not to ${transportWord(packet)}`);
  }
  const only = onlyFamily(rule);
  if (only !== undefined && only !== family) faults.push(`it applies to IPv${only}, not to IPv${family}`);
  else if (!ruleAdmits({ ...rule, ip_protocol: family === 4 ? 'ipv4' : 'ipv6', from_port: 0, to_port: 0 }, packet)) {
    const address = printAddress(family, remote);
    const who = farEnd === undefined || farEnd === address ? address : `${farEnd} (${address})`;
    faults.push(`${who} is not among those it names`);
  }
  return faults;
}
