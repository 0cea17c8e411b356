/** Owns the operations on change sets (reference 4.13): they write, read and revert several records as one. */
import type { GroupWarning } from '../../../api/group.ts';
import { parseDeviceId, parseGroupId, type ChangeSetId } from '../../../policy/ids.ts';
import { groupReader } from '../../identity/authenticate.ts';
import type {
  ChangeOperation,
  ChangeSetActor,
  ChangeSetRecord,
  NewChangeSet,
  RecordChange,
  WrittenChanges,
} from '../../store/data/change-sets.ts';
import type { Actor } from '../../store/data/actor.ts';
import { refuseEverythingIn } from '../../store/data/forbids-everything.ts';
import { problemTable, refuseInvalid, StoreError } from '../../problems.ts';
import { lengthsOf, record, type Call, type Handler, type RecordResult, type Services } from '../call.ts';
import { rolesOf } from '../guard/write-right.ts';
import { namedIn, readChanges, shapeProblems, type ChangeBody, type KnownRecords } from '../request/change-body.ts';
import { trialOf } from '../request/trial.ts';
import { warningsFor } from './guardrails.ts';

/** The right to create an organization's group and a user's own one: `restoreSecurityGroup` knows both. */
const rightsOf: { readonly [Operation in ChangeOperation]: Parameters<typeof rolesOf>[0] } = {
  createSecurityGroup: 'restoreSecurityGroup',
  updateSecurityGroup: 'updateSecurityGroup',
  deleteSecurityGroup: 'deleteSecurityGroup',
  updateDevice: 'updateDevice',
  deleteDevice: 'deleteDevice',
  replacePolicyTests: 'replacePolicyTests',
};

const actorOf = (by: Actor, { principal }: Pick<Call<'applyChanges'>, 'principal'>): ChangeSetActor => ({
  ...by,
  rolesFor: (operation) => rolesOf(rightsOf[operation], principal.kind),
});

/** The records that a body names, as the caller may see them. The store judges again what it finds when it writes. */
export async function knownRecords(
  call: Pick<Call<'applyChanges'>, 'params' | 'body' | 'principal'>,
  { store }: Pick<Services, 'store'>,
): Promise<KnownRecords> {
  const { org_id } = call.params;
  const named = namedIn(call.body);
  const reader = groupReader(call.principal);
  const groups = await store.groups.find(org_id, [...named.groups, ...named.deletes.map(parseGroupId)], { reader });
  const devices = await store.devices.find(org_id, [...named.devices, ...named.deletes.map(parseDeviceId)]);
  return {
    groups: new Map(groups.map(({ id, record: group }) => [id, group])),
    devices: new Map(devices.map(({ id, record: device }) => [id, device])),
  };
}

/** Reads and validates the body as it will be written. */
function readBody(
  call: Call<'applyChanges'>,
  services: Services,
  known: KnownRecords,
  unknown?: ReadonlySet<string>,
): ChangeBody {
  const { changes, ...found } = readChanges(call.body, known, {
    organization: call.params.org_id,
    caller: call.principal.user_id,
    limits: services.limits,
    lengths: lengthsOf(services.limits),
    now: services.clock(),
    ...(unknown === undefined ? {} : { knowsDevice: (id) => !unknown.has(id) }),
  });
  refuseInvalid(found);
  return changes;
}

const setOf = ({ groups, ...others }: ChangeBody): NewChangeSet => ({
  ...others,
  groups: groups.map((one) => {
    const { guardrail, ...patch } = one.group;
    if (one.type === 'update') return { ...one, patch };
    const {
      group_name = '',
      group_description = '',
      inbound_rules = [],
      outbound_rules = [],
      applies_to,
      mode,
    } = patch;
    const group = { group_name, group_description, inbound_rules, outbound_rules, applies_to, guardrail, mode };
    return { type: 'create', id: one.id, owner: one.user_id ?? 'organization', group, fields: one.fields };
  }),
});

