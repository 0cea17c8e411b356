/** Proves what writes make of an organization, as a table: who does what in which state, and what becomes of it. It needs no database. */
import { describe, expect, it } from 'vitest';
import { holdIsolated, holdRight } from './caller.ts';
import { createDevice, handedOver, holdMove, isEndpointOnly, updateDevice, type DevicePatch } from './device.ts';
import {
  createGroup,
  devicesIn,
  mayLeaveDevices,
  refuseApplication,
  refuseCreation,
  refuseForDefault,
  updateGroup,
  type GroupPatch,
  type NewGroup,
} from './group.ts';
import { checkList } from './list.ts';
import {
  at,
  deciding,
  device,
  deviceId,
  DraftInMemory,
  fields,
  finish,
  group,
  groupId,
  idOf,
  labels,
  naming,
  outcomeOf,
  ranges,
  somebody,
  trial,
  userId,
  type Role,
  type Somebody,
} from './draft.fixture.ts';
import { holdingKeys, holdNewKey, type StandingKey } from './enrollment-key.ts';
import {
  accepted,
  admitted,
  demoted,
  isLastOwner,
  memberIn,
  namedOwner,
  promoted,
  type Member,
  type Members,
} from './member.ts';
import { holdersToLeave, refuseOpened, refuseOpenKeys, refuseOverfull, refuseUnknown } from './outcome.ts';
import type { Phase } from './phase.ts';
import type { DeviceContent, GroupBefore, GroupContent } from './records.ts';
import { settled } from './settings.ts';
import {
  holdTakeOut,
  holdTime,
  holdTrial,
  keptTrial,
  parted,
  takenBack,
  widened,
  widerScope,
  type Ender,
  type TriedDevice,
  type TriedGroup,
  type TriedRecords,
} from './trial.ts';
import { parseEnrollmentKeyId } from '../../policy/ids.ts';

/** The rights of operations, as the table of operations names them. */
const onGroups: readonly Role[] = ['ownerOfOwn', 'owningUser'];
const onDevices: readonly Role[] = ['owner', 'owningUser'];
const anyMember: readonly Role[] = ['member'];

const olga = (right: readonly Role[]): Somebody => somebody('olga', 'owner', right);
const mia = (right: readonly Role[]): Somebody => somebody('mia', 'member', right);
const max = (right: readonly Role[]): Somebody => somebody('max', 'member', right);
/** An owner who has not accepted. */
const paul = (right: readonly Role[]): Somebody => somebody('paul', 'owner', right, { is_pending: true });
const stranger = (right: readonly Role[]): Somebody => somebody('sam', null, right);
const ended = (right: readonly Role[]): Somebody => somebody('mia', 'member', right, { has_ended: true });
const server = somebody('olga', 'owner', ['server']);
const people = { olga, mia, max, paul, stranger, ended } as const;
type Person = keyof typeof people;

const standing: readonly GroupContent[] = [
  group('default', { is_default: true }),
  group('web'),
  group('of mia', { of: 'mia' }),
  group('of max', { of: 'max' }),
  group('watched', { mode: 'observe', applies_to: labels('db') }),
  group('guard', { guardrail: 'forbid', applies_to: [{ all_devices: true }] }),
  group('tried', {
    trial: trial<GroupBefore>({
      group_name: 'tried',
      group_description: '',
      inbound_rules: [],
      outbound_rules: [],
      applies_to: [],
    }),
  }),
];
const fleet: readonly DeviceContent[] = [
  device('d1', { list: ['web'] }),
  device('d2', { of: 'max', labels: ['db'] }),
  device('d3', { isolated: { since: at, by: userId('olga'), reason: '', allow: [] } }),
  device('d4', { list: ['web'], trial: trial({ security_groups: [] }) }),
];
const draft = (groups = standing, devices = fleet): DraftInMemory => new DraftInMemory(groups, devices);

const empty: NewGroup = { group_name: 'new', group_description: '', inbound_rules: [], outbound_rules: [] };

describe('the right to a write that names a record', () => {
  const administrator = somebody('mia', 'member', ['administrator'], { is_administrator: true });
  const hold = (who: Somebody, of: string | null | undefined): string =>
    outcomeOf(
      () => holdRight(deciding(draft(), who).by, who.caller, of == null ? of : userId(of)),
      (accepts) => (accepts ? 'accepts' : 'done'),
    );
  const cases: readonly (readonly [string, Somebody, string | null | undefined, string])[] = [
    ['an owner what owners may', olga(['owner']), 'max', 'done'],
    ['a member what owners may', mia(['owner']), 'max', 'forbidden'],
    ["a member the organization's", mia(onGroups), null, 'forbidden'],
    ["an owner the organization's", olga(onGroups), null, 'done'],
    ["an owner another's", olga(onGroups), 'max', 'forbidden'],
    ['a member its own', mia(onGroups), 'mia', 'done'],
    ['a member what members may', mia(anyMember), null, 'done'],
    ['a member what is not there', mia(['owner']), undefined, 'done'],
    ['somebody who left its own', stranger(onDevices), 'sam', 'not_a_member'],
    ['somebody whose credential ended its own', ended(onDevices), 'mia', 'credential_ended'],
    ['somebody who has not accepted what owners may', paul(['owner']), 'max', 'accepts'],
    ['somebody who has not accepted its own', paul(onDevices), 'paul', 'done'],
    ['somebody who has not accepted what members may', paul(anyMember), null, 'done'],
    ['an administrator, in the name of a user', administrator, 'max', 'done'],
    ['somebody who is no administrator any more', mia(['administrator']), 'max', 'forbidden'],
    ['the server everything', server, 'max', 'done'],
  ];
  it.each(cases)('%s', (_, who, of, result) => {
    expect(hold(who, of)).toBe(result);
  });
});

describe('a new group', () => {
  const create = (who: Somebody, of: string | undefined, more: Partial<NewGroup> = {}, quotas = {}): string =>
    outcomeOf(
      () =>
        createGroup(deciding(draft(), who, quotas), {
          id: idOf('new'),
          owner: of === undefined ? 'organization' : userId(of),
          group: { ...empty, ...more },
        }),
      ({ state, accepts }) => (accepts ? `${state.revision}, accepts` : String(state.revision)),
    );

  // Who, whose group, and what becomes of it: the revision or the refusal.
  const rights: readonly (readonly [Person, string | undefined, string])[] = [
    ['olga', undefined, '6'],
    ['olga', 'olga', '6'],
    ['olga', 'mia', 'forbidden'],
    ['mia', undefined, 'forbidden'],
    ['mia', 'mia', '6'],
    ['mia', 'max', 'forbidden'],
    ['max', 'max', '6'],
    ['max', 'mia', 'forbidden'],
    ['paul', undefined, '6, accepts'],
    ['paul', 'paul', '6'],
    ['paul', 'mia', 'forbidden'],
    ['stranger', undefined, 'not_a_member'],
    ['stranger', 'sam', 'not_a_member'],
    ['ended', undefined, 'credential_ended'],
    ['ended', 'mia', 'credential_ended'],
  ];
  it.each(rights)('by %s for %s: %s', (who, of, result) => {
    expect(create(people[who](onGroups), of)).toBe(result);
  });

  it.each([
    ['of a user who has left', { is_member: false }, 'mia', {}, {}, 'not_a_member'],
    ['of the organization, whoever has left', { is_member: false }, undefined, {}, {}, '6'],
    ['with as many ranges as it may', {}, undefined, { inbound_rules: [ranges(10)] }, {}, '6'],
    ['with one range too many', {}, undefined, { inbound_rules: [ranges(11)] }, {}, 'too_many_ranges'],
    [
      'with too many ranges in both directions together',
      {},
      undefined,
      { inbound_rules: [ranges(6)], outbound_rules: [ranges(5)] },
      {},
      'too_many_ranges',
    ],
    [
      'whose peers count as ranges',
      {},
      undefined,
      { inbound_rules: [ranges(9), naming({ all_devices: true }, { labels: ['a'] })] },
      {},
      'too_many_ranges',
    ],
    ['as the last one that there may be', {}, undefined, {}, { groups: 8 }, '6'],
    ['as one too many', {}, undefined, {}, { groups: 7 }, 'limit_reached'],
    [
      'with both limits broken: its ranges come first',
      {},
      undefined,
      { inbound_rules: [ranges(11)] },
      { groups: 7 },
      'too_many_ranges',
    ],
  ] as const)('%s', (_, caller, of, more, quotas, result) => {
    const name = of ?? 'olga';
    const who = somebody(name, of === undefined ? 'owner' : 'member', onGroups, caller);
    expect(create(who, of, more as Partial<NewGroup>, quotas)).toBe(result);
  });

  it('on trial says that there was nothing before', () => {
    const records = draft();
    const { before: _before, ...started } = trial(null);
    createGroup(deciding(records, olga(onGroups)), {
      id: idOf('new'),
      owner: 'organization',
      group: empty,
      trial: started,
    });
    expect(records.group(idOf('new'))?.record.trial?.before).toBeNull();
  });
});

