/** Owns the security group operations (reference 4.1). The handler validates and normalizes what it stores. */
import type { GroupOwner } from '../../../organization/decide/group.ts';
import { pathFor, type OperationId } from '../../../api/paths.ts';
import { readGroup, type GroupInput } from '../../../policy/group.ts';
import { parseGroupId } from '../../../policy/ids.ts';
import { jsonWithoutDescriptions } from '../../../policy/rule-identity/descriptions.ts';
import { groupReader } from '../../identity/authenticate.ts';
import { refuseEverything } from '../../store/data/forbids-everything.ts';
import { refuseInvalid, StoreError } from '../../problems.ts';
import type { GroupRecord, Stored } from '../../store/data/records.ts';
import type { SavedGroup } from '../../store/data/groups.ts';
import { stored, type HandlerResult, type Call, type Handler, type Services } from '../call.ts';
import { expectedRevision } from '../request/conditions.ts';
import { aboutRevision, pastRevision } from './past.ts';
import { withWarnings } from './guardrails.ts';
import { answerList } from '../request/paging.ts';
import { trialOf } from '../request/trial.ts';

/** The current rules; read only when the body leaves one direction unchanged. */
const standing = (now: Stored<GroupRecord>) => ({
  get inbound_rules() {
    return now.record.inbound_rules ?? [];
  },
  get outbound_rules() {
    return now.record.outbound_rules ?? [];
  },
  get applies_to() {
    return now.record.applies_to;
  },
  get guardrail() {
    return now.record.guardrail;
  },
});

/** The record as the caller gets it: a device token gets what agents get, without the descriptions of rules. */
const jsonFor = ({ principal }: Pick<Call<OperationId>, 'principal'>, { json }: Stored<GroupRecord>): string =>
  principal.kind === 'device' ? (jsonWithoutDescriptions(json) ?? json) : json;

type Create = 'createSecurityGroup' | 'createUserSecurityGroup';
type Update = 'updateSecurityGroup' | 'updateUserSecurityGroup';
type Delete = 'deleteSecurityGroup' | 'deleteUserSecurityGroup';

type Write = Pick<Call<Create>, 'params' | 'body' | 'query'>;

/** Reads and validates the body of a group as it will be written. */
export function readGroupBody(
  call: {
    readonly params: Pick<Call<Create>['params'], 'org_id'>;
    readonly body: unknown;
    /** An earlier state: its rules may have expired since. */
    readonly restores?: true;
  },
  services: Services,
  now?: Stored<GroupRecord>,
  unknown?: ReadonlySet<string>,
): GroupInput {
  const { group, ...found } = readGroup(call.body, {
    mode: now === undefined ? 'create' : 'update',
    org_id: call.params.org_id,
    limits: services.limits,
    ...(call.restores === true ? {} : { now: services.clock() }),
    ...(now === undefined ? {} : { stored: standing(now) }),
    ...(unknown === undefined ? {} : { knowsDevice: (id) => !unknown.has(id) }),
  });
  refuseInvalid(found);
  return group;
}

/** Reads the body. A guardrail that forbids everything needs `force`. */
function readWrite(call: Write, services: Services, now?: Stored<GroupRecord>): GroupInput {
  const group = readGroupBody(call, services, now);
  const guardrail = group.guardrail ?? now?.record.guardrail;
  if (guardrail === 'forbid' && call.query.force !== true) refuseEverything({ ...now?.record, ...group });
  return group;
}

/** The store knows which devices are there at the moment of the write; where each is named, the body says. */
async function written(
  writing: Promise<SavedGroup>,
  again: (unknown: ReadonlySet<string>) => unknown,
): Promise<SavedGroup> {
  try {
    return await writing;
  } catch (error) {
    if (error instanceof StoreError && error.problem.code === 'device_unknown') again(new Set(error.problem.devices));
    throw error;
  }
}

