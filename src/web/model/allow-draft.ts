/**
 * Owns a rule that is drafted on one page and edited on another, as the URL carries it: parsed strictly, and only ever
 * a draft.
 */
import type { Device } from '../../api/device.ts';
import type { PolicyTest, TestFailure } from '../../policy/policy-test/policy-test.ts';
import { protocols, type Direction, type Family } from '../../policy/rule.ts';
import { blankRule, type Draft, type DraftRule } from './draft.ts';
import { deviceChip, type DeviceNames } from './far-end.ts';
import type { Probe } from './reachability.ts';

/** `inbound tcp 5432 <device id>`. */
export function printDraft({
  direction,
  probe,
  farEnd,
  family,
}: {
  readonly direction: Direction;
  readonly probe: Probe;
  readonly farEnd: Pick<Device, 'id'>;
  readonly family: Family;
}): string {
  const what = probe.kind === 'ping' ? (family === 4 ? 'icmp 0' : 'icmpv6 0') : `${probe.kind} ${probe.port}`;
  return `${direction} ${what} ${farEnd.id}`;
}

/** The missing rule of a test that fails, between the two devices of its pair; undefined where the far end is no device. */
export function fixDraft(
  { direction, from, to }: Pick<TestFailure, 'direction' | 'from' | 'to'>,
  { protocol, port }: Pick<PolicyTest, 'protocol' | 'port'>,
): string | undefined {
  const farEnd = direction === 'inbound' ? from : to;
  if (farEnd.device_id === undefined) return undefined;
  const family = farEnd.address.includes(':') ? 6 : 4;
  const probe: Probe = protocol === 'icmp' ? { kind: 'ping', port: 0 } : { kind: protocol, port: port ?? 0 };
  return printDraft({ direction, probe, farEnd: { id: farEnd.device_id }, family });
}

export interface DraftedRule {
  readonly direction: Direction;
  readonly rule: DraftRule;
}

/** Undefined for what no page of ours has written. */
export function readDraft(text: string, names: DeviceNames): DraftedRule | undefined {
  const [, direction, protocol = '', port, id = ''] =
    /^(inbound|outbound) ([a-z0-9]{1,8}) (\d{1,5}) ([0-9a-f-]{36})$/.exec(text) ?? [];
  if ((direction !== 'inbound' && direction !== 'outbound') || !protocols.some((known) => known === protocol)) {
    return undefined;
  }
  const ports = port === '0' ? '' : (port ?? '');
  return { direction, rule: { ...blankRule(), protocol, ports, ranges: [deviceChip(names.nameOf(id))] } };
}

export const withDrafted = (draft: Draft, drafted: DraftedRule | undefined): Draft =>
  drafted === undefined ? draft : { ...draft, [drafted.direction]: [...draft[drafted.direction], drafted.rule] };