describe('what a group may be, in every state of the organization', () => {
  const phases = [1, 2, 3] as const;
  const application: readonly (readonly [
    string,
    string | undefined,
    Partial<NewGroup>,
    readonly [string, string, string],
  ])[] = [
    ['of the organization', undefined, {}, ['done', 'done', 'done']],
    [
      'of the organization by label',
      undefined,
      { applies_to: labels('db') },
      ['application_refused', 'application_refused', 'done'],
    ],
    ['of the organization by no label', undefined, { applies_to: [] }, ['done', 'done', 'done']],
    ['that is a guardrail', undefined, { guardrail: 'forbid' }, ['application_refused', 'application_refused', 'done']],
    ['of a user', 'mia', {}, ['done', 'done', 'done']],
    [
      'of a user by label',
      'mia',
      { applies_to: labels('db') },
      ['application_refused', 'application_refused', 'application_refused'],
    ],
    [
      'of a user that is a guardrail',
      'mia',
      { guardrail: 'require' },
      ['application_refused', 'application_refused', 'application_refused'],
    ],
    ['of a user that is watch only', 'mia', { mode: 'observe' }, ['done', 'done', 'done']],
  ];
  const cases = application.flatMap(([what, of, more, results]) =>
    phases.map((phase, index) => [what, phase, of, more, results[index] as string] as const),
  );
  it.each(cases)('one %s in phase %s', (_, phase, of, more, result) => {
    const owner = of === undefined ? 'organization' : userId(of);
    expect(
      outcomeOf(
        () => refuseApplication(phase, owner, more),
        () => 'done',
      ),
    ).toBe(result);
    const created = result === 'done' && phase === 1 ? 'phase_forbids' : result;
    expect(
      outcomeOf(
        () => refuseCreation(phase, owner, { ...empty, ...more }),
        () => 'done',
      ),
    ).toBe(created);
  });

  it.each([
    ['the default group gets a label', true, { applies_to: labels('db') }, 'application_refused'],
    ['the default group becomes watch only', true, { mode: 'observe' }, 'application_refused'],
    ['the default group is told to apply to no label', true, { applies_to: [] }, 'done'],
    ['the default group is told to enforce', true, { mode: 'enforce' }, 'done'],
    ['the default group gets another name', true, { group_name: 'x' }, 'done'],
    ['another group gets a label', undefined, { applies_to: labels('db') }, 'done'],
    ['another group becomes watch only', undefined, { mode: 'observe' }, 'done'],
  ] as const)('%s', (_, is_default, patch, result) => {
    const record = is_default === undefined ? {} : { is_default };
    expect(
      outcomeOf(
        () => refuseForDefault(record, patch as GroupPatch),
        () => 'done',
      ),
    ).toBe(result);
  });

  it.each([
    ['a patch of its name', {}, { group_name: 'x' }, false],
    ['a patch of its rules', {}, { inbound_rules: [] }, false],
    ['other labels', {}, { applies_to: [] }, true],
    ['watch only', {}, { mode: 'observe' }, true],
    ['enforce', {}, { mode: 'enforce' }, false],
    ['other labels of a guardrail', { guardrail: 'forbid' }, { applies_to: [] }, false],
    ['watch only for a guardrail', { guardrail: 'require' }, { mode: 'observe' }, false],
    ['other labels of a group that is watch only', { mode: 'observe' }, { applies_to: [] }, false],
  ] as const)('may leave devices by %s: %s', (_, record, patch, result) => {
    expect(mayLeaveDevices(record as Partial<GroupContent>, patch as GroupPatch)).toBe(result);
  });
});

describe('a change of a group', () => {
  const update = (
    who: Somebody,
    word: string,
    patch: GroupPatch,
    more: { owner?: string; if_match?: number; all?: number; quotas?: object; groups?: readonly GroupContent[] } = {},
  ): string =>
    outcomeOf(
      () =>
        updateGroup(deciding(draft(more.groups), who, more.quotas), {
          id: idOf(word),
          patch,
          if_match: more.if_match,
          ...(more.owner !== undefined && {
            owner: more.owner === 'organization' ? 'organization' : userId(more.owner),
          }),
          ...(more.all !== undefined && { ranges: { all: more.all } }),
        }),
      ({ state, note, accepts }) =>
        `${note.unchanged === true ? 'unchanged at ' : ''}${state.revision}${accepts ? ', accepts' : ''}`,
    );
  const rename = { group_name: 'other' };

  const rights: readonly (readonly [Person, string, string])[] = [
    ['olga', 'web', '6'],
    ['olga', 'default', '6'],
    ['olga', 'guard', '6'],
    ['olga', 'of mia', 'forbidden'],
    ['olga', 'tried', 'trial_pending'],
    ['olga', 'absent', 'not_found'],
    ['mia', 'web', 'forbidden'],
    ['mia', 'default', 'forbidden'],
    ['mia', 'of mia', '6'],
    ['mia', 'of max', 'forbidden'],
    ['mia', 'tried', 'forbidden'],
    ['mia', 'absent', 'not_found'],
    ['max', 'of max', '6'],
    ['max', 'of mia', 'forbidden'],
    ['paul', 'web', '6, accepts'],
    ['paul', 'of mia', 'forbidden'],
    ['paul', 'tried', 'trial_pending'],
    ['stranger', 'web', 'not_a_member'],
    ['stranger', 'of mia', 'not_a_member'],
    ['stranger', 'absent', 'not_a_member'],
    ['ended', 'web', 'credential_ended'],
    ['ended', 'of mia', 'credential_ended'],
  ];
  it.each(rights)('by %s, of "%s": %s', (who, word, result) => {
    expect(update(people[who](onGroups), word, rename)).toBe(result);
  });

  it.each([
    ['the organization, which it belongs to', 'web', 'organization', '6'],
    ["a user, where it is the organization's", 'web', 'mia', 'not_found'],
    ["the organization, where it is a user's", 'of mia', 'organization', 'not_found'],
    ['another user', 'of mia', 'max', 'not_found'],
    ['its user', 'of mia', 'mia', '6'],
  ] as const)('asked for as one of %s', (_, word, owner, result) => {
    const who = word === 'web' ? olga(onGroups) : mia(onGroups);
    expect(update(who, word, rename, { owner })).toBe(result);
  });

  it.each([
    ['under the revision that it has', 5, '6'],
    ['under an older one', 4, 'precondition_failed'],
    ['under a newer one', 6, 'precondition_failed'],
    ['under none', undefined, '6'],
  ] as const)('%s', (_, if_match, result) => {
    expect(update(olga(onGroups), 'web', rename, if_match === undefined ? {} : { if_match })).toBe(result);
  });

  it.each([
    ['its own name', { group_name: 'web' }],
    ['no field', {}],
    ['a field that is not given', { group_name: undefined }],
    ['no rules, as it has', { inbound_rules: [], outbound_rules: [] }],
    ['no labels, as it has', { applies_to: [] }],
    ['the mode that a record leaves out', { mode: 'enforce' }],
    ['its own description', { group_description: '' }],
  ] as const)('to %s takes no revision', (_, patch) => {
    expect(update(olga(onGroups), 'web', patch as GroupPatch)).toBe('unchanged at 5');
  });

  it.each([
    ['another name', { group_name: 'x' }],
    ['another description', { group_description: 'x' }],
    ['rules', { inbound_rules: [ranges(1)] }],
    ['rules the other way', { outbound_rules: [ranges(1)] }],
    ['a label', { applies_to: labels('db') }],
    ['watch only', { mode: 'observe' }],
    ['one new field beside old ones', { group_name: 'web', mode: 'observe' }],
  ] as const)('to %s takes the next one', (_, patch) => {
    expect(update(olga(onGroups), 'web', patch as GroupPatch)).toBe('6');
  });

  const wide = [
    group('default', { is_default: true }),
    group('wide', { inbound_rules: [ranges(8)] }),
    group('later', { later: true } as object),
  ];
  it.each([
    ['to as many ranges as it may have', 'wide', { inbound_rules: [ranges(10)] }, 0, '6'],
    ['to more', 'wide', { inbound_rules: [ranges(11)] }, 0, 'too_many_ranges'],
    ['to more by the other direction', 'wide', { outbound_rules: [ranges(3)] }, 0, 'too_many_ranges'],
    ['to fewer', 'wide', { inbound_rules: [ranges(1)] }, 30, '6'],
    ['to another name, where all groups have too many', 'wide', rename, 30, '6'],
    ['that grows, where all groups together still have room', 'wide', { outbound_rules: [ranges(2)] }, 18, '6'],
    [
      'that grows, where all groups together have too many: devices are looked at',
      'wide',
      { outbound_rules: [ranges(2)] },
      19,
      'too_many_device_ranges',
    ],
    ['that grows, where devices are looked at afterwards', 'wide', { outbound_rules: [ranges(2)] }, 0, '6'],
    ['of a record with fields of a later version', 'later', rename, 0, 'newer_record'],
    ['of such a record to what it is', 'later', { group_name: 'later' }, 0, 'unchanged at 5'],
  ] as const)('%s', (_, word, patch, all, result) => {
    expect(update(olga(onGroups), word, patch as GroupPatch, { groups: wide, all })).toBe(result);
  });

  it('the default group may not have more ranges than a device, whatever the others have', () => {
    const quotas = { group_ranges: 30 };
    const patch = { inbound_rules: [ranges(21)] };
    expect(update(olga(onGroups), 'default', patch, { quotas })).toBe('too_many_device_ranges');
    expect(update(olga(onGroups), 'web', patch, { quotas })).toBe('6');
  });

  it.each([
    ['a group that enforces gets another name', 'web', rename, undefined],
    ['a group that enforces becomes watch only', 'web', { mode: 'observe' }, 'enforce'],
    ['a watch-only group enforces', 'watched', { mode: 'enforce' }, 'observe'],
    ['a watch-only group gets another name', 'watched', rename, 'observe'],
  ] as const)('a trial remembers the mode: %s', (_, word, patch, mode) => {
    const records = draft();
    const { before: _before, ...started } = trial(null);
    updateGroup(deciding(records, olga(onGroups)), { id: idOf(word), patch, trial: started });
    expect(records.group(idOf(word))?.record.trial?.before?.mode).toBe(mode);
    expect(records.group(idOf(word))?.record.trial?.before?.group_name).toBe(word);
  });
});

