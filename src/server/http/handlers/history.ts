/** Owns the history operations (reference 4.8): they list the states of groups and devices, and restore one. */
import { isKnownGroup } from '../../../api/known-fields.ts';
import { refuseEverything } from '../../store/data/forbids-everything.ts';
import { HttpError, invalid, problemTable, refuse } from '../../problems.ts';
import type { GroupRecord, Stored } from '../../store/data/records.ts';
import type { State, StatePage } from '../../store/data/history.ts';
import type { Rows } from '../../store/data/page.ts';
import { groupReader } from '../../identity/authenticate.ts';
import type { Call, Handler, ListResult } from '../call.ts';
import { expectedRevision } from '../request/conditions.ts';
import { answerList } from '../request/paging.ts';
import { trialOf } from '../request/trial.ts';
import { ownerOf, readGroupBody } from './groups.ts';
import { withWarnings } from './guardrails.ts';

const show = {
  id: ({ revision }: State<unknown>) => String(revision),
  json: ({ json }: State<unknown>) => json,
};

/** A list of states. When there are none at all, the caller could never see such a record. */
function answerStates(
  { query: { limit, after }, ...call }: Pick<Call<'listDeviceHistory'>, 'path' | 'query' | 'inTurn'>,
  /** The kind of record for a 404 when the list is empty; undefined when an empty list is a valid answer. */
  what: 'device' | 'group' | undefined,
  read: (page: StatePage) => Promise<Rows<State<unknown>>>,
): Promise<ListResult> {
  const start = after === undefined ? undefined : String(after);
  return answerList(
    { ...call, query: { limit, after: start } },
    async (part) => {
      const states = await read({
        limit: part.limit,
        bytes: part.bytes,
        below: part.after === undefined ? undefined : Number(part.after),
      });
      if (what !== undefined && part.after === undefined && states.length === 0) throw problemTable.not_found({ what });
      return states;
    },
    show,
    { first: 16 },
  );
}

const ofGroup: Handler<'listSecurityGroupHistory'> = (call, { store }) => {
  const { org_id, sg_id } = call.params;
  const reader = groupReader(call.principal);
  return answerStates(call, 'group', (page) => store.history.ofGroup(org_id, sg_id, { ...page, reader }));
};

const ofDevice: Handler<'listDeviceHistory'> = (call, { store }) => {
  const { org_id, device_id } = call.params;
  return answerStates(call, 'device', (page) => store.history.ofDevice(org_id, device_id, page));
};

const namesakes: Handler<'listDeviceNamesakes'> = (call, { store }) => {
  const { org_id, device_id } = call.params;
  return answerStates(call, undefined, (page) => store.history.namesakes(org_id, device_id, page));
};

/** The body that restores a group. It includes empty fields that the record leaves out. */
function bodyOf(past: GroupRecord): object {
  const { id: _id, org_id: _org, user_id: _user, is_default: _default, ...rest } = past;
  const { revision: _revision, created_at: _created, updated_at: _updated, trial: _trial, ...written } = rest;
  return { inbound_rules: [], outbound_rules: [], applies_to: [], mode: 'enforce', ...written };
}

/** The old state is written as if somebody had typed it now: every check of an ordinary write is made again, but rules may have expired. */
const restore: Handler<'restoreSecurityGroup'> = async (call, services) => {
  const { store } = services;
  const { org_id, sg_id } = call.params;
  const { revision } = call.body;
  const { group, deletedGroup } = call.subjects;
  const past = await store.history.groupAt(org_id, revision, sg_id, groupReader(call.principal));
  if (past === undefined) {
    const detail = `The group did not exist at revision ${revision}, or you did not have access to it.`;
    throw invalid([{ pointer: '/revision', code: 'no_such_state', detail }]);
  }
  if (!isKnownGroup(past.record)) refuse({ code: 'newer_record', what: 'group' });
  if (past.record.guardrail === 'forbid' && call.query.force !== true) refuseEverything(past.record);
  const expected = expectedRevision(call.ifMatch, nowOf(call).revision);
  const typed = { params: call.params, body: bodyOf(past.record), restores: true } as const;
  const owner = ownerOf(call);
  const trial = trialOf(call.query);
  if (group !== undefined) {
    const { guardrail: _fixed, ...patch } = readGroupBody(typed, services, group);
    const options = { ...expected, restores: true, detach: call.query.detach, trial };
    const restored = await store.groups.update(org_id, call.by, owner, sg_id, patch, options);
    const { group_name: name = '' } = patch;
    return withWarnings(store, org_id, restored, name === group.record.group_name ? {} : { named: { name, owner } });
  }
  if (deletedGroup?.record.is_default === true) {
    throw new HttpError(
      'conflict',
      'The default group was reset and replaced by a new one: restore the new one, or write the old rules to it.',
    );
  }
  const { group_name = '', group_description = '', ...rules } = readGroupBody(typed, services);
  const { inbound_rules = [], outbound_rules = [], ...application } = rules;
  const body = { group_name, group_description, inbound_rules, outbound_rules, ...application };
  const recreated = await store.groups.recreate(org_id, call.by, owner, sg_id, body, { trial });
  return withWarnings(store, org_id, recreated, { named: { name: group_name, owner } });
};

/** The group that the guard has found, standing or deleted. */
function nowOf({ operation, subjects }: Pick<Call<'restoreSecurityGroup'>, 'operation' | 'subjects'>) {
  const now: Stored<GroupRecord> | undefined = subjects.group ?? subjects.deletedGroup;
  if (now === undefined) throw new Error(`${operation} was admitted without its group`);
  return now;
}

export const historyHandlers = {
  listSecurityGroupHistory: ofGroup,
  restoreSecurityGroup: restore,
  listDeviceHistory: ofDevice,
  listDeviceNamesakes: namesakes,
} as const;
