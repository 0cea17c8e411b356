/** Owns the names of IP protocols in observed traffic. */

const numbers: Readonly<Record<string, number>> = { icmp: 1, tcp: 6, udp: 17, icmpv6: 58 };

/** The number of a protocol that is written by name or number; undefined where the text is neither. */
export function protocolNumber(text: string): number | undefined {
  if (Object.hasOwn(numbers, text)) return numbers[text];
  return /^(0|[1-9][0-9]{0,2})$/.test(text) && Number(text) < 256 ? Number(text) : undefined;
}
