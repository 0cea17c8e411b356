/**
 * Owns a rule that is drafted on one page and edited on another, as the URL carries it: parsed strictly, and only ever
 * a draft.
 */
import type { Device } from '../../api/device.ts';
import type { TestFailure } from '../../policy/policy-test/policy-test.ts';
import { protocols, type Direction, type Family } from '../../policy/rule.ts';
import { blankRule, type Draft, type DraftRule } from './draft.ts';
import { deviceChip, selectorChip, type DeviceNames } from './far-end.ts';
import type { Probe } from './reachability.ts';

/** `inbound tcp 5432 <device id>`; the far end may also be `label:app`, `all-devices` or an address. */
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

/** The rule that would make a failing test pass; undefined where a draft cannot say it. */
export function fixDraft({ direction, rule }: NonNullable<TestFailure['fix']>): string | undefined {
  const { ip_protocol, from_port, to_port, peers = [], ip_ranges = [] } = rule;
  const [peer] = peers;
  const farEnd = peer === undefined ? ip_ranges[0] : 'device_id' in peer ? peer.device_id : selectorChip(peer);
  if (peers.length + ip_ranges.length !== 1 || from_port !== to_port || farEnd === undefined) return undefined;
  return `${direction} ${ip_protocol} ${from_port} ${farEnd}`;
}

export interface DraftedRule {
  readonly direction: Direction;
  readonly rule: DraftRule;
}

/** Undefined for what no page of ours has written. */
export function readDraft(text: string, names: DeviceNames): DraftedRule | undefined {
  const [, direction, protocol = '', port, farEnd = ''] =
    /^(inbound|outbound) ([a-z0-9]{1,8}) (\d{1,5}) ([0-9a-f-]{36}|all-devices|label:[a-z0-9._/+-]{1,511}|[0-9a-f.:/]{2,43})$/.exec(
      text,
    ) ?? [];
  if ((direction !== 'inbound' && direction !== 'outbound') || !protocols.some((known) => known === protocol)) {
    return undefined;
  }
  const ports = port === '0' ? '' : (port ?? '');
  const chip = /^[0-9a-f-]{36}$/.test(farEnd) ? deviceChip(names.nameOf(farEnd)) : farEnd;
  return { direction, rule: { ...blankRule(), protocol, ports, ranges: [chip] } };
}

export const withDrafted = (draft: Draft, drafted: DraftedRule | undefined): Draft =>
  drafted === undefined ? draft : { ...draft, [drafted.direction]: [...draft[drafted.direction], drafted.rule] };
