/** Owns the sentences about what evidence cannot say: an auditor reads them first. */
import type { EvidenceDocument } from '../../api/evidence/document.ts';

const isWhole = ({ devices, in_force }: EvidenceDocument['in_force']['samples'][number]): boolean =>
  devices === in_force;

function aboutEnforcement({
  states,
  in_force: { now, others, samples },
}: Omit<EvidenceDocument, 'not_known'>): readonly string[] {
  const whole = samples.filter(isWhole).length;
  const past =
    samples.length === 0
      ? 'Whether the device enforced its policy in that time is not known: Ringfence keeps the last report of each device, and samples of the whole organization for two weeks.'
      : whole === samples.length
        ? undefined
        : `In ${samples.length - whole} of ${samples.length} samples of that time, the policy was not in force on every device of the organization. Whether this device was among them is not known.`;
  const present =
    now === undefined
      ? 'The device is deleted, so it reports nothing now.'
      : now.same_policy
        ? undefined
        : 'The policy of the device has changed since, so its present report says nothing about that time.';
  const isolated = states.filter(
    ({ device, in_force_on_all_at }) => device?.isolated && in_force_on_all_at === undefined,
  );
  const refusal =
    isolated.length === 0
      ? undefined
      : `The device was isolated in ${isolated.length === 1 ? 'a state' : `${isolated.length} states`} in whose time no sample shows the policy in force on every device. Whether every other device that had to refuse it did so is not known from samples.`;
  const lacking = others === undefined ? 0 : others.devices - others.proven;
  const far =
    others === undefined || lacking === 0
      ? undefined
      : `Of the ${others.devices} ${others.whose === 'reach' ? 'devices that the last state lets connect' : 'other devices, which have to refuse the isolated device except those that its isolation allows'}, ${lacking} do not prove now that their kernels hold the last state. They are listed first under “In force”.`;
  return [past, present, refusal, far].flatMap((sentence) => sentence ?? []);
}

function aboutTraffic({
  traffic: { recorded, more, refused },
}: Omit<EvidenceDocument, 'not_known'>): readonly string[] {
  const lost = recorded.reduce((sum, { not_recorded }) => sum + not_recorded, 0);
  return [
    ...(recorded.length === 0
      ? ['What was refused in that time is not known: the device recorded no traffic then, or it is no longer kept.']
      : [
          'Traffic was recorded only for the seconds of each day that the list shows. A device reports its own traffic, and nothing checks that.',
        ]),
    ...(lost > 0 ? [`${lost} packets were refused or admitted and not recorded, because there were too many.`] : []),
    ...(more ? [`Only the newest ${refused.length} sums of refused traffic are listed.`] : []),
  ];
}

/** Every gap of this evidence. */
export function unknownsOf(document: Omit<EvidenceDocument, 'not_known'>, hasAllWriters: boolean): readonly string[] {
  const { states, rules, policy_tests } = document;
  const unwritten = Object.values(rules).filter(({ written }) => written === undefined).length;
  return [
    ...aboutEnforcement(document),
    ...aboutTraffic(document),
    ...(unwritten > 0
      ? [
          `Who wrote ${unwritten === 1 ? 'one of the rules' : `${unwritten} of the rules`} is not known${hasAllWriters ? ': they are older than the history' : ', because too many groups are involved'}.`,
        ]
      : []),
    ...(states.some(({ device, groups }) => device !== undefined && groups === undefined)
      ? ['In some states, a group in the list of the device is not known, so what it admitted is not known either.']
      : []),
    ...(states.some(({ admits_more = 0 }) => admits_more > 0)
      ? [
          'In some states, the device admitted more sets of addresses and ports than this file lists. The rules are complete.',
        ]
      : []),
    ...(states.some(({ unknown_devices }) => unknown_devices.length > 0)
      ? ['The policy of some other devices is not known. They are listed in the states concerned.']
      : []),
    ...(policy_tests.known
      ? []
      : ['The policy tests of that time are not known: the audit does not reach back that far.']),
    'Ringfence knows the traffic that its agents admit at their interfaces. It does not know what other firewalls, networks and programs admit.',
  ];
}