const create =
  (scope: 'organization' | 'user'): Handler<Create> =>
  async (call, services) => {
    const { org_id } = call.params;
    const {
      group_name = '',
      group_description = '',
      inbound_rules = [],
      outbound_rules = [],
      ...application
    } = readWrite(call, services);
    const owner = scope === 'organization' ? scope : call.principal.user_id;
    const id = scope === 'organization' ? 'readSecurityGroup' : 'readUserSecurityGroup';
    const locationOf = (made: SavedGroup): string => pathFor(id, { org_id, sg_id: parseGroupId(made.id) });
    const writing = services.store.groups.create(
      org_id,
      call.creator((made: SavedGroup) => stored(made, locationOf(made))),
      owner,
      { group_name, group_description, inbound_rules, outbound_rules, ...application },
      { trial: trialOf(call.query) },
    );
    const group = await written(writing, (unknown) => readGroupBody(call, services, undefined, unknown));
    const location = locationOf(group);
    return withWarnings(services.store, org_id, group, { location, named: { name: group_name, owner } });
  };

const list =
  (scope: 'organization' | 'user'): Handler<'listSecurityGroups' | 'listUserSecurityGroups'> =>
  async (call, { store }) => {
    const { principal, params } = call;
    const seen = { reader: groupReader(principal), ...(scope === 'user' ? { owner: principal.user_id } : {}) };
    const show = {
      id: (group: Stored<GroupRecord>) => group.id,
      json: (group: Stored<GroupRecord>) => jsonFor(call, group),
    };
    const past = await pastRevision(call, store);
    await store.log.checkListing(params.org_id, call.query.gt_revision);
    // A group may be a megabyte: few are read before it is known how large they are here.
    const read = (part: { readonly limit: number; readonly bytes: number }) =>
      past === undefined
        ? store.groups.list(params.org_id, { ...part, ...seen })
        : store.history.groupsAt(params.org_id, past, { ...part, ...seen }).catch(aboutRevision);
    return answerList({ ...call, query: { ...call.query, at_revision: past } }, read, show, { first: 16 });
  };

/** The group that the guard has read. */
function groupOf(call: Pick<Call<OperationId>, 'operation' | 'subjects'>): Stored<GroupRecord> {
  const { group } = call.subjects;
  if (group === undefined) throw new Error(`${call.operation} was admitted without its group`);
  return group;
}

export const ownerOf = ({ subjects }: Pick<Call<OperationId>, 'subjects'>): GroupOwner =>
  subjects.user_id ?? 'organization';

const readOne: Handler<'readSecurityGroup' | 'readUserSecurityGroup'> = (call) =>
  Promise.resolve<HandlerResult>({ ...stored(groupOf(call)), json: jsonFor(call, groupOf(call)) });

const update: Handler<Update> = async (call, services) => {
  const now = groupOf(call);
  const { org_id, sg_id } = call.params;
  const { guardrail: _fixed, ...patch } = readWrite(call, services, now);
  const trial = trialOf(call.query);
  const options = { ...expectedRevision(call.ifMatch, now.revision), detach: call.query.detach, trial };
  const writing = services.store.groups.update(org_id, call.by, ownerOf(call), sg_id, patch, options);
  const group = await written(writing, (unknown) => readGroupBody(call, services, now, unknown));
  const { group_name: name } = patch;
  const isNamed = name !== undefined && name !== now.record.group_name;
  return withWarnings(services.store, org_id, group, isNamed ? { named: { name, owner: ownerOf(call) } } : {});
};

const remove: Handler<Delete> = async (call, { store }) => {
  const now = groupOf(call);
  const { org_id, sg_id } = call.params;
  const { detach } = call.query;
  const expected = expectedRevision(call.ifMatch, now.revision);
  return stored(await store.groups.delete(org_id, call.by, ownerOf(call), sg_id, { ...expected, detach }));
};

export const groupHandlers = {
  createSecurityGroup: create('organization'),
  listSecurityGroups: list('organization'),
  readSecurityGroup: readOne,
  updateSecurityGroup: update,
  deleteSecurityGroup: remove,
  createUserSecurityGroup: create('user'),
  listUserSecurityGroups: list('user'),
  readUserSecurityGroup: readOne,
  updateUserSecurityGroup: update,
  deleteUserSecurityGroup: remove,
} as const;
