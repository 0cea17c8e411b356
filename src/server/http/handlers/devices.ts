/** Owns the device operations (reference 4.2): registration, changes, moves, isolation and deletion. */
import type { DevicePatch } from '../../../organization/decide/device.ts';
import type { DeviceFields } from '../../../organization/decide/records.ts';
import {
  endpointFields,
  UpdateDevice as UpdateSchema,
  type AddDevice,
  type AppliedGroup,
  type UpdateDevice,
} from '../../../api/device.ts';
import { deviceProblems, normalAddresses, normalLabels } from '../../../api/device-body.ts';
import { devicesAllowed, isolateProblems, leftOutAddresses, type IsolateDevice } from '../../../api/isolation.ts';
import { pathFor, type OperationId } from '../../../api/paths.ts';
import { printAddress } from '../../../policy/address.ts';
import { deviceIdentity } from '../../../policy/fleet/identity.ts';
import { isUuid, parseDeviceId, parseGroupId, parseUserId, type UserId } from '../../../policy/ids.ts';
import { refusedAddresses } from '../../../policy/isolation/isolation.ts';
import type { IsolationRecord } from '../../../policy/isolation/isolation-record.ts';
import { isObject } from '../../../policy/json.ts';
import { at } from '../../../policy/problem.ts';
import { policiesOf } from '../../../organization/device-policies.ts';
import { mint } from '../../identity/secret.ts';
import { isolationEffect, type IsolationEffect } from '../../preview/isolation-warnings.ts';
import { WorkRefused } from '../../scheduling/work-budget.ts';
import type { Actor } from '../../store/data/actor.ts';
import { HttpError, invalid, refuseInvalid, StoreError } from '../../problems.ts';
import type { DeviceRecord, Stored } from '../../store/data/records.ts';
import { lengthsOf, stored, type Call, type Handler, type OrganizationServices, type RecordResult } from '../call.ts';
import { expectedRevision } from '../request/conditions.ts';
import { answerList } from '../request/paging.ts';
import { aboutRevision, pastRevision } from './past.ts';
import type { RevisionPage } from '../../store/data/page.ts';
import { trialOf } from '../request/trial.ts';

/** Every field that the body leaves out has the zero value of its type. */
const fieldsOf = (body: AddDevice): DeviceFields => ({
  public_key: body.public_key,
  local_ip: body.local_ip ?? '',
  tunnel_ip: body.tunnel_ip ?? '',
  child_prefix: body.child_prefix ?? null,
  relay: body.relay ?? false,
  discovery: body.discovery ?? false,
  reflexive_ip4: body.reflexive_ip4 ?? '',
  endpoint_local_address_ip4: body.endpoint_local_address_ip4 ?? '',
  symmetric_nat: body.symmetric_nat ?? false,
  hostname: body.hostname ?? '',
  addresses: normalAddresses(body.addresses ?? []),
  labels: normalLabels(body.labels ?? []),
});

const create: Handler<'createDevice'> = async (call, { store, random, limits }) => {
  const { org_id } = call.params;
  const { principal, body: given } = call;
  refuseInvalid(
    deviceProblems(given, {
      mode: 'create',
      organization_id: org_id,
      // Only an owner may register a device for another member, and not by an enrollment key.
      user_id: call.subjects.byOwner && principal.kind === 'user' ? undefined : principal.user_id,
      lengths: lengthsOf(limits),
    }),
  );
  const body = given as AddDevice;
  const byKey = principal.kind === 'enrollment' ? principal.key_id : undefined;
  if (byKey !== undefined && (body.security_groups ?? []).length > 0) {
    throw new HttpError('forbidden', 'A request with an enrollment key cannot set groups: the key sets them.');
  }
  if (byKey !== undefined && (body.labels ?? []).length > 0) {
    throw new HttpError(
      'labels_by_owner',
      'A request with an enrollment key cannot set labels: an owner sets them on the key.',
    );
  }
  const { secret, digest } = mint('device', random);
  const user_id = body.user_id === undefined ? principal.user_id : parseUserId(body.user_id);
  const answerOf = (device: Stored<DeviceRecord>): RecordResult => ({
    kind: 'record',
    json: `${device.json.slice(0, -1)},"device_token":${JSON.stringify(secret)}}`,
    revision: device.revision,
    location: pathFor('readDevice', { org_id, device_id: device.id }),
  });
  const device = await store.devices
    .create(org_id, call.creator(answerOf), {
      user_id,
      fields: fieldsOf(body),
      security_groups: (body.security_groups ?? []).map(parseGroupId),
      token: { digest, name: 'registration' },
      enrollment_key: byKey,
    })
    .catch((error: unknown) => {
      throw aboutUser(error, user_id, principal.user_id);
    });
  return answerOf(device);
};