describe('a new device', () => {
  const create = (who: Somebody, of: string, more: object = {}, quotas = {}): string =>
    outcomeOf(
      () =>
        createDevice(deciding(draft(), who, quotas), {
          id: idOf('new'),
          device: { user_id: userId(of), fields: fields('new', more) },
        }),
      ({ state, accepts }) => `${state.revision}${accepts ? ', accepts' : ''}`,
    );
  const labelled = { labels: ['db'] };

  const rights: readonly (readonly [Person, string, object, string])[] = [
    ['olga', 'olga', {}, '6'],
    ['olga', 'mia', {}, '6'],
    ['olga', 'mia', labelled, '6'],
    ['mia', 'mia', {}, '6'],
    ['mia', 'mia', labelled, 'labels_by_owner'],
    ['mia', 'max', {}, 'forbidden'],
    ['mia', 'max', labelled, 'forbidden'],
    ['paul', 'paul', {}, '6'],
    ['paul', 'paul', labelled, '6, accepts'],
    ['paul', 'mia', {}, '6, accepts'],
    ['stranger', 'sam', {}, 'not_a_member'],
    ['ended', 'mia', {}, 'credential_ended'],
  ];
  it.each(rights)('by %s for %s %j: %s', (who, of, more, result) => {
    expect(create(people[who](anyMember), of, more)).toBe(result);
  });

  it.each([
    ['for a user who has left', {}, {}, { is_member: false }, 'not_a_member'],
    ['with the public key of another one', { public_key: 'key of d1' }, {}, {}, 'public_key_taken'],
    ['as the last one that there may be', {}, { devices: 5 }, {}, '6'],
    ['as one too many', {}, { devices: 4 }, {}, 'limit_reached'],
    [
      'with a key that is taken, as one too many: the key comes first',
      { public_key: 'key of d1' },
      { devices: 4 },
      {},
      'public_key_taken',
    ],
  ] as const)('%s', (_, more, quotas, caller, result) => {
    expect(create(somebody('olga', 'owner', anyMember, caller), 'mia', more, quotas)).toBe(result);
  });

  it.each([
    ['has the labels of its key, though its user is no owner', 'server', '6'],
    ['joins by an enrollment key', 'enrollmentKey', '6'],
  ] as const)('%s', (_, role, result) => {
    const who = role === 'server' ? server : somebody('mia', 'member', ['enrollmentKey']);
    expect(create(who, 'mia', role === 'server' ? labelled : {})).toBe(result);
  });
});

describe('a change of a device', () => {
  const update = (who: Somebody, word: string, patch: DevicePatch, if_match?: number, devices = fleet): string =>
    outcomeOf(
      () => updateDevice(deciding(draft(standing, devices), who), { id: idOf(word), patch, if_match }),
      ({ state, note, accepts }) =>
        `${note.unchanged === true ? 'unchanged at ' : ''}${state.revision}${accepts ? ', accepts' : ''}`,
    );

  const patches = {
    name: { hostname: 'other' },
    endpoint: { reflexive_ip4: '192.0.2.1' },
    label: { labels: ['app'] },
    address: { addresses: ['10.9.9.9'] },
    tunnel: { tunnel_ip: '100.64.9.9/32' },
    isolation: { isolated: { since: at, by: userId('olga'), reason: '', allow: [] } },
    list: { security_groups: [groupId('of mia')] },
  } as const satisfies Record<string, DevicePatch>;

  // Who changes what, of d1 (mia's, plain), d2 (max's, labelled) and d3 (mia's, isolated).
  const rights: readonly (readonly [Person, keyof typeof patches, string, string, string])[] = [
    ['olga', 'name', '6', '6', '6'],
    ['olga', 'endpoint', '6', '6', '6'],
    ['olga', 'label', '6', '6', '6'],
    ['olga', 'address', '6', '6', '6'],
    ['olga', 'tunnel', '6', '6', '6'],
    ['olga', 'isolation', '6', '6', 'unchanged at 5'],
    ['olga', 'list', '6', '6', '6'],
    ['mia', 'name', '6', 'forbidden', '6'],
    ['mia', 'endpoint', '6', 'forbidden', '6'],
    ['mia', 'label', 'labels_by_owner', 'forbidden', 'labels_by_owner'],
    ['mia', 'address', '6', 'forbidden', 'address_by_owner'],
    ['mia', 'tunnel', '6', 'forbidden', 'address_by_owner'],
    ['mia', 'isolation', 'forbidden', 'forbidden', 'unchanged at 5'],
    ['mia', 'list', '6', 'forbidden', '6'],
    ['max', 'name', 'forbidden', '6', 'forbidden'],
    ['max', 'label', 'forbidden', 'labels_by_owner', 'forbidden'],
    ['max', 'address', 'forbidden', 'address_by_owner', 'forbidden'],
    ['max', 'tunnel', 'forbidden', 'address_by_owner', 'forbidden'],
    ['max', 'isolation', 'forbidden', 'forbidden', 'forbidden'],
    ['max', 'list', 'forbidden', '6', 'forbidden'],
    ['paul', 'name', '6, accepts', '6, accepts', '6, accepts'],
    ['paul', 'label', '6, accepts', '6, accepts', '6, accepts'],
    ['stranger', 'name', 'not_a_member', 'not_a_member', 'not_a_member'],
    ['ended', 'name', 'credential_ended', 'credential_ended', 'credential_ended'],
  ];
  const cases = rights.flatMap(([who, what, ...results]) =>
    results.map((result, index) => [who, what, `d${index + 1}`, result] as const),
  );
  it.each(cases)('by %s: %s of %s: %s', (who, what, word, result) => {
    expect(update(people[who](onDevices), word, patches[what])).toBe(result);
  });

  it.each([
    ['name', '6'],
    ['endpoint', '6'],
    ['label', 'labels_by_owner'],
    ['address', '6'],
    ['isolation', 'forbidden'],
  ] as const)('by its own token: %s: %s', (what, result) => {
    expect(update(mia(['ownDevice']), 'd1', patches[what])).toBe(result);
  });

  it('an owner who has not accepted accepts nothing by what every user may do with a device', () => {
    const own = [device('d5', { of: 'paul', labels: ['db'] })];
    const by = (patch: DevicePatch): string => update(paul(onDevices), 'd5', patch, undefined, own);
    expect([by(patches.name), by(patches.list)]).toEqual(['6', '6']);
    expect([by(patches.label), by(patches.isolation), by(patches.address)]).toEqual(Array(3).fill('6, accepts'));
  });

  it.each([
    ['a device that is gone', 'absent', patches.name, undefined, 'not_found'],
    ['under the revision that it has', 'd1', patches.name, 5, '6'],
    ['under another one', 'd1', patches.name, 4, 'precondition_failed'],
    ['the list, while it is on trial', 'd4', patches.list, undefined, 'trial_pending'],
    ['the same list, while it is on trial', 'd4', { security_groups: [groupId('web')] }, undefined, 'trial_pending'],
    ['the name, while the list is on trial', 'd4', patches.name, undefined, '6'],
    ['the public key to that of another one', 'd1', { public_key: 'key of d2' }, undefined, 'public_key_taken'],
    ['the public key to a new one', 'd1', { public_key: 'fresh' }, undefined, '6'],
    ['the public key to its own', 'd1', { public_key: 'key of d1' }, undefined, 'unchanged at 5'],
    ['nothing', 'd1', {}, undefined, 'unchanged at 5'],
    ['no labels, as it has', 'd1', { labels: [] }, undefined, 'unchanged at 5'],
    ['no addresses, as it has', 'd1', { addresses: [] }, undefined, 'unchanged at 5'],
    ['its own list', 'd1', { security_groups: [groupId('web')] }, undefined, 'unchanged at 5'],
    ['an isolation that is not there to none', 'd1', { isolated: null }, undefined, 'unchanged at 5'],
    ['an isolation to none', 'd3', { isolated: null }, undefined, '6'],
  ] as const)('changes %s', (_, word, patch, if_match, result) => {
    expect(update(olga(onDevices), word, patch as DevicePatch, if_match)).toBe(result);
  });

  it('of a record with fields of a later version is refused, and what leaves it as it is is not', () => {
    const later = [device('d9', { later: 1 } as object)];
    expect(update(olga(onDevices), 'd9', patches.name, undefined, later)).toBe('newer_record');
    expect(update(olga(onDevices), 'd9', { hostname: 'd9' }, undefined, later)).toBe('unchanged at 5');
  });

  it.each([
    ['another list', [groupId('of mia')], true],
    ['an empty list', [], true],
    ['the list that it has', [groupId('web')], false],
  ] as const)('is tried with %s', (_, security_groups, isTried) => {
    const records = draft();
    const { before: _before, ...started } = trial(null);
    updateDevice(deciding(records, mia(onDevices)), { id: idOf('d1'), patch: { security_groups }, trial: started });
    expect(records.device(idOf('d1'))?.record.trial?.before).toEqual(
      isTried ? { security_groups: [groupId('web')] } : undefined,
    );
  });

  it.each([
    ['what the history keeps is not in the audit too', patches.label, false],
    ['what it does not keep is', patches.name, true],
  ] as const)('%s', (_, patch, hasAfter) => {
    const { note } = updateDevice(deciding(draft(), olga(onDevices)), { id: idOf('d1'), patch });
    expect(note.texts?.before).toContain('"hostname":"d1"');
    expect(note.texts?.after !== undefined).toBe(hasAfter);
  });

  it.each([
    [{ reflexive_ip4: 'x' }, true],
    [{ local_ip: 'x', symmetric_nat: true }, true],
    [{ hostname: 'x' }, false],
    [{ public_key: 'x' }, false],
    [{ relay: true, labels: [] }, false],
    [{ relay: true, labels: undefined }, true],
    [{}, true],
  ] as const)('%j says only where the device is: %s', (patch, result) => {
    expect(isEndpointOnly(patch as DevicePatch)).toBe(result);
  });
});

