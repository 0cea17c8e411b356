/** Owns the printing of a device's nftables ruleset. */
import type { Device } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { surroundingsOf } from '../../api/enforcement/surroundings.ts';
import { policiesOf } from '../../organization/device-policies.ts';
import { organizationOf, policyOn } from '../../organization/of-records.ts';
import type { Organization } from '../../organization/organization.ts';
import { compile } from '../../nft/compile/compile.ts';
import { BadName, parseInterfaceName } from '../../nft/names.ts';
import { install } from '../../nft/plan/plan.ts';
import { printCommands } from '../../nft/print.ts';
import { canonicalize, canonicalizeNames } from '../../policy/canonicalize.ts';
import { isClosed } from '../../policy/decide.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import { readGroupRecord } from '../../policy/fleet/group-record.ts';
import { resolvePolicy } from '../../policy/fleet/resolve.ts';
import { CliError, usageError } from '../terminal/exit.ts';
import { findOne } from '../session/find-one.ts';
import type { Session } from '../session/session.ts';
import { allDevices, deviceName, namesOfDevice, allReports } from '../lookup/device.ts';
import { policyAt } from '../../policy/time/policy-at.ts';
import { allGroups, namesOfGroup } from '../lookup/group.ts';

/** The policy of a device, with the addresses that its peers have now; a group that cannot be seen makes it unknown, which is not the same as empty. */
export function knownPolicy(device: Device, model: Organization, at = Date.now()): EffectivePolicy {
  const policy = policyOn(model, device.id, at);
  if (!('missing' in policy)) return policy;
  const missing = policy.missing === 'default' ? 'the default group' : policy.missing.join(', ');
  throw new CliError(
    'notFound',
    `the policy of ${deviceName(device)} is not known: you do not have access to ${missing}`,
  );
}

export interface NftOptions {
  readonly interface: string;
  readonly neighbourDiscovery?: boolean;
}

export async function showNft(session: Session, text: string, options: NftOptions): Promise<void> {
  const [groups, devices] = await Promise.all([allGroups(session), allDevices(session)]);
  const { what, policy, device } = policyNamed(text, groups, devices);
  const report = device === undefined ? undefined : (await allReports(session)).get(device.id);
  const { serverAccess, containers } = surroundingsOf(report);
  let name: ReturnType<typeof parseInterfaceName>;
  try {
    name = parseInterfaceName(options.interface);
  } catch (error) {
    if (error instanceof BadName) throw usageError(error.message);
    throw error;
  }
  const ruleset = compile(canonicalizeNames(policy) ?? canonicalize(policy), {
    interface: name,
    neighbourDiscovery: options.neighbourDiscovery === true,
    serverAccess,
    forwarding: containers === 'guard' ? 'on' : undefined,
  });
  const printed = printCommands(install(ruleset));
  session.say(
    `The ruleset of ${what} on interface ${name}, from ${policy.groups.map((group) => group.name).join(', ')}:`,
  );
  if (isClosed(policy, 'outbound') && serverAccess === undefined) {
    session.say(
      'Not included: the rules for the traffic between the agent and its server. Each agent adds its own, and this one has not reported them.',
    );
  }
  await session.print({
    data: { for: what, interface: name, groups: policy.groups.map(({ id }) => id), ruleset: printed },
    ids: policy.groups.map(({ id }) => id),
    table: () => printed,
  });
}

/** A device's policy, or what a device would have that has this group alone. */
function policyNamed(
  text: string,
  groups: readonly SecurityGroup[],
  devices: readonly Device[],
): { readonly what: string; readonly policy: EffectivePolicy; readonly device?: Device } {
  const found = findOne(
    'device or group',
    text,
    [...devices.map((device) => ({ device })), ...groups.map((group) => ({ group }))],
    (one) => ('device' in one ? namesOfDevice(one.device) : namesOfGroup(one.group)),
  );
  if ('device' in found) {
    const { device } = found;
    return {
      what: `device ${deviceName(device)}`,
      policy: knownPolicy(device, organizationOf(devices, groups)),
      device,
    };
  }
  const { group } = found;
  const source = group.is_default === true ? 'default' : 'list';
  const { policy: now } = policyAt({ source, groups: [readGroupRecord(group)] }, Date.now());
  const policy = resolvePolicy(now, policiesOf(organizationOf(devices, groups)).fleet);
  return { what: `group ${group.group_name}`, policy };
}
