/** Proves the words about observed traffic: the rule that decides, the nearest one, and what does not match. */
import { expect, test } from 'vitest';
import type { Flow, FlowDecision } from '../../api/flows/flow.ts';
import { parseDeviceId, parseGroupId } from '../../policy/ids.ts';
import { flowReason, flowTraffic, reasonText } from './flow.ts';

const rule = { ip_protocol: 'tcp', from_port: 443, to_port: 443, peers: [{ labels: ['app'] }] } as const;
const reference = {
  group_id: parseGroupId('00000000-0000-7000-8000-000000000001'),
  group_name: 'web',
  index: 0,
  rule: { ...rule, peers: [{ labels: ['app'] }] },
};
const flow = (decision: FlowDecision | undefined, more: Partial<Flow> = {}): Flow => ({
  device_id: parseDeviceId('00000000-0000-7000-8000-000000000002'),
  hostname: 'web-1',
  since: '2026-11-18T08:00:00Z',
  until: '2026-11-18T08:01:00Z',
  direction: 'in',
  verdict: 'refused',
  far: '100.64.0.7',
  far_devices: [],
  protocol: 'tcp',
  port: 22,
  packets: 3,
  ...(decision && { decision }),
  ...more,
});
const nearest = (differs: NonNullable<FlowDecision['nearest']>['differs'], more: Partial<Flow> = {}) =>
  flowReason(flow({ verdict: 'refused', reason: 'no-rule', nearest: { ...reference, differs } }, more))?.after;

test('the nearest rule comes with both values of each field that differs', () => {
  expect(nearest(['port'])).toBe('its port is 443, not 22');
  expect(nearest(['ip_protocol'], { protocol: 'udp', port: 443 })).toBe('it is about tcp, not about udp');
  expect(nearest(['ip_protocol'], { protocol: 'icmp', port: undefined as never })).toBe(
    'it is about tcp, not about ping',
  );
  const far_devices = [
    { device_id: parseDeviceId('00000000-0000-7000-8000-000000000003'), hostname: 'ci-1', labels: [] },
  ];
  expect(nearest(['port', 'far'], { far_devices })).toBe(
    'its port is 443, not 22, and ci-1 (100.64.0.7) is not among those it names',
  );
});

test('a rule that admits, a guardrail that forbids, and a policy that has changed are told apart', () => {
  const words = { group_id: reference.group_id, group_name: 'web', words: 'tcp 443 from label:app' };
  const admitted = { verdict: 'admitted', reason: 'rule', rule: reference } as const;
  expect(flowReason(flow(admitted, { verdict: 'admitted' }))).toEqual({ before: 'Now admitted by', rule: words });
  expect(flowReason(flow(admitted))?.before).toBe('The policy has changed: now admitted by');
  const forbidden = { verdict: 'refused', reason: 'forbid', rule: reference } as const;
  expect(flowReason(flow(forbidden))?.before).toBe('Now forbidden by the guardrail');
  expect(flowReason(flow({ verdict: 'refused', reason: 'no-rule' }))?.before).toBe(
    'Now refused because none of its groups has an inbound rule',
  );
  expect(flowReason(flow({ verdict: 'refused', reason: 'isolated' }))?.before).toBe(
    'Now refused because the device is isolated',
  );
  expect(flowReason(flow(undefined))).toBeUndefined();
  expect(reasonText(flow(forbidden))).toBe('Now forbidden by the guardrail web: tcp 443 from label:app');
  expect(reasonText(flow(undefined))).toBe('');
});

test('a policy that was not in force has its reasons without a time', () => {
  const isolated = flow({ verdict: 'refused', reason: 'far-end-isolated' }, { verdict: 'admitted' });
  expect(reasonText(isolated)).toBe('The policy has changed: now refused because the far end is isolated');
  expect(reasonText(isolated, 'would')).toBe('Refused because the far end is isolated');
});

test('traffic without a port is ping or the number of its protocol', () => {
  const traffic = (protocol: string, port?: number): string =>
    flowTraffic({ protocol, ...(port !== undefined && { port }) });
  expect([traffic('tcp', 22), traffic('icmpv6'), traffic('47')]).toEqual(['tcp 22', 'ping', 'protocol 47']);
});