describe('a device that is isolated is deleted', () => {
  it.each([
    ['by an owner', 'owner', ['owner'], 'done'],
    ['by an owner who is here by another right', 'owner', ['owningUser'], 'done'],
    ['by its user', 'member', ['owner', 'owningUser'], 'isolated_by_owner'],
    ['by a member who leaves', 'member', ['owningUser'], 'isolated_by_owner'],
    ['by who is no member', null, ['owningUser'], 'isolated_by_owner'],
    ['by an administrator of the server, who removes the user', null, ['administrator'], 'done'],
    ['by the server', null, ['server'], 'done'],
  ] as const)('%s: %s', (_, role, right, result) => {
    const who = somebody('mia', role, right);
    const { by, caller } = deciding(draft(), who);
    expect(
      outcomeOf(
        () => holdIsolated(by, caller),
        () => 'done',
      ),
    ).toBe(result);
  });
});

describe('a device that goes to another user', () => {
  it.each([
    ['to a member', 'd1', 'max', true, undefined, 'goes'],
    ['to who is no member', 'd1', 'max', false, undefined, 'not_found'],
    ['to whose it is', 'd1', 'mia', true, undefined, 'stays'],
    ['while its list is on trial', 'd4', 'max', true, undefined, 'trial_pending'],
    ['to whose it is, while its list is on trial', 'd4', 'mia', true, undefined, 'stays'],
    ['under another revision', 'd1', 'max', true, 4, 'precondition_failed'],
    ['under its revision', 'd1', 'max', true, 5, 'goes'],
    ['though it is gone', 'absent', 'max', true, undefined, 'not_found'],
  ] as const)('%s: %s', (_, word, to, isMember, if_match, result) => {
    const move = () => holdMove(draft().device(idOf(word)), { to: userId(to), isMember, if_match });
    expect(outcomeOf(move, (record) => (record === undefined ? 'stays' : 'goes'))).toBe(result);
  });

  it.each([
    ["the organization's groups", ['web'], ['web']],
    ['no group of the old user', ['of mia', 'web'], ['web']],
    ['the groups of the new one', ['of max', 'of mia'], ['of max']],
    ['what is not known', ['absent'], ['absent']],
    ['nothing where it had nothing', [], []],
  ] as const)('has there %s', (_, list, left) => {
    const records = draft();
    const after = handedOver(device('d', { list }), userId('max'), (id) => records.group(id)?.owner);
    expect(after.user_id).toBe(userId('max'));
    expect(after.security_groups).toEqual(left.map(groupId));
  });
});

describe('the list of a device', () => {
  const check = (
    list: readonly string[],
    {
      user = 'mia',
      phase = 3,
      oldList = [],
      applied = [],
      own = '',
      device_ranges = 20,
    }: {
      readonly user?: string;
      readonly phase?: Phase;
      readonly oldList?: readonly string[];
      readonly applied?: readonly string[];
      readonly own?: string;
      readonly device_ranges?: number;
    } = {},
  ) => {
    const records = new DraftInMemory(
      [
        ...standing,
        group('new by trial', { trial: trial(null, undefined, 'other') }),
        group('ten', { inbound_rules: [ranges(10)] }),
        group('eleven', { inbound_rules: [ranges(11)] }),
      ],
      [],
    );
    return checkList(
      {
        user: userId(user),
        list: list.map(groupId),
        oldList: oldList.map(idOf),
        trial: own === '' ? undefined : idOf(own),
      },
      {
        phase,
        quotas: { device_ranges },
        group: (id) => {
          const state = records.group(id);
          return state && { record: state.record, isApplied: applied.some((word) => idOf(word) === id) };
        },
      },
    );
  };
  const words = (list: readonly string[], more: Parameters<typeof check>[1] = {}): string =>
    outcomeOf(
      () => check(list, more),
      ({ problems }) => problems.map(({ index, code }) => `${index} ${code}`).join(', ') || 'good',
    );

  it.each([
    ['nothing', [], {}, 'good'],
    ["the organization's group", ['web'], {}, 'good'],
    ["the user's own group", ['of mia'], {}, 'good'],
    ["another user's group", ['of max'], {}, '0 unknown_group'],
    ['a group that is not there', ['absent'], {}, '0 unknown_group'],
    ['the default group', ['default'], {}, '0 default_group'],
    ['a guardrail', ['guard'], {}, '0 guardrail'],
    ['a watch-only group', ['watched'], {}, 'good'],
    ['one group twice', ['web', 'web'], {}, '1 duplicate'],
    ['one group three times', ['web', 'web', 'web'], {}, '1 duplicate, 2 duplicate'],
    [
      'all that is wrong at once',
      ['of max', 'default', 'guard', 'web', 'web'],
      {},
      '0 unknown_group, 1 default_group, 2 guardrail, 4 duplicate',
    ],
    ['a group on trial', ['tried'], {}, 'good'],
    ['a group that exists by a trial only', ['new by trial'], {}, 'trial_pending'],
    ['such a group, by the same trial', ['new by trial'], { own: 'other' }, 'good'],
    ['such a group, which it had before', ['new by trial'], { oldList: ['new by trial'] }, 'good'],
    ['nothing, in phase 1', [], { phase: 1 }, 'good'],
    ['a group, in phase 1', ['web'], { phase: 1 }, '-1 too_many'],
    ['one group, in phase 2', ['web'], { phase: 2 }, 'good'],
    ['two groups, in phase 2', ['web', 'of mia'], { phase: 2 }, '-1 too_many'],
    ['two groups, in phase 3', ['web', 'of mia'], { phase: 3 }, 'good'],
    ['as many ranges as a device may have', ['ten', 'web'], { device_ranges: 10 }, 'good'],
    ['too many ranges', ['ten', 'eleven'], {}, '-1 too_many_ranges'],
    ['too many ranges and a wrong entry: the entry', ['ten', 'eleven', 'default'], {}, '2 default_group'],
  ] as const)('names %s: %s', (_, list, more, result) => {
    expect(words(list, more)).toBe(result);
  });

  const inWords = (ids: readonly string[]): string =>
    ['of mia', 'of max', 'web'].filter((word) => ids.includes(idOf(word))).join(', ');
  it.each([
    ["a user's group that nobody applied", ['of mia'], [], [], 'of mia', ''],
    ["a user's group that is applied elsewhere", ['of mia'], [], ['of mia'], '', ''],
    ["the organization's group", ['web'], [], [], '', ''],
    ["nothing, after a user's group", [], ['of mia'], ['of mia'], '', 'of mia'],
    ["the same user's group", ['of mia'], ['of mia'], ['of mia'], '', ''],
    ["a user's group instead of another one", ['of mia'], ['of max'], ['of max'], 'of mia', 'of max'],
  ] as const)(
    "%s: what enters everyone's view, and what may leave it",
    (_, list, oldList, applied, entering, leaving) => {
      const checked = check(list, { oldList, applied });
      expect([inWords(checked.entering), inWords(checked.leaving)]).toEqual([entering, leaving]);
    },
  );
});

