/** Proves that `ringfence agent status` begins with what is wrong or missing, in the words of the server, and says yes only where nothing is. */
import { expect, test } from 'vitest';
import type { StatusDocument } from '../../agent/report/status-document.ts';
import { statusTable } from './status.ts';

const server = 'https://ringfence.example';
const [start, cut, late] = ['2026-11-15T05:00:00.123Z', '2026-11-15T06:10:00.5Z', '2026-11-15T06:14:00Z'];
const document: StatusDocument = {
  running: true,
  in_force: 'yes',
  pid: 812,
  version: '1.2.3',
  started_at: start,
  server,
  organization: 'acme',
  device: 'd',
  interface: { wanted: 'wg0', name: 'wg0', present: true, neighbour_discovery: false },
  containers: { mode: 'guard', forwarding: false },
  policy: {
    origin: 'server',
    source: 'list',
    revision: 7,
    groups: [],
    applied_at: start,
    verified_at: start,
    digest: '0'.repeat(64),
    pending: false,
  },
  stream: { phase: 'live', since: start, failures: 0 },
  warnings: [],
  troubles: [],
  applies: 1,
  drift: { repaired: 0 },
  revoked_connections: 0,
  ended_connections: 0,
  packets: {},
};
const { digest: _, ...unread } = document.policy;
const away: StatusDocument['stream'] = {
  phase: 'waiting',
  since: late,
  last_live_at: cut,
  failures: 4,
  last_error: { message: 'cannot reach it: ECONNREFUSED', at: late },
};
const { last_live_at: __, ...neverLive } = away;
const trouble = {
  what: 'applying the policy',
  message: 'nft is missing',
  advice: 'install nftables',
  at: late,
};

/** The lines before the one about the process, with single blanks. */
function top(change: Partial<StatusDocument>): readonly string[] {
  const paint = (_style: unknown, text: string): string => text;
  const text = statusTable({ ...document, ...change })({ paint, wide: false, headers: true, width: undefined });
  const lines = text.split('\n').map((line) => line.trim().replaceAll(/ +/g, ' '));
  return lines.slice(0, lines.indexOf('agent pid 812, version 1.2.3, since 2026-11-15T05:00:00Z'));
}

const rules = 'in force the rules of revision 7, since 2026-11-15T05:00:00Z';
const failures = '4 failures, the last: cannot reach it: ECONNREFUSED (2026-11-15T06:14:00Z)';

test.each<[string, Partial<StatusDocument>, readonly string[]]>([
  ['yes, where nothing is wrong', {}, ['in force yes, the rules of revision 7, since 2026-11-15T05:00:00Z']],
  [
    'isolated, until when and why',
    { policy: { ...document.policy, isolated: { until: late, reason: 'a stolen key', allowed: 1 } } },
    [
      'isolated until 2026-11-15T06:14:00Z: a stolen key',
      "Only the agent's connection to the server and traffic with 1 allowed peer passes.",
      'in force yes, the rules of revision 7, since 2026-11-15T05:00:00Z',
    ],
  ],
  [
    'offline, since when and after how many failures',
    { stream: away },
    [`offline no contact with ${server} since 2026-11-15T06:10:00Z, ${failures}`, rules],
  ],
  [
    'offline since the start, with rules kept from the last run',
    { stream: neverLive, policy: { ...document.policy, origin: 'kept' } },
    [`offline no contact with ${server} since 2026-11-15T05:00:00Z, ${failures}`, rules],
  ],
  [
    'offline, with what the kernel held',
    { stream: { phase: 'connecting', since: start, failures: 0 }, policy: { ...unread, origin: 'kernel' } },
    [
      `offline no contact with ${server} since 2026-11-15T05:00:00Z`,
      'in force the rules that the kernel held when the agent started',
    ],
  ],
  [
    'never seen, while the server was never reached',
    { stream: neverLive, policy: { origin: 'first', groups: [], pending: false } },
    [`never seen no contact with ${server} yet, ${failures}`, 'in force no policy yet: inbound is closed'],
  ],
  [
    'never seen, with nothing in force',
    {
      stream: { phase: 'enrolling', since: start, failures: 0 },
      policy: { origin: 'none', groups: [], pending: true },
    },
    [`never seen no contact with ${server} yet`, 'in force nothing'],
  ],
  [
    'behind, while a newer policy is on its way',
    { policy: { ...document.policy, pending: true } },
    ['behind the agent is writing a newer policy to the kernel', rules],
  ],
  [
    'behind, until the rules were read back',
    { policy: unread },
    ['behind the agent has not read the rules back from the kernel yet', rules],
  ],
  [
    'behind, while what is new is being read',
    { stream: { phase: 'listing', since: late, failures: 0 } },
    ['behind connected, and still reading changes', rules],
  ],
  [
    'behind, until the server has said what the policy is',
    { policy: { ...document.policy, origin: 'kept' } },
    ['behind connected, and waiting for the first policy from the server', rules],
  ],
  [
    'failed, with what can be done about it',
    { troubles: [trouble], policy: { ...document.policy, pending: true } },
    ['failed applying the policy: nft is missing (2026-11-15T06:14:00Z)', 'install nftables', rules],
  ],
  [
    'failed, where the policy cannot be followed',
    { held: 'the default group is missing' },
    ['failed the default group is missing', rules],
  ],
  [
    'failed first and offline beside it',
    { troubles: [trouble], stream: away },
    [
      'failed applying the policy: nft is missing (2026-11-15T06:14:00Z)',
      'install nftables',
      `offline no contact with ${server} since 2026-11-15T06:10:00Z, ${failures}`,
      rules,
    ],
  ],
  [
    'not understood, with what is not',
    { held: 'the group x has a field', held_code: 'not_understood' },
    ['not understood the group x has a field', 'update the agent on the device', rules],
  ],
  [
    'not understood before what failed besides',
    { held: 'the group x has a field', held_code: 'not_understood', troubles: [trouble], warnings: ['mind the gap'] },
    [
      'not understood the group x has a field',
      'update the agent on the device',
      'failed applying the policy: nft is missing (2026-11-15T06:14:00Z)',
      'install nftables',
      rules,
      'warning mind the gap',
    ],
  ],
])('%s', (_title, change, lines) => {
  expect(top(change)).toEqual(lines);
});
