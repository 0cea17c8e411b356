/** Owns the operation that simulates a change (reference 4.16): it validates the change and writes nothing. */
import { listProblems } from '../../../organization/decide/list.ts';
import type { RequestProblem } from '../../../api/codes.ts';
import type { InForce } from '../../../api/enforcement/in-force.ts';
import type { SecurityGroup } from '../../../api/group.ts';
import { pathFor } from '../../../api/paths.ts';
import { testLimits } from '../../../policy/policy-test/policy-test.ts';
import { parseDeviceId, parseGroupId, type DeviceId } from '../../../policy/ids.ts';
import type { Organization } from '../../../organization/organization.ts';
import { placeholderId } from '../../preview/planned-change.ts';
import { writeSimulation, type AffectedDevice } from '../../preview/simulation.ts';
import { HttpError, invalid, problemTable, refuseInvalid, StoreError } from '../../problems.ts';
import type { DeviceRecord, GroupRecord } from '../../store/data/records.ts';
import { lengthsOf, type Call, type Handler, type OrganizationServices } from '../call.ts';
import { decideRights, type Role } from '../guard/rights.ts';
import { expectedRevision } from '../request/conditions.ts';
import { namedIn, readChanges, shapeProblems, type ChangeBody, type KnownRecords } from '../request/change-body.ts';
import { knownRecords, refuseVoid } from './changes.ts';

type Simulate = Call<'simulateChanges'>;

/** Checks that the caller could write each of these records: 403 as for the write itself. */
function checkRights(
  { principal, subjects }: Simulate,
  { groups, devices, deletes, policyTests }: ChangeBody,
  known: KnownRecords,
): void {
  const roles: readonly Role[] = subjects.byOwner === true ? ['member', 'owner'] : ['member'];
  const me = principal.user_id;
  const need = (id: Parameters<typeof decideRights>[0], owner: string | undefined, own: Role): void => {
    const held = new Set<Role>(owner === me ? [...roles, own] : roles);
    if (decideRights(id, held, { organizationOwned: owner === undefined, ownDevice: false }) !== 'yes')
      throw new HttpError('forbidden', 'You do not have permission to do this.');
  };
  const ofGroup = (id: 'updateSecurityGroup' | 'deleteSecurityGroup', group: GroupRecord): void =>
    need(id, group.user_id, 'owning_user');
  for (const one of groups) {
    if (one.type === 'update') ofGroup('updateSecurityGroup', one.now);
    else if (one.user_id === undefined) need('createSecurityGroup', undefined, 'owning_user');
  }
  for (const { kind, id } of deletes) {
    if (kind === 'device') {
      const device = known.devices.get(id);
      need('deleteDevice', device?.user_id, 'device_user');
      if (device?.isolated !== undefined && subjects.byOwner !== true)
        throw new StoreError({ code: 'isolated_by_owner' });
    } else ofGroup('deleteSecurityGroup', known.groups.get(id) as GroupRecord);
  }
  for (const { now, patch } of devices) {
    need('updateDevice', now.user_id, 'device_user');
    if (subjects.byOwner !== true) checkOwners(now, patch);
  }
  if (policyTests !== undefined) need('replacePolicyTests', undefined, 'owning_user');
}

const isSameList = (a: readonly string[] = [], b: readonly string[] = []): boolean => a.join(' ') === b.join(' ');

/** Checks the fields of a device that only owners change. Anybody who may change the device may repeat the current value. */
function checkOwners(now: DeviceRecord, patch: Readonly<Partial<DeviceRecord>>): void {
  if (patch.labels !== undefined && !isSameList(patch.labels, now.labels))
    throw new StoreError({ code: 'labels_by_owner' });
  const moves =
    (patch.tunnel_ip !== undefined && patch.tunnel_ip !== now.tunnel_ip) ||
    (patch.addresses !== undefined && !isSameList(patch.addresses, now.addresses));
  if (moves && ((now.labels ?? []).length > 0 || now.isolated !== undefined))
    throw new StoreError({ code: 'address_by_owner' });
}

/** The problems that an answer lists, with pointers from here. */
const within = (here: string, { members }: HttpError): RequestProblem[] =>
  (members.errors ?? []).map((problem) => ({ ...problem, pointer: `${here}${problem.pointer}` }));

/** Problems that only show beside the other records: lists that name groups, and groups that may not apply by label. */
function recordProblems(
  { groups, devices, deletes }: ChangeBody,
  before: Organization,
  { preview }: OrganizationServices,
): RequestProblem[] {
  const { phase } = preview;
  const gone = new Set<string>(deletes.map(({ id }) => id));
  const made = new Map(groups.map((one, index) => [one.id ?? placeholderId(index), one]));
  const find = (id: string) => {
    const planned = made.get(parseGroupId(id));
    if (planned?.type === 'create')
      return { user_id: planned.user_id ?? null, is_default: false, guardrail: planned.group.guardrail ?? null };
    const stored = gone.has(id) ? undefined : before.groups.get(parseGroupId(id));
    return (
      stored && {
        user_id: stored.user_id ?? null,
        is_default: stored.isDefault,
        guardrail: stored.group.guardrail ?? null,
      }
    );
  };
  const ofLists = devices.flatMap(({ now, patch }, index) => {
    const problems =
      patch.security_groups === undefined
        ? []
        : listProblems(patch.security_groups, { user: now.user_id, phase, find });
    return within(`/devices/${index}`, problemTable.group_list_invalid({ problems }));
  });
  const ofGroups = groups.flatMap((one, index) => {
    const { applies_to = [], guardrail } = one.group;
    const fields = [
      ...(applies_to.length > 0 ? (['applies_to'] as const) : []),
      ...(one.type === 'create' && guardrail !== undefined ? (['guardrail'] as const) : []),
    ];
    const refused = (why: 'user_group' | 'phase' | 'default_group' | 'default_mode', asked: typeof fields | ['mode']) =>
      within(`/security_groups/${index}`, problemTable.application_refused({ why, fields: asked }));
    const owner = one.type === 'create' ? one.user_id : one.now.user_id;
    const isDefault = one.type === 'update' && one.now.is_default === true;
    const why = owner !== undefined ? 'user_group' : phase !== 3 ? 'phase' : isDefault ? 'default_group' : undefined;
    return [
      ...(why === undefined ? [] : refused(why, fields)),
      ...(isDefault && one.group.mode === 'observe' ? refused('default_mode', ['mode']) : []),
    ];
  });
  return [...ofLists, ...ofGroups];
}

