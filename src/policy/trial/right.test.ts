/** Proves who may keep a trial, revert it, and take records out of it. */
import { expect, test } from 'vitest';
import { mayKeep, mayRevert, mayTakeOut, takenOutWith, type TrialCaller } from './right.ts';

const owner: TrialCaller = { user_id: 'owner', isOwner: true };
const member: TrialCaller = { user_id: 'member', isOwner: false };
const other: TrialCaller = { user_id: 'other', isOwner: false };

const common = { id: 'common', user_id: null, isNew: false };
const own = { id: 'own', user_id: 'member', isNew: true };
const device = { id: 'device', user_id: 'member', security_groups: ['own'] };
const foreign = { id: 'foreign', user_id: 'other', security_groups: ['common'] };

test('keeping needs the right to every record, an owner reverts every trial, and each takes out what it may write', () => {
  const mixed = { groups: [own], devices: [device, foreign], by: 'member' };
  const words = (caller: TrialCaller) => [mayKeep(mixed, caller), mayRevert(mixed, caller), mayTakeOut(mixed, caller)];
  expect(words(owner)).toEqual([false, true, ['own', 'device', 'foreign']]);
  expect(words(member)).toEqual([false, false, ['own', 'device']]);
  expect(words(other)).toEqual([false, false, ['foreign']]);
  const ofOrganization = { groups: [common], devices: [device], by: 'owner' };
  expect([mayKeep(ofOrganization, owner), mayRevert(ofOrganization, member)]).toEqual([true, false]);
  expect(mayTakeOut(ofOrganization, member)).toEqual(['device']);
});

test('of a trial without records the owners and its starter may end what is left', () => {
  const empty = { groups: [], devices: [], by: 'member' };
  expect([owner, member, other].map((caller) => mayKeep(empty, caller))).toEqual([true, true, false]);
  expect([owner, member, other].map((caller) => mayRevert(empty, caller))).toEqual([true, true, false]);
});

test('a new group that is taken out takes along the lists of the trial that name it, and an older group does not', () => {
  const records = { groups: [own, common], devices: [device, foreign] };
  expect([...takenOutWith(records, new Set(['own']))]).toEqual(['own', 'device']);
  expect([...takenOutWith(records, new Set(['common']))]).toEqual(['common']);
  expect([...takenOutWith(records, new Set(['device']))]).toEqual(['device']);
});
