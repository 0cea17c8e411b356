/** Owns evidence in words: everything that the signed file says, as headings with sentences below. */
import {
  evidenceFormat,
  type EvidenceCause,
  type EvidenceReach,
  type EvidenceReceipt,
  type EvidenceState,
  type EvidenceWrite,
  type NamedDevice,
  type SignedEvidence,
} from '../../api/evidence/document.ts';
import { actionText } from '../../client/words/action.ts';
import { ruleText } from '../../client/words/rule.ts';
import { printable } from '../../policy/names/printable.ts';

interface EvidenceSection {
  readonly title: string;
  readonly sentences: readonly string[];
}
interface EvidenceWords {
  readonly title: string;
  readonly sections: readonly EvidenceSection[];
}

const nameOf = ({ id, hostname }: NamedDevice): string => hostname || id;
const personOf = ({ by, by_server }: EvidenceWrite): string =>
  by_server ? 'the server' : (by?.username ?? by?.user_id ?? 'not known');
const revisionOf = ({ revision, change_id }: EvidenceWrite): string =>
  `(revision ${revision}${change_id === undefined ? '' : `, change ${change_id}`})`;
/** `ada at 2026-11-09T10:00:00.000Z (revision 12, change …)`. */
const writeWords = (write: EvidenceWrite): string => `${personOf(write)} at ${write.at} ${revisionOf(write)}`;

const protocols = new Map([
  ['any', 'any protocol'],
  ['icmp', 'ping'],
  ['icmpv6', 'ping (IPv6)'],
  ['other', 'other protocols'],
]);
function trafficWords({ protocol, ports = [] }: EvidenceReach['traffic'][number]): string {
  const spans = ports.map(({ from, to }) =>
    to - from === 65_535 ? 'all ports' : from === to ? from : `${from}-${to}`,
  );
  return [protocols.get(protocol) ?? protocol, spans.join(', ')].join(' ').trim();
}

const admissions = new Map([
  ['open', 'no outbound rules'],
  ['isolation', 'its isolation'],
]);
const ruleWords = (keys: readonly string[]): string =>
  keys.map((key) => admissions.get(key) ?? key).join(', ') || 'none';

const reachWords = ({ devices, traffic, source, target }: EvidenceReach): string =>
  `${devices.map(nameOf).join(', ')}: ${traffic.map(trafficWords).join('; ')}. Let out by ${ruleWords(source)}, let in by ${ruleWords(target)}.`;

function causeWords(cause: EvidenceCause): string {
  if (cause.kind === 'time') return `Time passed at ${cause.at}: a rule expired or an isolation ended.`;
  const { operation, credential, kind, type, name, id, before = null, after = null } = cause;
  const action = operation && actionText({ operation, credential: { kind: credential as 'user_token' } });
  return `At ${cause.at}, ${personOf(cause)} ${action ?? `${type} ${kind}`} ${name || id} ${revisionOf(cause)}. Before: ${JSON.stringify(before)}. After: ${JSON.stringify(after)}.`;
}

const groupWords = { list: 'in its list', label: 'by label', default: 'default group', guardrail: '' } as const;

/** The sentences, or one that says that there are none. */
const orNone = (sentences: readonly string[], none: string): readonly string[] =>
  sentences.length === 0 ? [none] : sentences;

function stateSections(state: EvidenceState, number: number, end: string | undefined): readonly EvidenceSection[] {
  const { from, until = end, revision, causes, device, groups, admits, admits_more = 0, in_force_on_all_at } = state;
  const title = `State ${number}: ${from}${until === undefined ? '' : ` to ${until}`}, revision ${revision}`;
  const sample = in_force_on_all_at && `The sample of ${in_force_on_all_at} shows the policy in force on every device.`;
  const why = [...causes.map(causeWords), ...(sample === undefined ? [] : [sample])];
  if (device === undefined) return [{ title, sentences: [...why, 'The device did not exist.'] }];
  const { hostname, tunnel_ip, addresses, labels, isolated, written } = device;
  const places = [tunnel_ip, ...addresses].filter((one) => one !== '').join(', ') || 'none';
  const sentences = [
    ...why,
    ...(isolated === undefined ? [] : [`The device was isolated: ${JSON.stringify(isolated)}`]),
    `Name ${hostname}, addresses ${places}, labels ${labels.join(', ') || 'none'}. Written by ${writeWords(written)}.`,
    ...(groups?.map(({ name, by, guardrail = '' }) => `Group ${name}: ${groupWords[by]}${guardrail}.`) ?? [
      'A group in the list of the device is not known, so what it admitted is not known.',
    ]),
    `Rules to it: ${ruleWords(state.inbound_rules)}. Rules from it: ${ruleWords(state.outbound_rules)}.`,
  ];
  const unlisted = admits_more === 0 ? '' : ` (${admits_more} further sets are not listed)`;
  const admitted = admits.map((set) => `${set.direction} ${trafficWords(set)}: ${set.ranges.join(', ')}`);
  return [
    { title, sentences },
    { title: 'Could connect to it', sentences: orNone(state.reached_by.map(reachWords), 'No device could.') },
    { title: 'It could connect to', sentences: orNone(state.reaches.map(reachWords), 'No device.') },
    { title: `All that it admitted${unlisted}`, sentences: orNone(admitted, 'Nothing.') },
  ];
}

