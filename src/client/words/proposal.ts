/** Owns a proposal in words: one text for command line and pages. */
import type { LeftOut, NotCovered, Proposal, ProposedRule } from '../../api/usage/proposal.ts';
import { flowTraffic } from './flow.ts';
import { shareWords } from './usage.ts';

const countOf = (count: number, one: string, many = `${one}s`): string => `${count} ${count === 1 ? one : many}`;

/** What was seen of the traffic that the rule admits. */
export const seenWords = ({ packets, device_count, far_end_count }: ProposedRule): string =>
  `${countOf(packets, 'packet')} on ${countOf(device_count, 'device')}, with ${countOf(far_end_count, 'far address', 'far addresses')}`;

const namesOf = (devices: ProposedRule['devices'], count: number): string =>
  `${devices.map(({ hostname, device_id }) => hostname || device_id).join(', ')}${count > devices.length ? ', …' : ''}`;

/** What a person should look at before the rule is used: where it admits more or less than what was seen. */
export function checkWords(proposed: ProposedRule): readonly string[] {
  const { seen_once, also_admits, also_admits_count, ambiguous = [], ambiguous_count = 0, assumes_echo } = proposed;
  const { refused_by_far_end = 0 } = proposed;
  return [
    ...(ambiguous_count > 0
      ? [
          `By address, because nothing proves whose it is; listed by ${countOf(ambiguous_count, 'device')}: ${namesOf(ambiguous, ambiguous_count)}`,
        ]
      : []),
    ...(refused_by_far_end > 0 ? [`The far end refused ${refused_by_far_end} of these packets`] : []),
    ...(also_admits_count > 0
      ? [
          `Its labels also admit ${countOf(also_admits_count, 'device that was', 'devices that were')} not seen: ${namesOf(also_admits, also_admits_count)}`,
        ]
      : []),
    ...(seen_once > 0
      ? [`${countOf(seen_once, 'address', 'addresses')} of no device, each seen with one packet only`]
      : []),
    ...(assumes_echo === true ? ['Ping only: records have no ICMP type'] : []),
  ];
}

const reasons: { readonly [R in NotCovered['reason']]: string } = {
  not_expressible: 'no rule admits only this protocol or port',
  too_many: 'there are more rules or far ends than a proposal holds',
  forbidden: 'a guardrail forbids it',
};

/** `web-1 in tcp 23 from 192.0.2.7, 2 packets`. */
export function leftOutWords(flow: LeftOut): string {
  const { hostname, device_id, direction, far, packets } = flow;
  const place = `${hostname || device_id} ${direction}`;
  const far_end = `${direction === 'in' ? 'from' : 'to'} ${far}`;
  return `${place} ${flowTraffic(flow)} ${far_end}, ${countOf(packets, 'packet')}`;
}

/** `web-1 in tcp 23 from 192.0.2.7, 2 packets: a guardrail forbids it`. */
export const notCoveredWords = (flow: NotCovered): string => `${leftOutWords(flow)}: ${reasons[flow.reason]}`;

/** What the rules would do with the observed traffic. */
export function coveredWords({ rules, not_covered, refused_by_far_end, admitted_packets }: Proposal): string {
  if (admitted_packets === 0) return 'No admitted traffic was observed, so there is nothing to propose.';
  if (not_covered.packets > 0)
    return `The group would refuse ${not_covered.packets} of ${countOf(admitted_packets, 'admitted packet')}.`;
  if (rules.length === 0 && refused_by_far_end.sums > 0) return 'There is no other traffic that needs a rule.';
  if (rules.length === 0) return 'The observed traffic needs no rule: it is the way of agents to their server.';
  return `The group would refuse none of ${countOf(admitted_packets, 'admitted packet')}.`;
}

/** What an empty list of a direction means; empty where both have rules. */
export const emptyDirectionWords = ({ group: { inbound_rules = [], outbound_rules = [] } }: Proposal): string =>
  [
    ...(inbound_rules.length === 0 ? ['There are no inbound rules: nothing may come in.'] : []),
    ...(outbound_rules.length === 0 ? ['There are no outbound rules: everything may go out.'] : []),
  ].join(' ');

const rounded = (value: number): number => Math.round(value * 10) / 10;

/** `40 min`, `5.5 h`, `7 days`. */
function dayWords(days: number): string {
  const minutes = Math.round(days * 1_440);
  if (minutes < 60) return `${minutes} min`;
  return minutes < 1_440 ? `${rounded(days * 24)} h` : countOf(rounded(days), 'day');
}

/** `Admitted traffic was observed for 3 days of 7 days (43 %).` */
export function observedWords({ devices, device_days, observed }: Proposal): string {
  if (devices === 0) return 'No device carries these labels.';
  if (observed === 0) return 'No admitted traffic was recorded yet.';
  if (device_days === 0)
    return `Admitted traffic was observed for some minutes so far (${shareWords(observed)} of the time).`;
  const over = devices === 1 ? '' : `, added up over ${devices} devices`;
  return `Admitted traffic was observed for ${dayWords(device_days * observed)} of ${dayWords(device_days)} (${shareWords(observed)})${over}.`;
}

/** What the far end refused; empty where it refused nothing. */
export const refusedByFarEndWords = ({ refused_by_far_end: { sums } }: Proposal): string =>
  sums === 0
    ? ''
    : `The far end refused ${countOf(sums, 'connection, which gets', 'connections, which get')} no rule unless you ask for it:`;

/** How much was observed, and what the proposal leaves out. */
export function proposalCoverage(proposal: Proposal): string {
  const { observed, not_recorded, refused_packets } = proposal;
  return [
    observedWords(proposal),
    ...(observed > 0 && observed < 1 ? ['What was not observed is not proposed.'] : []),
    ...(not_recorded > 0 ? [`${countOf(not_recorded, 'packet was', 'packets were')} not recorded.`] : []),
    ...(refused_packets > 0
      ? [`${countOf(refused_packets, 'refused packet is', 'refused packets are')} left out.`]
      : []),
  ].join(' ');
}