/** A record must have the revision that its entry names, and no trial is in the way: 412 and 409 as for the write itself. */
function checkStanding({ groups, devices, deletes }: ChangeBody, known: KnownRecords): void {
  const listed = devices.flatMap(({ now, patch }) => (patch.security_groups === undefined ? [] : [now]));
  const deleted = deletes.flatMap(({ id, kind }) => (kind === 'device' ? [] : (known.groups.get(id) ?? [])));
  const updated = groups.flatMap((one) => (one.type === 'update' ? [one] : []));
  for (const { if_match, now } of [...updated, ...devices])
    expectedRevision(if_match === undefined ? undefined : [if_match], now.revision);
  for (const { trial } of [...updated.map(({ now }) => now), ...listed, ...deleted])
    if (trial !== undefined) throw new StoreError({ code: 'trial_pending', trial: trial.id });
}

/** The devices that the rules of a group name as peers. */
const devicesNamed = ({ inbound_rules = [], outbound_rules = [] }: GroupRecord | SecurityGroup): readonly string[] =>
  [...inbound_rules, ...outbound_rules].flatMap(({ peers = [] }) =>
    peers.flatMap((peer) => ('device_id' in peer ? [peer.device_id] : [])),
  );

/** Reads and validates the body as it would be written. */
function readPlan(
  call: Simulate,
  services: OrganizationServices,
  known: KnownRecords,
  before: Organization,
): ChangeBody {
  const { deletes } = namedIn(call.body);
  const gone = new Set(deletes);
  // A device that a group named before may be gone since.
  const named = new Set([...known.groups.values()].flatMap(devicesNamed));
  const { changes, ...found } = readChanges(call.body, known, {
    organization: call.params.org_id,
    caller: call.principal.user_id,
    limits: services.limits,
    lengths: lengthsOf(services.limits),
    now: services.clock(),
    knowsDevice: (id) => (before.devices.has(parseDeviceId(id)) && !gone.has(id)) || named.has(id),
  });
  checkRights(call, changes, known);
  refuseInvalid(found);
  checkStanding(changes, known);
  if (services.preview.phase === 1 && changes.groups.some(({ type }) => type === 'create'))
    throw new StoreError({ code: 'phase_forbids' });
  const problems = recordProblems(changes, before, services);
  if (problems.length > 0) throw invalid(problems);
  if (call.query.force !== true) refuseVoid(changes);
  return changes;
}

/** The enforcement of devices that there are now. */
async function enforcementOf(call: Simulate, { convergence }: OrganizationServices, page: readonly AffectedDevice[]) {
  const survey = await convergence.survey(call.params.org_id);
  const ids = page.map(({ id }) => id).filter((id) => survey.devices.has(id));
  const statuses = await survey.enforcementStatuses(ids);
  return new Map<DeviceId, InForce>(statuses.map(({ device_id, in_force }) => [device_id, in_force]));
}

const simulate: Handler<'simulateChanges'> = async (call, services) => {
  const { problems, more } = shapeProblems(call.body);
  // An empty change is allowed here.
  refuseInvalid({ problems: problems.filter(({ code }) => code !== 'too_few_items'), more });
  const { org_id } = call.params;
  const before = await services.preview.read(org_id, call.work);
  const known = await knownRecords(call, services);
  const plan = readPlan(call, services, known, before);
  const stored = await services.store.policyTests.list(org_id);
  const { policyTests = stored.tests, policyTestsRevision } = plan;
  expectedRevision(policyTestsRevision === undefined ? undefined : [policyTestsRevision], stored.revision);
  const { limit, after, force } = call.query;
  const steps = plan.policyTests === undefined ? testLimits.steps : testLimits.writtenSteps;
  const wanted = { policyTests, steps, page: { after, limit } };
  const simulated = await services.preview.simulate(before, plan, wanted, call.work);
  const { page, isCut } = simulated;
  const inForce = await enforcementOf(call, services, page);
  const last = page.at(-1);
  const query = [
    ...(limit === undefined ? [] : [`limit=${limit}`]),
    `after=${last?.id}`,
    ...(force === true ? ['force=true'] : []),
  ];
  const next = `${pathFor('simulateChanges', { org_id })}?${query.join('&')}`;
  return {
    kind: 'record',
    json: writeSimulation({ ...simulated, inForce }),
    ...(isCut && last !== undefined && { next }),
  };
};

export const simulateHandlers = { simulateChanges: simulate } as const;