const receiptWords = (name: string, receipt: EvidenceReceipt): string =>
  [
    `${name}: ${receipt.in_force.replaceAll('_', ' ')}, by a policy that ${receipt.same_policy ? 'is that of the last state' : 'has changed since'}`,
    receipt.revision === undefined ? '' : `, revision ${receipt.revision}`,
    receipt.reported_at === undefined ? '' : `, reported at ${receipt.reported_at}`,
    receipt.policy_digest === undefined ? '' : `, digest ${receipt.policy_digest}`,
  ].join('');

function enforcementWords({ now, others, samples }: SignedEvidence['in_force']): readonly string[] {
  const whole = samples.filter(({ devices, in_force }) => devices === in_force).length;
  const far = others && [
    `${others.whose === 'reach' ? 'Devices of the last state that could connect to it, or that it could connect to' : 'The device is isolated, and every other device has to refuse it except those that its isolation allows'}: ${others.devices}. Of these, ${others.proven} proved when this file was made that their kernels hold the last state.`,
    ...others.receipts.map((one) => receiptWords(nameOf(one), one)),
  ];
  return [
    `In ${whole} of ${samples.length} samples of that time, the policy was in force on every device of the organization.`,
    ...(now === undefined ? [] : [receiptWords('The device when this file was made', now)]),
    ...(far ?? []),
  ];
}

const trafficSentences = ({ since, until, recorded, refused }: SignedEvidence['traffic']): readonly string[] => [
  `From ${since} to ${until}.`,
  ...recorded.map((one) => `${one.day}: ${one.refused_seconds} seconds recorded, ${one.not_recorded} packets not.`),
  ...orNone(
    refused.map(({ since: at, direction, far, far_devices, protocol, port = '', packets, decision }) => {
      const ends = [far, ...far_devices.map(({ hostname }) => hostname)].join(', ');
      return `${at} ${direction} ${ends}, ${protocol} ${port}: ${packets} packets. The policy then: ${decision?.verdict ?? 'not known'} ${decision?.reason ?? ''}`;
    }),
    'No refusal is recorded.',
  ),
];

type TestResult = SignedEvidence['policy_tests']['tests'][number];
const testWords = ({ name, from, to, protocol, port, expect, state }: TestResult): string =>
  `${name}: ${JSON.stringify(from)} to ${JSON.stringify(to)} ${protocol} ${port ?? ''}, ${expect}: ${state}.`;

/** Names and descriptions are chosen by people: no character of them hides. */
const show = (_: string, value: unknown): unknown => (typeof value === 'string' ? printable(value) : value);

/** Undefined where the text is something else. */
export function evidenceInWords(text = ''): EvidenceWords | undefined {
  try {
    const evidence = JSON.parse(text, show) as SignedEvidence;
    return evidence.format === evidenceFormat ? wordsOf(evidence) : undefined;
  } catch {
    return undefined;
  }
}

function wordsOf(evidence: SignedEvidence): EvidenceWords {
  const { organization, device, at, to, created_at, created_by, server_version, states, policy_tests } = evidence;
  const seen = states.flatMap((state) => [...state.reached_by, ...state.reaches]).flatMap(({ devices }) => devices);
  const hostnames = new Map([...seen, device].map(({ id, hostname }) => [id, hostname]));
  const names = { nameOf: (id: string) => hostnames.get(id) };
  const rules = Object.entries(evidence.rules).map(
    ([key, { group_name, direction, rule, written }]) =>
      `${key}: ${group_name} ${direction} ${ruleText(direction, rule, names)}, since ${written ? writeWords(written) : 'not known'}.`,
  );
  const about = [
    `Organization ${organization.name} (${organization.id}), device ${device.id}, ${to === undefined ? `at ${at}` : `from ${at} to ${to}`}.`,
    `Made at ${created_at} by ${created_by.username ?? created_by.user_id}, Ringfence ${server_version}.`,
  ];
  return {
    title: `Evidence about ${nameOf(device)}`,
    sections: [
      { title: 'What it is about', sentences: about },
      { title: 'What this file cannot say', sentences: evidence.not_known.map(String) },
      ...states.flatMap((state, index) => stateSections(state, index + 1, to)),
      { title: 'Rules, and who wrote them', sentences: orNone(rules, 'No rule.') },
      { title: 'In force', sentences: enforcementWords(evidence.in_force) },
      { title: 'Refused traffic', sentences: trafficSentences(evidence.traffic) },
      {
        title: 'Policy tests',
        sentences: orNone(policy_tests.tests.map(testWords), policy_tests.known ? 'None.' : 'Not known.'),
      },
    ],
  };
}