/** Refuses guardrails that leave nothing of a direction. */
export const refuseVoid = ({ groups }: ChangeBody): void =>
  refuseEverythingIn(groups.map((one) => (one.type === 'update' ? { ...one.now, ...one.group } : one.group)));

/** The most warnings that one answer lists. */
const mostWarnings = 100;

function answerOf(written: WrittenChanges, warnings: readonly GroupWarning[] = []): RecordResult {
  const list = (records: readonly { readonly json: string }[]): string => records.map(({ json }) => json).join(',');
  const { change_id, revision, groups, devices, deleted } = written;
  const json =
    `{"change_id":"${change_id}","revision":${revision},"security_groups":[${list(groups)}],"devices":[${list(devices)}],` +
    `"deleted":${JSON.stringify(deleted)},"warnings":${JSON.stringify(warnings.slice(0, mostWarnings))}}`;
  return { kind: 'record', json };
}

async function answer(
  { store }: Services,
  org: Call<'applyChanges'>['params']['org_id'],
  written: WrittenChanges,
): Promise<RecordResult> {
  const warnings: GroupWarning[] = [];
  for (const [index, group] of written.groups.entries()) {
    if (warnings.length >= mostWarnings) break;
    const found = await warningsFor(store, org, group);
    warnings.push(...found.map((one) => ({ ...one, pointer: `/security_groups/${index}${one.pointer}` })));
  }
  return answerOf(written, warnings);
}

/** A trial brings back groups and lists: nothing else is changed by the same set. */
function refuseUntriable({ devices, deletes, policyTests }: NewChangeSet): void {
  const others = devices.flatMap(({ patch }, index) =>
    Object.keys(patch).flatMap((name) => (name === 'security_groups' ? [] : [`/devices/${index}/${name}`])),
  );
  const detail = 'With confirm_within, a change set can change groups and the lists of devices, and delete nothing.';
  const tests = policyTests === undefined ? [] : ['/policy_tests'];
  const pointers = [...others, ...deletes.map((_, index) => `/delete/${index}`), ...tests];
  refuseInvalid({ problems: pointers.map((pointer) => ({ pointer, code: 'list_only' as const, detail })), more: 0 });
}

const apply: Handler<'applyChanges'> = async (call, services) => {
  const { org_id } = call.params;
  refuseInvalid(shapeProblems(call.body));
  const known = await knownRecords(call, services);
  const body = readBody(call, services, known);
  const { detach, force } = call.query;
  const trial = trialOf(call.query);
  if (trial !== undefined) refuseUntriable(setOf(body));
  if (force !== true) refuseVoid(body);
  try {
    return await answer(
      services,
      org_id,
      await services.store.changeSets.apply(
        org_id,
        actorOf(
          call.creator((written: WrittenChanges) => answerOf(written)),
          call,
        ),
        setOf(body),
        { detach, trial },
      ),
    );
  } catch (error) {
    const problem =
      error instanceof StoreError && error.problem.code === 'change_refused' ? error.problem.problem : undefined;
    // The store knows which devices are there at the moment of the write; where each is named, the body says.
    if (problem?.code === 'device_unknown') readBody(call, services, known, new Set(problem.devices));
    throw error;
  }
};

const typeOf = ({ before, after }: RecordChange): 'created' | 'changed' | 'deleted' =>
  before === undefined ? 'created' : after === undefined ? 'deleted' : 'changed';

const nameOf = ({ before, after }: RecordChange): string => {
  const { group_name, hostname } = { ...after, ...before };
  return typeof group_name === 'string' ? group_name : typeof hostname === 'string' ? hostname : '';
};

