/** Owns the writing of one group: as it is decided, with its audit entry. */
import * as decide from '../../../../organization/decide/group.ts';
import type { SavedGroup } from '../../data/groups.ts';
import type { GroupRecord } from '../../data/records.ts';
import { decided, type Deciding } from './deciding.ts';

const saved = (deciding: Deciding, decision: ReturnType<typeof decide.updateGroup>): SavedGroup =>
  Object.assign(decided<object, GroupRecord>(deciding, decision), { mayBeVoid: deciding.caller.forbids });

export const createGroup = (deciding: Deciding, creation: decide.GroupCreation): SavedGroup =>
  saved(deciding, decide.createGroup(deciding, creation));

export const updateGroup = (deciding: Deciding, update: decide.GroupUpdate): SavedGroup =>
  saved(deciding, decide.updateGroup(deciding, update));