describe('devices that a write leaves with only the default group', () => {
  const db = group('by label', { applies_to: labels('db') });
  const listed = group('listed');
  const guarding = group('guarding', { applies_to: labels('guarded'), guardrail: 'forbid' });
  const defaults = group('default', { is_default: true });
  const opened = (
    before: readonly (GroupContent | DeviceContent)[],
    after: readonly (GroupContent | DeviceContent)[],
    emptied: readonly string[] = [],
  ): string => {
    const model = (records: readonly (GroupContent | DeviceContent)[]) =>
      new DraftInMemory(
        [defaults, ...records.filter((one) => 'group_name' in one)],
        records.filter((one) => 'hostname' in one),
      ).organization;
    const steps = () => finish(refuseOpened(model(before), model(after), { emptied: new Set(emptied.map(idOf)) }));
    return outcomeOf(steps, () => 'none opens');
  };
  const watched = <T extends GroupContent>(one: T): T => ({ ...one, mode: 'observe' });
  const d = (more: Parameters<typeof device>[1] = {}): DeviceContent => device('d', more);
  const beforeTrial = (more: Partial<GroupBefore>): GroupBefore => ({
    group_name: '',
    group_description: '',
    inbound_rules: [],
    outbound_rules: [],
    applies_to: [],
    ...more,
  });

  // It applied to `db` before, and is tried elsewhere by the devices of the scope.
  const movedOn = {
    ...group('moved', { applies_to: labels('app') }),
    trial: trial(beforeTrial({ applies_to: labels('db') }), labels('canary')),
  };
  const wider = { ...movedOn, trial: trial(beforeTrial({ applies_to: labels('db') })) };
  const triedEmpty = trial({ security_groups: [groupId('listed')] }, labels('canary'));
  const [starts, stops] = [
    { ...group('starts'), trial: trial(beforeTrial({ mode: 'observe' }), labels('edge'), 'starting') },
    { ...watched(group('stops')), trial: trial(beforeTrial({}), labels('canary'), 'stopping') },
  ];

  it.each([
    [
      'a member takes the last closing group off its device by another list',
      [listed, watched(db), d({ list: ['listed'] })],
      [listed, watched(db), d({ list: ['by label'] })],
      [],
      'would_open',
    ],
    ['an emptied list asks for it', [listed, d({ list: ['listed'] })], [listed, d()], ['d'], 'none opens'],
    [
      'a list that is emptied by something else does not',
      [listed, d({ list: ['listed'] })],
      [listed, d()],
      [],
      'would_open',
    ],
    [
      'an emptied list takes no group by label along',
      [db, listed, d({ list: ['listed'], labels: ['db'] })],
      [db, listed, d({ labels: ['app'] })],
      ['d'],
      'would_open',
    ],
    ['the last label goes', [db, d({ labels: ['db'] })], [db, d()], [], 'would_open'],
    ['one of two labels goes', [db, d({ labels: ['db', 'app'] })], [db, d({ labels: ['db'] })], [], 'none opens'],
    [
      'the label goes, and a list stays',
      [db, listed, d({ labels: ['db'], list: ['listed'] })],
      [db, listed, d({ list: ['listed'] })],
      [],
      'none opens',
    ],
    [
      'the label goes, and a list comes',
      [db, listed, d({ labels: ['db'] })],
      [db, listed, d({ list: ['listed'] })],
      [],
      'none opens',
    ],
    [
      'the label goes, and that of a guardrail stays',
      [db, guarding, d({ labels: ['db', 'guarded'] })],
      [db, guarding, d({ labels: ['guarded'] })],
      [],
      'would_open',
    ],
    ['the label of a guardrail goes', [guarding, d({ labels: ['guarded'] })], [guarding, d()], [], 'none opens'],
    [
      'the group stops to apply by label',
      [db, d({ labels: ['db'] })],
      [{ ...db, applies_to: [] }, d({ labels: ['db'] })],
      [],
      'would_open',
    ],
    [
      'the group applies by another label',
      [db, d({ labels: ['db'] })],
      [{ ...db, applies_to: labels('app') }, d({ labels: ['db'] })],
      [],
      'would_open',
    ],
    [
      'the group applies to one label more',
      [db, d({ labels: ['db'] })],
      [{ ...db, applies_to: [...labels('db'), ...labels('app')] }, d({ labels: ['db'] })],
      [],
      'none opens',
    ],
    [
      'the group applies to all devices',
      [db, d({ labels: ['db'] })],
      [{ ...db, applies_to: [{ all_devices: true as const }] }, d({ labels: ['db'] })],
      [],
      'none opens',
    ],
    [
      'the group becomes watch only, by label',
      [db, d({ labels: ['db'] })],
      [watched(db), d({ labels: ['db'] })],
      [],
      'would_open',
    ],
    [
      'the group becomes watch only, by list',
      [listed, d({ list: ['listed'] })],
      [watched(listed), d({ list: ['listed'] })],
      [],
      'would_open',
    ],
    ['a watch-only group goes', [watched(db), d({ labels: ['db'] })], [d({ labels: ['db'] })], [], 'none opens'],
    ['the group by label goes', [db, d({ labels: ['db'] })], [d({ labels: ['db'] })], [], 'would_open'],
    [
      'a guardrail goes',
      [{ ...db, guardrail: 'forbid' as const }, d({ labels: ['db'] })],
      [d({ labels: ['db'] })],
      [],
      'none opens',
    ],
    ['a device that was open stays so', [d()], [d()], [], 'none opens'],
    ['a device that is deleted does not open', [listed, d({ list: ['listed'] })], [listed], [], 'none opens'],
    ['a device that is new does not open', [], [d()], [], 'none opens'],
    [
      'a group by label that needs two labels loses one',
      [{ ...db, applies_to: labels('db', 'prod') }, d({ labels: ['db', 'prod'] })],
      [{ ...db, applies_to: labels('db', 'prod') }, d({ labels: ['db'] })],
      [],
      'would_open',
    ],
    [
      'another list with another closing group',
      [listed, group('other'), d({ list: ['listed'] })],
      [listed, group('other'), d({ list: ['other'] })],
      [],
      'none opens',
    ],
    [
      'a trial of an empty list opens it now',
      [listed, d({ list: ['listed'] })],
      [listed, d({ trial: trial({ security_groups: [groupId('listed')] }) })],
      [],
      'would_open',
    ],
    [
      'a trial of an empty list that was asked for',
      [listed, d({ list: ['listed'] })],
      [listed, d({ trial: trial({ security_groups: [groupId('listed')] }) })],
      ['d'],
      'none opens',
    ],
    [
      'a trial of watch only opens in its scope',
      [db, d({ labels: ['db', 'canary'] })],
      [
        { ...watched(db), trial: trial(beforeTrial({ applies_to: labels('db') }), labels('canary')) },
        d({ labels: ['db', 'canary'] }),
      ],
      [],
      'would_open',
    ],
    [
      'and is judged out of its scope as if it were kept',
      [db, d({ labels: ['db'] })],
      [
        { ...watched(db), trial: trial(beforeTrial({ applies_to: labels('db') }), labels('canary')) },
        d({ labels: ['db'] }),
      ],
      [],
      'would_open',
    ],
    [
      'a device enters the scope of a group that goes by its trial',
      [movedOn, d({ labels: ['db'] })],
      [movedOn, d({ labels: ['canary', 'db'] })],
      [],
      'would_open',
    ],
    [
      'a device leaves the scope of a group that is new by its trial',
      [{ ...db, trial: trial(null, labels('canary')) }, d({ labels: ['canary', 'db'] })],
      [{ ...db, trial: trial(null, labels('canary')) }, d({ labels: ['db'] })],
      [],
      'would_open',
    ],
    [
      'a device enters the scope of an empty list that is tried',
      [listed, d({ trial: triedEmpty })],
      [listed, d({ labels: ['canary'], trial: triedEmpty })],
      [],
      'would_open',
    ],
    [
      'the trial of a group is widened',
      [movedOn, d({ labels: ['db'] })],
      [wider, d({ labels: ['db'] })],
      [],
      'would_open',
    ],
    [
      'a list is left with a group that closes only as long as it is tried',
      [listed, starts, d({ labels: ['edge'], list: ['listed'] })],
      [listed, starts, d({ labels: ['edge'], list: ['starts'] })],
      [],
      'would_open',
    ],
    [
      'a list is left with a watch-only group, and a label takes its place',
      [listed, db, watched(group('seen')), d({ labels: ['db'], list: ['listed'] })],
      [listed, db, watched(group('seen')), d({ labels: ['db'], list: ['seen'] })],
      [],
      'none opens',
    ],
    [
      'a list of groups on trial, of which one begins and one ends to close',
      [listed, starts, stops, d({ labels: ['canary'], list: ['listed'] })],
      [listed, starts, stops, d({ labels: ['canary'], list: ['starts', 'stops'] })],
      [],
      'would_open',
    ],
    [
      'a group that closes by a trial only did not close before',
      [{ ...db, trial: trial(null) }, d({ labels: ['db'] })],
      [{ ...db, trial: trial(null) }, d({ labels: ['db'] })],
      [],
      'none opens',
    ],
  ] as const)('%s: %s', (_, before, after, emptied, result) => {
    const expected = typeof result === 'string' ? result : '';
    expect(opened(before, after, emptied)).toBe(expected);
  });

  it('are named up to a hundred, in the order of their ids, and the others are counted', () => {
    const many = Array.from({ length: 120 }, (_, n) => device(`m${n}`, { labels: ['db'] }));
    const [before, after] = [new DraftInMemory([defaults, db], many), new DraftInMemory([defaults], many)];
    try {
      finish(refuseOpened(before.organization, after.organization));
      expect.unreachable();
    } catch (error) {
      const { problem } = error as { problem: { devices: { id: string }[]; more: number } };
      expect([problem.devices.length, problem.more]).toEqual([100, 20]);
      expect(problem.devices.map(({ id }) => id)).toEqual(problem.devices.map(({ id }) => id).toSorted());
    }
  });
});