/** A user in the body who is not a member is a problem of the body, not of the path. */
function aboutUser(error: unknown, named: UserId, caller: UserId): unknown {
  const missing = error instanceof StoreError && (error.code === 'not_a_member' || error.code === 'not_found');
  if (!missing || named === caller) return error;
  return notAMember(named);
}

const notAMember = (user: UserId): HttpError =>
  invalid([{ pointer: '/user_id', code: 'not_a_member', detail: `${user} is not a member of the organization.` }]);

const list: Handler<'listDevicesInOrganization'> = async (call, { store }) => {
  const { org_id } = call.params;
  const past = await pastRevision(call, store);
  await store.log.checkListing(org_id, call.query.gt_revision);
  const read = (part: RevisionPage) =>
    past === undefined
      ? store.devices.list(org_id, part)
      : store.history.devicesAt(org_id, past, part).catch(aboutRevision);
  return answerList({ ...call, query: { ...call.query, at_revision: past } }, read, {
    id: (device) => device.id,
    json: (device) => device.json,
  });
};

/** The device that the guard has read. */
function deviceOf(call: Pick<Call<OperationId>, 'operation' | 'subjects'>): Stored<DeviceRecord> {
  const { device } = call.subjects;
  if (device === undefined) throw new Error(`${call.operation} was admitted without its device`);
  return device;
}

const readOne: Handler<'readDevice'> = (call) => Promise.resolve(stored(deviceOf(call)));

const endpoint: ReadonlySet<string> = new Set(endpointFields);

/** A device token changes where its device is reached, and nothing else; what is an owner's alone says so (reference 5 (14)). */
function refuseBeyondEndpoint(body: unknown, { labels = [], isolated }: DeviceRecord): void {
  const beyond = Object.keys(isObject(body) ? body : {}).filter(
    (name) => name in UpdateSchema.properties && !endpoint.has(name),
  );
  if (beyond.length > 0) {
    const isAddress = beyond.some((name) => name === 'tunnel_ip' || name === 'addresses');
    throw new HttpError(
      beyond.includes('labels')
        ? 'labels_by_owner'
        : isAddress && (labels.length > 0 || isolated !== undefined)
          ? 'address_by_owner'
          : 'forbidden',
      `A device token may change only ${endpointFields.join(', ')}; not ${beyond.join(', ')}.`,
    );
  }
}

/** A trial of a device restores only its list, so the same write may change nothing else. */
function refuseBeyondList(patch: DevicePatch): void {
  const others = Object.keys(patch).filter((name) => name !== 'security_groups');
  if (patch.security_groups !== undefined && others.length === 0) return;
  const detail = 'With confirm_within, security_groups must be the only field: only the list of groups can be tried.';
  throw invalid([{ pointer: others[0] === undefined ? '' : at('', others[0]), code: 'list_only', detail }]);
}

const update: Handler<'updateDevice'> = async (call, { store, limits }) => {
  const now = deviceOf(call);
  const { org_id, device_id } = call.params;
  if (call.principal.kind === 'device') refuseBeyondEndpoint(call.body, now.record);
  refuseInvalid(
    deviceProblems(call.body, {
      mode: 'update',
      organization_id: org_id,
      user_id: call.subjects.user_id,
      lengths: lengthsOf(limits),
    }),
  );
  const {
    organization_id: _org,
    user_id: _user,
    security_groups,
    addresses,
    labels,
    ...fields
  } = call.body as UpdateDevice;
  const patch: DevicePatch = {
    ...fields,
    ...(addresses === undefined ? {} : { addresses: normalAddresses(addresses) }),
    ...(labels === undefined ? {} : { labels: normalLabels(labels) }),
    ...(security_groups === undefined ? {} : { security_groups: security_groups.map(parseGroupId) }),
  };
  const expected = expectedRevision(call.ifMatch, now.revision);
  const trial = trialOf(call.query);
  if (trial !== undefined) refuseBeyondList(patch);
  const options = { ...expected, detach: call.query.detach, trial };
  return stored(await store.devices.update(org_id, call.by, device_id, patch, options));
};

const remove: Handler<'deleteDevice'> = async (call, { store }) => {
  const { org_id, device_id } = call.params;
  const expected = expectedRevision(call.ifMatch, deviceOf(call).revision);
  return stored(await store.devices.delete(org_id, call.by, device_id, expected));
};