/** The groups of a set that the caller may not see, neither now nor at that time: an owner reads the sets of members, and not the names of their own groups. */
async function unseenIn(
  { principal, params }: Pick<Call<'readChangeSet'>, 'principal' | 'params'>,
  { user_id, changes, first_revision, revision }: ChangeSetRecord,
  { store }: Pick<Services, 'store'>,
): Promise<ReadonlySet<string>> {
  const unseen = new Map(
    changes.flatMap((change) => (change.kind === 'security-groups' ? [[parseGroupId(change.id), change]] : [])),
  );
  if (user_id === principal.user_id || unseen.size === 0) return new Set();
  const reader = groupReader(principal);
  for (const { id } of await store.groups.find(params.org_id, [...unseen.keys()], { reader }))
    unseen.delete(parseGroupId(id));
  for (const [id, { after }] of unseen) {
    const at = after === undefined ? first_revision - 1 : revision;
    if ((await store.history.groupAt(params.org_id, at, id, reader)) !== undefined) unseen.delete(id);
  }
  return new Set(unseen.keys());
}

/** What the records are called now: a set tells their names only where it gave or took them. */
async function presentNames(
  { principal, params }: Pick<Call<'readChangeSet'>, 'principal' | 'params'>,
  { changes }: ChangeSetRecord,
  { store }: Pick<Services, 'store'>,
): Promise<ReadonlyMap<string, string>> {
  const ids = (kind: RecordChange['kind']): string[] =>
    changes.filter((change) => change.kind === kind && nameOf(change) === '').map(({ id }) => id);
  const reader = groupReader(principal);
  const groups = await store.groups.find(params.org_id, ids('security-groups').map(parseGroupId), { reader });
  const devices = await store.devices.find(params.org_id, ids('device').map(parseDeviceId));
  return new Map([
    ...groups.map(({ id, record: { group_name } }) => [id, group_name] as const),
    ...devices.map(({ id, record: { hostname } }) => [id, hostname] as const),
  ]);
}

/** An owner reads every change set, anybody else their own. */
export async function readableChangeSet(
  { params, subjects, principal }: Pick<Call<'readConvergence'>, 'params' | 'subjects' | 'principal'>,
  id: ChangeSetId,
  { store }: Pick<Services, 'store'>,
): Promise<ChangeSetRecord> {
  const found = await store.changeSets.get(params.org_id, id);
  if (subjects.byOwner === true || found.user_id === principal.user_id) return found;
  throw problemTable.not_found({ what: 'change_set' });
}

const read: Handler<'readChangeSet'> = async (call, { store }) => {
  const found = await readableChangeSet(call, call.params.change_id, { store });
  const { changes, ...set } = found;
  const unseen = await unseenIn(call, found, { store });
  const names = await presentNames(call, found, { store });
  const records = changes.map((change) => ({
    kind: change.kind,
    id: change.id,
    type: typeOf(change),
    name: unseen.has(change.id) ? '' : nameOf(change) || (names.get(change.id) ?? ''),
    fields: typeOf(change) === 'changed' ? Object.keys(change.after ?? {}) : [],
  }));
  return record({ ...set, records });
};

const revert: Handler<'revertChangeSet'> = async (call, services) => {
  const { org_id, change_id } = call.params;
  const { detach, force } = call.query;
  const set = await services.store.changeSets.get(org_id, change_id);
  if (call.subjects.byOwner !== true && set.user_id !== call.principal.user_id)
    throw problemTable.not_found({ what: 'change_set' });
  const unseen = await unseenIn(call, set, services);
  const written = await services.store.changeSets
    .revert(org_id, actorOf(call.by, call), change_id, { detach, force })
    .catch((error: unknown) => {
      if (!(error instanceof StoreError) || error.problem.code !== 'changed_since') throw error;
      const records = error.problem.records.map((one) => (unseen.has(one.id) ? { ...one, name: '' } : one));
      throw new StoreError({ ...error.problem, records });
    });
  return answer(services, org_id, written);
};

export const changeHandlers = { applyChanges: apply, readChangeSet: read, revertChangeSet: revert } as const;