describe('a group that goes', () => {
  const key = (word: string, list: readonly string[] = ['web'], carried: readonly string[] = []) => ({
    id: parseEnrollmentKeyId(idOf(word)),
    name: word,
    security_groups: list.map(groupId),
    labels: carried,
  });
  const go = (
    gone: GroupContent,
    devices: readonly DeviceContent[],
    { keys = [] as readonly ReturnType<typeof key>[], detach = false, leaveByLabel = false } = {},
  ): string => {
    const { organization } = new DraftInMemory([group('default', { is_default: true }), gone], devices);
    const { id, guardrail } = gone;
    return outcomeOf(
      () => finish(holdersToLeave(organization, { id, guardrail, keys, detach, leaveByLabel })),
      (holders) => `leaves ${holders.map(({ hostname }) => hostname).join(', ') || 'none'}`,
    );
  };
  const web = group('web');
  const byLabel = group('web', { applies_to: labels('db') });
  const onTrial = trial({ security_groups: [groupId('web')] });
  it.each([
    ['that nobody has', web, [device('a')], {}, 'leaves none'],
    ['that a device lists', web, [device('a', { list: ['web'] })], {}, 'group_in_use'],
    ['that a device lists, detached', web, [device('a', { list: ['web'] }), device('b')], { detach: true }, 'leaves a'],
    ['that devices have by label', byLabel, [device('a', { labels: ['db'] })], {}, 'group_in_use'],
    [
      'that devices have by label, detached',
      byLabel,
      [device('a', { labels: ['db'] })],
      { detach: true },
      'leaves none',
    ],
    [
      'that devices have by label, in a change set that judges who opens',
      byLabel,
      [device('a', { labels: ['db'] })],
      { leaveByLabel: true },
      'leaves none',
    ],
    [
      'that a device lists, in such a change set',
      byLabel,
      [device('a', { list: ['web'] })],
      { leaveByLabel: true },
      'group_in_use',
    ],
    ['that an enrollment key holds', web, [], { keys: [key('k')] }, 'group_in_use'],
    ['that an enrollment key holds, detached', web, [], { keys: [key('k')], detach: true }, 'leaves none'],
    [
      'that is watch only and listed',
      group('web', { mode: 'observe' }),
      [device('a', { list: ['web'] })],
      {},
      'group_in_use',
    ],
    [
      'that is a guardrail in effect',
      group('web', { guardrail: 'forbid', applies_to: labels('db') }),
      [device('a', { labels: ['db'] })],
      {},
      'leaves none',
    ],
    [
      'that a list on trial names',
      web,
      [device('a', { list: ['web'], trial: trial({ security_groups: [] }) })],
      { detach: true },
      'trial_pending',
    ],
    ['that the end of a trial brings back', web, [device('a', { trial: onTrial })], { detach: true }, 'trial_pending'],
    [
      'that a list on trial names, undetached: the trial comes first',
      web,
      [device('a', { trial: onTrial })],
      {},
      'trial_pending',
    ],
  ] as const)('%s: %s', (_, gone, devices, more, result) => {
    const expected = result as string;
    expect(go(gone, devices, more)).toBe(expected);
  });

  it.each([
    ['holds nothing else', ['web'], [], 'group_in_use'],
    ['holds another group', ['web', 'other'], [], 'done'],
    ['carries a label that another group applies to', ['web'], ['app'], 'done'],
    ['carries a label that none applies to', ['web'], ['db'], 'group_in_use'],
  ] as const)('becomes watch only while an enrollment key %s', (_, list, carried, result) => {
    const groups = [
      group('default', { is_default: true }),
      group('web', { mode: 'observe' }),
      group('other'),
      group('app', { applies_to: labels('app') }),
    ];
    const { organization } = new DraftInMemory(groups, []);
    expect(
      outcomeOf(
        () => finish(refuseOpenKeys(organization, [key('k', list, carried)])),
        () => 'done',
      ),
    ).toBe(result);
  });
});

describe('ranges over all groups of a device', () => {
  const ten = (word: string, more: Parameters<typeof group>[1] = {}): GroupContent =>
    group(word, { inbound_rules: [ranges(10)], ...more });
  const judge = (groups: readonly GroupContent[], ...devices: readonly DeviceContent[]): string =>
    outcomeOf(
      () => finish(refuseOverfull(new DraftInMemory(groups, devices).organization, idOf('a'), 15)),
      () => 'fits',
    );
  it.each([
    ['one group', [ten('a')], ['a'], [], 'fits'],
    ['two by list', [ten('a'), ten('b')], ['a', 'b'], [], 'too_many_device_ranges'],
    [
      'one by list and one by label',
      [ten('a'), ten('b', { applies_to: labels('db') })],
      ['a'],
      ['db'],
      'too_many_device_ranges',
    ],
    ['one by label that it does not carry', [ten('a'), ten('b', { applies_to: labels('db') })], ['a'], [], 'fits'],
    ['one that is watch only', [ten('a'), ten('b', { mode: 'observe' })], ['a', 'b'], [], 'too_many_device_ranges'],
    [
      'a guardrail',
      [ten('a'), ten('b', { guardrail: 'require', applies_to: labels('db') })],
      ['a'],
      ['db'],
      'too_many_device_ranges',
    ],
    ['others than the group that is asked about', [group('a'), ten('b'), ten('c')], ['b', 'c'], [], 'fits'],
    [
      'two by list, of which one names none any more',
      [group('a', { inbound_rules: [ranges(0)] }), ten('b')],
      ['a', 'b'],
      [],
      'fits',
    ],
    [
      'a group that applies by label and is listed counts once',
      [ten('a', { applies_to: labels('db') })],
      ['a'],
      ['db'],
      'fits',
    ],
  ] as const)('%s', (_, groups, list, carried, result) => {
    expect(judge(groups, device('d', { list, labels: carried }))).toBe(result);
  });

  it('names the devices that have too many, and no other', () => {
    const devices = [
      device('alone', { list: ['a'] }),
      device('full', { list: ['a', 'b'] }),
      device('b', { list: ['b'] }),
    ];
    const { organization } = new DraftInMemory([ten('a'), ten('b')], devices);
    const full = { limit: 15, devices: [{ id: deviceId('full'), hostname: 'full' }] };
    expect(() => finish(refuseOverfull(organization, idOf('a'), 15))).toThrow(
      expect.objectContaining({ problem: { code: 'too_many_device_ranges', ...full } }),
    );
  });

  it('count with the list that the end of a trial brings back', () => {
    const back = device('d', { list: ['a'], trial: trial({ security_groups: [groupId('b')] }) });
    expect(judge([ten('a'), ten('b')], back)).toBe('too_many_device_ranges');
  });
});

