/** Proves rules in short. */
import { expect, it } from 'vitest';
import type { StoredRule } from '../../policy/rule.ts';
import { summarize } from './rule-text.ts';

const rule = (ip_protocol: StoredRule['ip_protocol'], port: number, ...ip_ranges: string[]): StoredRule => ({
  ip_protocol,
  from_port: port,
  to_port: port,
  ...(ip_ranges.length > 0 && { ip_ranges }),
});

it('says a far end once, and the ports of a protocol together', () => {
  expect(
    summarize([rule('tcp', 443), rule('tcp', 80), rule('udp', 53), rule('tcp', 22, '10.0.0.0/8'), rule('icmp', 0)]),
  ).toEqual([
    { what: 'tcp 443, 80, udp 53, ping', farEnd: 'any' },
    { what: 'tcp 22', farEnd: '10.0.0.0/8' },
  ]);
});

it('keeps rules apart that expire, and says when', () => {
  const soon = { ...rule('tcp', 22), expires_at: '2030-01-01T02:00:00Z' };
  expect(summarize([rule('tcp', 443), soon])).toEqual([
    { what: 'tcp 443', farEnd: 'any' },
    { what: 'tcp 22', farEnd: 'any', expiresAt: '2030-01-01T02:00:00Z' },
  ]);
});

it('names two ranges and counts the rest; any port covers the others', () => {
  expect(
    summarize([rule('tcp', 0, '10.0.0.1', '10.0.0.2', '10.0.0.3'), rule('tcp', 5, '10.0.0.1', '10.0.0.2', '10.0.0.3')]),
  ).toEqual([{ what: 'tcp', farEnd: '10.0.0.1, 10.0.0.2 +1' }]);
});
