/** Owns the draft that would admit a refused flow: a rule for exactly its protocol and port, and a policy test of exactly its two ends. */
import type { Device } from '../../api/device.ts';
import type { Flow } from '../../api/flows/flow.ts';
import { flowTraffic } from '../../client/words/flow.ts';
import { devicesNamed } from '../../organization/of-records.ts';
import type { PolicyTest, TestEnd } from '../../policy/policy-test/policy-test.ts';
import type { StoredRule } from '../../policy/rule.ts';
import { deviceChip, labelChip, readChips, type DeviceNames } from '../model/far-end.ts';

/** Labels that one selector may name. */
const mostLabels = 8;

type Refused = Pick<Flow, 'verdict' | 'decision' | 'protocol' | 'port' | 'far'>;

/** The traffic as a rule names it; undefined where no rule is about this traffic alone. */
function trafficOf({
  protocol,
  port,
  far,
}: Refused): Pick<StoredRule, 'ip_protocol' | 'from_port' | 'to_port'> | undefined {
  if (protocol === 'tcp' || protocol === 'udp') {
    // In a rule, port 0 means every port.
    return port === undefined || port === 0 ? undefined : { ip_protocol: protocol, from_port: port, to_port: port };
  }
  const isSix = far.includes(':');
  if ((protocol === 'icmp' && !isSix) || (protocol === 'icmpv6' && isSix))
    return { ip_protocol: protocol, from_port: 0, to_port: 0 };
  return undefined;
}

/** Whether one rule in a group would admit it: nothing but a missing rule refuses it now, and a rule can name it. */
export const isAllowable = (flow: Refused): boolean =>
  flow.verdict === 'refused' &&
  flow.decision?.verdict === 'refused' &&
  flow.decision.reason === 'no-rule' &&
  trafficOf(flow) !== undefined;

/** A far end that a rule may name, as a chip, and how many devices that means now. */
interface FarEndChoice {
  readonly chip: string;
  /** Of an address: none. */
  readonly devices: readonly Pick<Device, 'id'>[];
}

/** The far ends that include the one of the flow: labels first, the narrowest of them at the top, then the device and the address. */
export function farEndChoices(
  { far, far_devices }: Pick<Flow, 'far' | 'far_devices'>,
  devices: readonly Device[],
  names: DeviceNames,
): readonly FarEndChoice[] {
  const [first, ...others] = far_devices;
  // An address that several devices have is that of a label only where all of them carry it.
  const common = (first?.labels ?? []).filter((label) => others.every(({ labels }) => labels.includes(label)));
  const together = common.length > 1 && common.length <= mostLabels ? [common] : [];
  const byLabel = [...together, ...common.map((label) => [label])]
    .map((labels): FarEndChoice => ({
      chip: labelChip(labels),
      devices: devicesNamed([{ labels }], devices),
    }))
    .toSorted((a, b) => a.devices.length - b.devices.length);
  const known = far_devices.flatMap(({ device_id }) => devices.find(({ id }) => id === device_id) ?? []);
  const byDevice = known.map((device): FarEndChoice => ({
    chip: deviceChip(names.nameOf(device.id)),
    devices: [device],
  }));
  return [...byLabel, ...byDevice, { chip: far, devices: [] }];
}

/** With labels the first of them, else the address. */
export const usualChoice = (choices: readonly FarEndChoice[]): FarEndChoice | undefined =>
  choices.find(({ chip }) => chip.startsWith('label:')) ?? choices.at(-1);

/** Undefined for traffic that no rule can name. */
export function draftedRule(flow: Refused, { chip }: FarEndChoice, names: DeviceNames): StoredRule | undefined {
  const traffic = trafficOf(flow);
  return traffic && { ...traffic, ...readChips([chip], names) };
}

/** The test that the connection of the flow stays allowed. An address that is not one device's stays an address. */
export function draftedTest(flow: Flow, names: DeviceNames): PolicyTest {
  const [device, ...others] = flow.far_devices;
  const far: TestEnd =
    device === undefined || others.length > 0 ? { address: flow.far } : { device_id: device.device_id };
  const near: TestEnd = { device_id: flow.device_id };
  const word = (end: TestEnd): string => ('device_id' in end ? names.nameOf(end.device_id) : flow.far);
  const [from, to] = flow.direction === 'in' ? [far, near] : [near, far];
  const { protocol, port } = flow;
  return {
    name: `${word(from)} reaches ${word(to)} by ${flowTraffic(flow)}`,
    from,
    to,
    ...(protocol === 'tcp' || protocol === 'udp'
      ? { protocol, ...(port !== undefined && { port }) }
      : { protocol: 'icmp' }),
    expect: 'allow',
  };
}