describe('a rule that names a device', () => {
  const { organization } = draft();
  it.each([
    ['that is there', ['d1'], [], 'done'],
    ['that is not there', ['absent'], [], 'device_unknown'],
    ['that was named before and is gone', ['absent'], ['absent'], 'done'],
    ['one that is there and one that is not', ['d1', 'absent'], [], 'device_unknown'],
  ] as const)('%s: %s', (_, named, before, result) => {
    const ids = (words: readonly string[]) => new Set(words.map(idOf));
    expect(
      outcomeOf(
        () => refuseUnknown(organization, ids(named), ids(before)),
        () => 'done',
      ),
    ).toBe(result);
  });

  it('is found in both directions, and no label is one', () => {
    const rules = [naming({ device_id: deviceId('d1') }, { labels: ['db'] }), ranges(1)];
    expect([...devicesIn(rules, undefined, [naming({ device_id: deviceId('d2') })])]).toEqual([idOf('d1'), idOf('d2')]);
  });
});

describe('the end of a trial', () => {
  const was: GroupBefore = {
    group_name: 'old name',
    group_description: '',
    inbound_rules: [ranges(1)],
    outbound_rules: [],
    applies_to: labels('db'),
  };
  const tried: TriedGroup = { ...group('tried', { mode: 'observe' }), trial: trial(was, labels('canary')) };
  const made: TriedGroup = { ...group('made', { of: 'mia' }), trial: trial(null) };
  const list: TriedDevice = { ...device('d', { list: ['made'] }), trial: trial({ security_groups: [groupId('web')] }) };
  const all: TriedRecords = { groups: [tried, made], devices: [list] };

  it('kept: everybody has the change, and the groups of before are left', () => {
    const { groups, devices, goes, left } = keptTrial(all);
    expect([...groups, ...devices].map((one) => 'trial' in one)).toEqual([false, false, false]);
    expect(groups[0]?.mode).toBe('observe');
    expect(devices[0]?.security_groups).toEqual([groupId('made')]);
    expect([goes, left]).toEqual([[], [groupId('web')]]);
  });

  it('reverted: every field is back, what was made goes, and the groups of the trial are left', () => {
    const { groups, devices, goes, left } = takenBack(all);
    expect(groups).toHaveLength(1);
    expect(groups[0]).toMatchObject({ group_name: 'old name', inbound_rules: [ranges(1)], applies_to: labels('db') });
    expect([groups[0]?.mode, groups[0]?.trial]).toEqual([undefined, undefined]);
    expect(devices[0]?.security_groups).toEqual([groupId('web')]);
    expect([goes.map(({ id }) => id), left]).toEqual([[idOf('made')], [groupId('made')]]);
  });

  it('a group that was watch only before is so again', () => {
    const { groups } = takenBack({
      groups: [{ ...tried, trial: trial({ ...was, mode: 'observe' as const }) }],
      devices: [],
    });
    expect(groups[0]?.mode).toBe('observe');
  });

  it.each([
    ['label canary', 'label canary and label edge', labels('canary'), [...labels('canary'), ...labels('edge')], 'both'],
    ['label canary', 'all devices', labels('canary'), [{ all_devices: true as const }], 'none'],
    ['label canary', 'no scope', labels('canary'), undefined, 'none'],
    ['label canary', 'itself', labels('canary'), labels('canary'), 'both'],
    ['label canary', 'label edge', labels('canary'), labels('edge'), 'not_wider'],
    ['label canary', 'canary and edge at once', labels('canary'), labels('canary', 'edge'), 'not_wider'],
    ['canary and edge at once', 'label canary', labels('canary', 'edge'), labels('canary'), 'both'],
    ['all devices', 'label canary', undefined, labels('canary'), 'not_wider'],
    ['all devices', 'all devices', undefined, undefined, 'none'],
  ] as const)('from %s to %s', (_, __, old, given, result) => {
    expect(
      outcomeOf(
        () => widerScope(old, given),
        (scope) => (scope === undefined ? 'none' : 'both'),
      ),
    ).toBe(result);
  });

  it('widened: only the scope is another one', () => {
    const { groups, devices, goes, left } = widened(all, labels('edge'));
    expect(groups.map((one) => one.trial?.scope)).toEqual([labels('edge'), labels('edge')]);
    expect(groups[0]).toEqual({ ...tried, trial: { ...tried.trial, scope: labels('edge') } });
    expect(devices[0]?.security_groups).toEqual([groupId('made')]);
    expect([goes, left]).toEqual([[], []]);
    expect(widened(all, undefined).groups.every(({ trial: one }) => one !== undefined && !('scope' in one))).toBe(true);
  });

  it.each([
    ['before its end', '2026-06-01T12:59:59.999Z', 'done'],
    ['at its end', '2026-06-01T13:00:00.000Z', 'trial_over'],
    ['after it', '2026-06-02T00:00:00.000Z', 'trial_over'],
  ] as const)('is kept %s: %s', (_, now, result) => {
    expect(
      outcomeOf(
        () => holdTime(trial(null), Date.parse(now)),
        () => 'done',
      ),
    ).toBe(result);
  });

  const caller = (name: string, isOwner = false, isServer = false): Ender => ({
    user_id: userId(name),
    isOwner,
    isServer,
  });
  const callers = {
    olga: caller('olga', true),
    mia: caller('mia'),
    max: caller('max'),
    server: caller('none', true, true),
  } as const;
  const ofOrganization: TriedRecords = { groups: [tried], devices: [] };
  const ofMia: TriedRecords = { groups: [made], devices: [list] };
  const none: TriedRecords = { groups: [], devices: [] };
  // Whose records it has, who ends it, and whether that keeps or reverts it.
  const rights = [
    ["the organization's", ofOrganization, 'olga', 'done', 'done'],
    ["the organization's", ofOrganization, 'mia', 'forbidden', 'forbidden'],
    ["the organization's", ofOrganization, 'server', 'done', 'done'],
    ["mia's group and device", ofMia, 'mia', 'done', 'done'],
    ["mia's group and device", ofMia, 'max', 'forbidden', 'forbidden'],
    ["mia's group and device", ofMia, 'olga', 'forbidden', 'done'],
    ["mia's group and device", ofMia, 'server', 'done', 'done'],
    ['of both', all, 'mia', 'forbidden', 'forbidden'],
    ['of both', all, 'olga', 'forbidden', 'done'],
    ['nothing left, which mia started', none, 'mia', 'done', 'done'],
    ['nothing left, which mia started', none, 'max', 'forbidden', 'forbidden'],
    ['nothing left, which mia started', none, 'olga', 'done', 'done'],
  ] as const;
  const both = rights.flatMap(([what, records, who, keep, revert]) => [
    [who, 'keep', what, records, keep] as const,
    [who, 'revert', what, records, revert] as const,
  ]);
  it.each(both)('%s may %s one with records that are %s', (who, how, _, records, result) => {
    const hold = () => holdTrial(callers[who], userId('mia'), records, how);
    expect(outcomeOf(hold, () => 'done')).toBe(result);
  });

  it.each([
    ['olga', ofOrganization, true],
    ['mia', ofMia, false],
    ['server', ofOrganization, false],
  ] as const)('%s ends it only as an owner: %s', (who, records, asOwner) => {
    expect(holdTrial(callers[who], userId('mia'), records, 'revert')).toBe(who === 'olga' ? asOwner : false);
  });

  it.each([
    ['mia', ['d'], 'done'],
    ['mia', ['made'], 'done'],
    ['mia', ['made', 'd'], 'done'],
    ['mia', ['tried'], 'forbidden'],
    ['mia', ['made', 'tried'], 'forbidden'],
    ['max', ['d'], 'forbidden'],
    ['olga', ['tried'], 'done'],
    ['olga', ['made'], 'done'],
    ['olga', ['d'], 'done'],
    ['olga', ['absent'], 'not_on_trial'],
    ['max', ['absent'], 'not_on_trial'],
    ['server', ['tried', 'd'], 'done'],
  ] as const)('%s takes %j out of it: %s', (who, records, result) => {
    expect(
      outcomeOf(
        () => holdTakeOut(callers[who], all, records.map(idOf)),
        () => 'done',
      ),
    ).toBe(result);
  });

  it.each([
    ['a list', ['d'], ['d'], ['tried', 'made']],
    ['a group that was made takes the lists along that name it', ['made'], ['made', 'd'], ['tried']],
    ['a group that was there before goes alone', ['tried'], ['tried'], ['made', 'd']],
    ['all of them', ['tried', 'made', 'd'], ['tried', 'made', 'd'], []],
  ] as const)('parts it: %s', (_, asked, out, stay) => {
    const parts = parted(all, asked.map(idOf));
    const wordsIn = ({ groups, devices }: TriedRecords) => [...groups, ...devices].map(({ id }) => id);
    expect(wordsIn(parts.out)).toEqual(out.map(idOf));
    expect(wordsIn(parts.stay)).toEqual(stay.map(idOf));
  });
});

