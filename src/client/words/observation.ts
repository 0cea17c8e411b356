/** Owns what a watch-only group would have done, in words: one text for command line and pages. */
import type { Flow } from '../../api/flows/flow.ts';
import type { GroupObservation } from '../../api/usage/group-observation.ts';
import { flowReason } from './flow.ts';
import { shareWords } from './usage.ts';

const packetWords = (count: number): string => `${count} ${count === 1 ? 'packet' : 'packets'}`;

/** `refused 8 of 17 admitted packets, and admitted 2 of 5 refused packets.` */
export function wouldWords({
  would_refuse,
  would_admit,
  admitted_packets,
  refused_packets,
}: Pick<GroupObservation, 'would_refuse' | 'would_admit' | 'admitted_packets' | 'refused_packets'>): string {
  const refused = `refused ${would_refuse.packets} of ${admitted_packets} admitted ${admitted_packets === 1 ? 'packet' : 'packets'}`;
  const admitted = `admitted ${would_admit.packets} of ${packetWords(refused_packets).replace(' ', ' refused ')}`;
  return `The group would have ${refused}, and ${admitted}.`;
}

/** How much of the traffic was seen: days of devices, and shares of them. */
export function observationSummary({
  devices,
  device_days,
  observed,
  observed_refused,
  not_recorded,
}: Pick<GroupObservation, 'devices' | 'device_days' | 'observed' | 'observed_refused' | 'not_recorded'>): string {
  if (devices === 0) return 'No device would have the group.';
  const days = `${device_days} device-days of ${devices} ${devices === 1 ? 'device' : 'devices'}`;
  const seen = `admitted traffic was observed in ${shareWords(observed)} of ${days}, refused traffic in ${shareWords(observed_refused)}`;
  const lost = not_recorded === 0 ? '' : `; ${packetWords(not_recorded)} were not recorded`;
  const hint =
    observed === 0 ? ' To see what it would refuse, an owner sets `observe` of the organization to `all`.' : '';
  return `${seen[0]?.toUpperCase()}${seen.slice(1)}${lost}.${hint}`;
}

/** The rule, or the nearest one and what does not match, of a flow whose decision is about the policy with the group. */
export function reasonWords(flow: Flow): string {
  const { decision } = flow;
  if (decision === undefined) return '';
  // The decision is the one that would have been, not a change since.
  const reason = flowReason({ ...flow, verdict: decision.verdict });
  if (reason === undefined) return '';
  const { before, rule, after } = reason;
  return [before, rule && `${rule.group_name}: ${rule.words}`, after && `(${after})`].filter(Boolean).join(' ');
}
