/** Owns what a watch-only group would have done, in words: one text for command line and pages. */
import type { Flow } from '../../api/flows/flow.ts';
import type { GroupObservation } from '../../api/usage/group-observation.ts';
import { reasonText } from './flow.ts';
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

type Coverage = Pick<GroupObservation, 'devices' | 'device_days' | 'observed' | 'observed_refused' | 'not_recorded'>;

/** How much of the traffic was seen: days of devices, and shares of them. */
export function coverageWords({ devices, device_days, observed, observed_refused, not_recorded }: Coverage): string {
  if (devices === 0) return 'No device would have the group.';
  if (observed === 0 && observed_refused === 0 && not_recorded === 0)
    return `Nothing was observed yet on ${devices === 1 ? 'the device' : `the ${devices} devices`} that would have the group.`;
  const days = `${device_days} device-days of ${devices} ${devices === 1 ? 'device' : 'devices'}`;
  const seen = `admitted traffic was observed in ${shareWords(observed)} of ${days}, refused traffic in ${shareWords(observed_refused)}`;
  const lost = not_recorded === 0 ? '' : `; ${packetWords(not_recorded)} were not recorded`;
  return `${seen[0]?.toUpperCase()}${seen.slice(1)}${lost}.`;
}

/** The same, and what to do where admitted traffic was not observed. */
export const observationSummary = (of: Coverage): string =>
  of.devices > 0 && of.observed === 0
    ? `${coverageWords(of)} To see what it would refuse, an owner sets \`observe\` of the organization to \`all\`.`
    : coverageWords(of);

/** A flow with the verdict that would have been. */
export const asDecided = (flow: Flow): Flow => ({ ...flow, verdict: flow.decision?.verdict ?? flow.verdict });

/** The rule, or the nearest one and what does not match, of a flow whose decision is about the policy with the group. */
export const reasonWords = (flow: Flow): string => reasonText(flow, 'would');