describe('members and owners', () => {
  const day = (n: number): string => `2026-01-0${n}T00:00:00.000Z`;
  const member = (name: string, more: Partial<Member> = {}): Member => ({
    user_id: userId(name),
    username: name,
    role: 'member',
    is_pending: false,
    owner_since: null,
    created_at: day(1),
    ...more,
  });
  const owner = (name: string, since: number): Member => member(name, { role: 'owner', owner_since: day(since) });
  const pending = (name: string, since: number): Member => ({ ...owner(name, since), is_pending: true });
  const membersOf = (...all: readonly Member[]): Members => new Map(all.map((one) => [one.user_id, one]));
  const wordsOf = ({ role, is_pending, owner_since }: Member): string =>
    `${is_pending ? 'pending ' : ''}${role}${owner_since === null ? '' : ` since ${owner_since === at ? 'now' : owner_since.slice(0, 10)}`}`;
  const few = { at, count: 2, limit: 3 };
  const full = { at, count: 3, limit: 3 };

  it.each([
    ['somebody new', 'nora', few, 'member'],
    ['somebody new where there are as many as there may be', 'nora', full, 'limit_reached'],
    ['somebody who is one', 'mia', few, 'already_member'],
    ['somebody who is one where there are as many as there may be', 'mia', full, 'already_member'],
  ] as const)('%s is admitted: %4$s', (_, name, admission, result) => {
    const members = membersOf(owner('olga', 1), member('mia'));
    const admit = () => admitted(members, { user_id: userId(name), username: name }, admission);
    expect(outcomeOf(admit, wordsOf)).toBe(result);
  });

  it.each([
    ['a member', member('mia'), 'pending owner since now'],
    ['an owner', owner('olga', 1), 'owner since 2026-01-01'],
    ['an owner who has not accepted', pending('paul', 2), 'pending owner since 2026-01-02'],
  ] as const)('%s is made an owner: %3$s', (_, who, result) => {
    expect(wordsOf(promoted(who, at))).toBe(result);
  });

  it.each([
    ['a member', member('mia'), 'not_an_owner'],
    ['an owner', owner('olga', 1), 'owner since 2026-01-01'],
    ['an owner who has not accepted', pending('paul', 2), 'owner since now'],
  ] as const)('%s accepts: %3$s', (_, who, result) => {
    expect(outcomeOf(() => accepted(who, at), wordsOf)).toBe(result);
  });

  // Who ends an ownership, beside whom, and what becomes of it.
  const [olga1, oscar, paul2] = [owner('olga', 1), owner('oscar', 2), pending('paul', 2)];
  it.each([
    ['the only owner', olga1, [member('mia')], false, 'last_owner'],
    ['an owner beside another', olga1, [oscar], false, 'member'],
    ['an owner beside one who has not accepted', olga1, [paul2], false, 'last_owner'],
    ['an owner whose place one takes who has not accepted', olga1, [paul2], true, 'member'],
    ['one who has not accepted', paul2, [olga1], false, 'member'],
  ] as const)('%s becomes a member: %5$s', (_, who, others, evenLast, result) => {
    const members = membersOf(who, ...others);
    expect(outcomeOf(() => demoted(members, who, evenLast), wordsOf)).toBe(result);
    expect(isLastOwner(members, who.user_id)).toBe(result === 'last_owner' || evenLast);
  });

  it.each([
    ['the only one', [oscar, member('mia')], 'oscar'],
    ['of longest standing', [oscar, owner('olga', 1), member('mia')], 'olga'],
    ['who has accepted, however short', [pending('paul', 1), oscar], 'oscar'],
    ['who has not accepted, where nobody has', [paul2, member('mia')], 'paul'],
    ['nobody', [member('mia')], undefined],
  ] as const)('the record names the owner: %s', (_, members, name) => {
    expect(namedOwner(membersOf(...members))).toBe(name === undefined ? undefined : userId(name));
  });

  it('of whom there is none is not found', () => {
    expect(outcomeOf(() => memberIn(membersOf(olga1), userId('mia')), wordsOf)).toBe('not_found');
  });
});

describe('enrollment keys', () => {
  const now = Date.parse(at);
  const key = (name: string, more: Partial<StandingKey> = {}): StandingKey => ({
    id: parseEnrollmentKeyId(idOf(name)),
    name,
    expires_at: '2026-06-01T12:00:00.001Z',
    uses_left: 1,
    ...more,
  });
  const plain = { problems: [], labels: [] };
  const marked = { problems: [], labels: ['db'] };
  const spoilt = { problems: [{ index: -1, code: 'too_many', allowed: 1 }], labels: ['db'] } as const;
  const spent = key('spent', { uses_left: 0 });
  const expired = key('expired', { expires_at: at });

  it.each([
    ['of a member', plain, mia(anyMember), [], 'made'],
    ['with labels of a member', marked, mia(anyMember), [], 'labels_by_owner'],
    ['with labels of an owner', marked, olga(anyMember), [], 'made, as owner'],
    ['with a bad list and labels of a member: the list comes first', spoilt, mia(anyMember), [], 'group_list_invalid'],
    ['beside as many as there may be', plain, mia(anyMember), [key('a'), key('b')], 'limit_reached'],
    ['that takes the place of one without uses', plain, mia(anyMember), [key('a'), spent], 'made, spent goes'],
    ['that takes the place of all that are over', plain, mia(anyMember), [expired, spent], 'made, expired, spent goes'],
    ['beside fewer than there may be: what is over stays', plain, mia(anyMember), [spent], 'made'],
  ] as const)('a key %s: %5$s', (_, asked, who, keys, result) => {
    const hold = () => holdNewKey(asked, who.caller, keys, { at: now, limit: 2 });
    const nameOf = (id: string): string => keys.find((one) => one.id === id)?.name ?? '';
    const outcome = outcomeOf(hold, ({ spent: gone, asOwner }) =>
      [
        'made',
        ...(asOwner ? ['as owner'] : []),
        ...(gone.length > 0 ? [`${gone.map(nameOf).join(', ')} goes`] : []),
      ].join(', '),
    );
    expect(outcome).toBe(result);
  });

  it('hold a group while they admit devices', () => {
    const security_groups = [groupId('web')];
    const keys = [
      key('holds', { security_groups }),
      key('other', { security_groups: [groupId('db')] }),
      key('none'),
      { ...spent, security_groups },
      { ...expired, security_groups },
    ];
    expect(holdingKeys(keys, groupId('web'), now).map(({ name }) => name)).toEqual(['holds']);
  });
});

describe('the settings of an organization', () => {
  const before = { name: 'acme', description: '', observe: 'counters' };
  it.each([
    ['nothing', {}, undefined],
    ['what they are', { name: 'acme', description: '' }, undefined],
    ['a name', { name: 'other' }, { ...before, name: 'other' }],
    ['what is not given, beside one that is', { name: undefined, observe: 'off' }, { ...before, observe: 'off' }],
  ] as const)('set to %s', (_, patch, after) => {
    expect(settled<typeof before>(before, patch)).toEqual(after);
  });
});