const move: Handler<'moveDevice'> = async (call, { store }) => {
  const { org_id, device_id } = call.params;
  const { detach } = call.query;
  const to = parseUserId(call.body.user_id);
  const expected = expectedRevision(call.ifMatch, deviceOf(call).revision);
  const device = await store.devices
    .move(org_id, call.by, device_id, to, { ...expected, detach })
    .catch((error: unknown) => {
      const isTarget =
        error instanceof StoreError && error.problem.code === 'not_found' && error.problem.what === 'member';
      throw isTarget ? notAMember(to) : error;
    });
  return stored(device);
};

/** Policy tests do not refuse an isolation or its end. Tests that break are shown as failing. */
const inEmergency = (by: Actor): Actor => ({ ...by, tests: 'report' });

const isolate: Handler<'isolateDevice'> = async (call, services) => {
  const { store, clock } = services;
  const { org_id, device_id } = call.params;
  const now = clock();
  const device = deviceOf(call);
  const named = devicesAllowed(call.body).filter(isUuid).map(parseDeviceId);
  const known = new Set((await store.devices.find(org_id, named)).map(({ id }) => id));
  // Without the isolation that it may have: a later version may have written it.
  const { isolated: _isolated, ...record } = device.record;
  const { addresses: own } = deviceIdentity(record);
  refuseInvalid(isolateProblems(call.body, { now, knowsDevice: (id) => known.has(id), own }));
  const { reason, until, allow, addresses } = call.body as IsolateDevice;
  const leftOut = addresses === undefined ? [] : leftOutAddresses(own, addresses);
  const isolated: IsolationRecord = {
    since: new Date(now).toISOString(),
    ...(until !== undefined && { until: new Date(Date.parse(until)).toISOString() }),
    by: call.by.user_id,
    reason,
    ...(allow && { allow }),
    ...(leftOut.length > 0 && { not_refused: leftOut }),
  };
  const expected = expectedRevision(call.ifMatch, device.revision);
  const written = await store.devices.update(org_id, inEmergency(call.by), device_id, { isolated }, expected);
  // After the write: nothing holds up an isolation.
  const effect = await effectOf(call, services).catch((error: unknown) => {
    // It is made, and that is what counts.
    if (error instanceof WorkRefused) return effectAlone(written.record);
    throw error;
  });
  const { refused_addresses, warnings } = effect;
  const more = JSON.stringify({ refused_addresses, ...(warnings.length > 0 && { warnings }) });
  return { ...stored(written), json: `${written.json.slice(0, -1)},${more.slice(1)}` };
};

/** As far as the record alone shows it. */
const effectAlone = (record: DeviceRecord): IsolationEffect => ({
  refused_addresses: refusedAddresses(deviceIdentity(record)).map(({ family, value }) => ({
    address: printAddress(family, value),
  })),
  warnings: [],
});

/** As of `isolationEffect`. */
async function effectOf(
  { params, work }: Call<'isolateDevice' | 'previewIsolation'>,
  { store, preview }: OrganizationServices,
): Promise<IsolationEffect> {
  const snapshot = await preview.read(params.org_id, work);
  return isolationEffect(
    { org: params.org_id, id: params.device_id, snapshot },
    { history: store.history, slices: work },
  );
}

const previewIsolation: Handler<'previewIsolation'> = async (call, services) => {
  const { refused_addresses } = await effectOf(call, services);
  return { kind: 'record', json: JSON.stringify({ refused_addresses }) };
};

const liftIsolation: Handler<'liftIsolation'> = async (call, { store }) => {
  const { org_id, device_id } = call.params;
  const expected = expectedRevision(call.ifMatch, deviceOf(call).revision);
  return stored(await store.devices.update(org_id, inEmergency(call.by), device_id, { isolated: null }, expected));
};

const listGroups: Handler<'listDeviceGroups'> = async (call, { preview }) => {
  const snapshot = await preview.read(call.params.org_id, call.work);
  const device = snapshot.devices.get(call.params.device_id);
  if (device === undefined) throw new StoreError({ code: 'not_found', what: 'device' });
  const { groups, forbid, require } = policiesOf(snapshot).selectionOn(device);
  const applied: readonly AppliedGroup[] = [
    ...[...forbid, ...require].map(({ id }): AppliedGroup => ({ group_id: id, by: 'guardrail' })),
    ...groups.map(({ id, by }): AppliedGroup => ({ group_id: id, by })),
  ];
  return { kind: 'list', json: JSON.stringify(applied) };
};

export const deviceHandlers = {
  createDevice: create,
  listDevicesInOrganization: list,
  readDevice: readOne,
  updateDevice: update,
  deleteDevice: remove,
  moveDevice: move,
  isolateDevice: isolate,
  previewIsolation,
  liftIsolation,
  listDeviceGroups: listGroups,
} as const;
