/**
 * Owns the reading of a change set's body: the records that it names and their fields. It reports all problems at once,
 * with pointers into the body.
 */
import type { RequestProblem } from '../../../api/codes.ts';
import type { Device, UpdateDevice } from '../../../api/device.ts';
import { deviceProblems, normalAddresses, normalLabels } from '../../../api/device-body.ts';
import type { SecurityGroup } from '../../../api/group.ts';
import { limits as wireLimits } from '../../../api/limits.ts';
import type { TextLengths } from '../../../api/validate.ts';
import { readGroup, type GroupInput } from '../../../policy/group.ts';
import {
  isUuid,
  isVersionedUuid,
  parseDeviceId,
  parseGroupId,
  parseUserId,
  type DeviceId,
  type GroupId,
  type UserId,
} from '../../../policy/ids.ts';
import { field, isObject, type JsonObject } from '../../../policy/json.ts';
import type { Limits } from '../../../policy/limits.ts';
import type { PolicyTest } from '../../../policy/policy-test/policy-test.ts';
import { readPolicyTests } from '../../../policy/policy-test/read-tests.ts';
import { at, Problems, show, type Found } from '../../../policy/problem.ts';

type Code = RequestProblem['code'];

const lists = ['security_groups', 'devices', 'delete'] as const;
export type ChangeList = (typeof lists)[number];

/** The ids that a body names, in lower case; those of a list in no order. */
export interface NamedRecords {
  readonly groups: readonly GroupId[];
  readonly devices: readonly DeviceId[];
  /** The ids of groups or devices. */
  readonly deletes: readonly string[];
}

/** The records of the organization that the body names and that the caller may see, by id. */
export interface KnownRecords {
  readonly groups: ReadonlyMap<string, SecurityGroup>;
  readonly devices: ReadonlyMap<string, Device>;
}

interface Entry {
  /** Names of the fields that the entry gives. */
  readonly fields: readonly string[];
  /** The revision that the record must have. */
  readonly if_match?: number | undefined;
}
export type GroupEntry =
  | (Entry & {
      readonly type: 'create';
      /** Set when the body chooses it. */
      readonly id: GroupId | undefined;
      readonly user_id: UserId | undefined;
      readonly group: GroupInput;
    })
  | (Entry & {
      readonly type: 'update';
      readonly id: GroupId;
      readonly group: GroupInput;
      readonly now: SecurityGroup;
    });
export type DevicePatch = Omit<UpdateDevice, 'organization_id' | 'user_id' | 'security_groups'> & {
  readonly security_groups?: readonly GroupId[];
};
export interface DeviceEntry extends Entry {
  readonly id: DeviceId;
  readonly patch: DevicePatch;
  readonly now: Device;
}
export type DeleteEntry =
  | { readonly kind: 'security-groups'; readonly id: GroupId }
  | { readonly kind: 'device'; readonly id: DeviceId };

/** The content of a body. Each list is in the order of the body. */
export interface ChangeBody {
  readonly groups: readonly GroupEntry[];
  readonly devices: readonly DeviceEntry[];
  readonly deletes: readonly DeleteEntry[];
  /** The tests that replace the stored ones; absent: those stay. */
  readonly policyTests?: readonly PolicyTest[];
  /** The revision that the stored tests must have. */
  readonly policyTestsRevision?: number;
}

export interface ReadChangesOptions {
  readonly organization: string;
  readonly caller: UserId;
  readonly limits: Limits;
  readonly lengths: TextLengths;
  /** Whether the organization has this device, for the peers of rules. Absent: peers are not checked. */
  readonly knowsDevice?: (id: string) => boolean;
  /** When it is written, in milliseconds since the epoch: rules must not have expired by then. */
  readonly now: number;
}

const listOf = (body: unknown, name: ChangeList): readonly unknown[] => {
  const value = isObject(body) ? field(body, name) : undefined;
  return Array.isArray(value) ? (value as unknown[]) : [];
};

const idOf = (entry: unknown): string | undefined => {
  const id = isObject(entry) ? field(entry, 'id') : undefined;
  return isUuid(id) ? id.toLowerCase() : undefined;
};

/** Problems of the body as a whole, independent of its entries. */
export function shapeProblems(body: unknown): Found<RequestProblem> {
  const problems = new Problems<Code>();
  if (!isObject(body)) {
    problems.add('', 'not_an_object', () => `The body must be an object, got ${show(body)}.`);
    return problems;
  }
  let count = 0;
  for (const name of Object.keys(body)) {
    const known = lists.find((list) => list === name);
    const value = field(body, name);
    // Tests are not records. The function that reads the body reports their problems.
    if (name === 'policy_tests' || name === 'policy_tests_revision') continue;
    if (known === undefined) problems.add(at('', name), 'unknown_field', () => `${name} does not exist here.`);
    else if (!Array.isArray(value)) problems.add(at('', name), 'not_an_array', () => `${name} must be an array.`);
    else count += value.length;
  }
  if (count === 0 && problems.count === 0 && field(body, 'policy_tests') === undefined)
    problems.add('', 'too_few_items', () => `A change set needs at least one record in ${lists.join(', ')}.`);
  if (count > wireLimits.changeSetRecords) {
    const most = wireLimits.changeSetRecords;
    problems.add('', 'too_many_items', () => `A change set may have at most ${most} records; this one has ${count}.`);
  }
  return problems;
}

/** The records that a body of the right shape names. */
export function namedIn(body: unknown): NamedRecords {
  const ids = (name: ChangeList): string[] => listOf(body, name).flatMap((entry) => idOf(entry) ?? []);
  return {
    groups: ids('security_groups').map(parseGroupId),
    devices: ids('devices').map(parseDeviceId),
    deletes: listOf(body, 'delete').flatMap((id) => (isUuid(id) ? id.toLowerCase() : [])),
  };
}

/** Fields that an entry may repeat from the record, but not contradict. */
const repeatedFields = {
  group: ['created_at', 'updated_at', 'trial'],
  device: ['created_at', 'updated_at', 'trial', 'isolated'],
};

/** The same for values that differ only in the order of their fields. */
const isSame = (a: unknown, b: unknown): boolean =>
  isObject(a) && isObject(b)
    ? Object.keys(a).length === Object.keys(b).length &&
      Object.keys(a).every((name) => isSame(field(a, name), field(b, name)))
    : Array.isArray(a) && Array.isArray(b)
      ? a.length === b.length && a.every((one, index) => isSame(one, b[index]))
      : a === b;

class Reading {
  readonly problems = new Problems<Code>();
  readonly #seen = new Map<string, string>();
  readonly #known: KnownRecords;
  readonly #o: ReadChangesOptions;

  constructor(known: KnownRecords, options: ReadChangesOptions) {
    this.#known = known;
    this.#o = options;
  }

  group(entry: unknown, here: string): GroupEntry | undefined {
    if (!this.#isObject(entry, here)) return undefined;
    const {
      id,
      user_id,
      is_default,
      revision: _revision,
      created_at: _made,
      updated_at: _at,
      trial: _trial,
      ...said
    } = entry;
    if (id !== undefined && !this.#isId(id, at(here, 'id'))) return undefined;
    if (id !== undefined && !this.#isFirst(id, at(here, 'id'))) return undefined;
    const now = id === undefined ? undefined : this.#known.groups.get(id.toLowerCase());
    if (id !== undefined && now === undefined && !this.#isNewId(id, at(here, 'id'))) return undefined;
    const if_match = this.#repeated('group', entry, now, here);
    if (is_default !== undefined && is_default !== (now?.is_default ?? false))
      this.#add(at(here, 'is_default'), 'contradiction', 'Which group is the default group cannot be changed.');
    const owner = this.#owner(user_id, now, at(here, 'user_id'));
    const { limits, organization: org_id, knowsDevice, now: writtenAt } = this.#o;
    const { group, ...found } = readGroup(said, {
      mode: now === undefined ? 'create' : 'update',
      org_id,
      limits,
      now: writtenAt,
      ...(now !== undefined && {
        stored: {
          inbound_rules: now.inbound_rules ?? [],
          outbound_rules: now.outbound_rules ?? [],
          applies_to: now.applies_to,
          guardrail: now.guardrail,
        },
      }),
      ...(knowsDevice !== undefined && { knowsDevice }),
    });
    this.#join(found, here);
    const fields = Object.keys(said).toSorted();
    return now === undefined
      ? { type: 'create', id: id === undefined ? undefined : parseGroupId(id), user_id: owner, group, fields }
      : { type: 'update', id: now.id, group, now, fields, if_match };
  }

  device(entry: unknown, here: string): DeviceEntry | undefined {
    if (!this.#isObject(entry, here)) return undefined;
    const {
      id,
      revision: _revision,
      created_at: _made,
      updated_at: _at,
      trial: _trial,
      isolated: _isolated,
      ...said
    } = entry;
    if (id === undefined) {
      this.#add(
        at(here, 'id'),
        'missing_field',
        'A change set changes devices and creates none: the entry needs an id.',
      );
      return undefined;
    }
    if (!this.#isId(id, at(here, 'id')) || !this.#isFirst(id, at(here, 'id'))) return undefined;
    const now = this.#known.devices.get(id.toLowerCase());
    if (now === undefined) {
      this.#add(at(here, 'id'), 'device_unknown', `The organization has no device ${id}.`);
      return undefined;
    }
    const if_match = this.#repeated('device', entry, now, here);
    const { organization: organization_id, lengths } = this.#o;
    const found = deviceProblems(said, { mode: 'update', organization_id, user_id: now.user_id, lengths });
    this.#join(found, here);
    if (found.problems.length > 0) return undefined;
    const {
      organization_id: _org,
      user_id: _user,
      security_groups,
      addresses,
      labels,
      ...rest
    } = said as unknown as UpdateDevice;
    const patch: DevicePatch = {
      ...rest,
      ...(addresses === undefined ? {} : { addresses: normalAddresses(addresses) }),
      ...(labels === undefined ? {} : { labels: normalLabels(labels) }),
      ...(security_groups === undefined ? {} : { security_groups: security_groups.map(parseGroupId) }),
    };
    return { id: now.id, patch, now, fields: Object.keys(said).toSorted(), if_match };
  }

  deletion(id: unknown, here: string): DeleteEntry | undefined {
    if (!this.#isId(id, here) || !this.#isFirst(id, here)) return undefined;
    const group = this.#known.groups.get(id.toLowerCase());
    const device = this.#known.devices.get(id.toLowerCase());
    if (group !== undefined && device !== undefined)
      this.#add(here, 'duplicate', `${id} is the id of a group and of a device. Delete it with a request of its own.`);
    else if (group?.is_default === true)
      this.#add(here, 'default_group', 'A change set cannot delete the default group. Change its rules instead.');
    else if (group !== undefined) return { kind: 'security-groups', id: group.id };
    else if (device !== undefined) return { kind: 'device', id: device.id };
    else this.#add(here, 'unknown_record', `The organization has no group or device ${id}.`);
    return undefined;
  }

  policyTests(value: unknown): readonly PolicyTest[] | undefined {
    if (value === undefined) return undefined;
    const { tests, ...found } = readPolicyTests(value, '/policy_tests');
    this.#join(found, '');
    return tests;
  }

  policyTestsRevision(body: JsonObject): number | undefined {
    const revision = this.#revisionIn(body, 'policy_tests_revision', '');
    if (revision !== undefined && field(body, 'policy_tests') === undefined)
      this.#add('/policy_tests_revision', 'contradiction', 'policy_tests_revision needs policy_tests.');
    return revision;
  }

  #add(pointer: string, code: Code, detail: string): void {
    this.problems.add(pointer, code, () => detail);
  }

  #join({ problems, more }: Found<RequestProblem>, here: string): void {
    for (const { pointer, code, detail } of problems) this.#add(`${here}${pointer}`, code, detail);
    this.problems.more += more;
  }

  #isObject(entry: unknown, here: string): entry is JsonObject {
    if (!isObject(entry)) this.#add(here, 'not_an_object', `The entry must be an object, got ${show(entry)}.`);
    return isObject(entry);
  }

  #isId(id: unknown, here: string): id is string {
    if (!isUuid(id)) this.#add(here, 'not_an_id', `The value must be a UUID, got ${show(id)}.`);
    return isUuid(id);
  }

  #isNewId(id: string, here: string): boolean {
    const isNew = isVersionedUuid(id);
    if (!isNew)
      this.#add(
        here,
        'not_an_id',
        `A new group needs a UUID of version 1 to 8 (RFC 9562) that the program does not use for itself, got ${show(id)}.`,
      );
    return isNew;
  }

  /** A record may be in one entry only. Two entries would need an order. */
  #isFirst(id: string, here: string): boolean {
    const first = this.#seen.get(id.toLowerCase());
    if (first !== undefined) this.#add(here, 'duplicate', `${id} is already named at ${first}.`);
    else this.#seen.set(id.toLowerCase(), here);
    return first === undefined;
  }

  #owner(said: unknown, now: SecurityGroup | undefined, here: string): UserId | undefined {
    if (said === undefined) return undefined;
    if (!this.#isId(said, here)) return undefined;
    const expected = now === undefined ? this.#o.caller : now.user_id;
    if (said.toLowerCase() === expected) return parseUserId(said);
    const detail =
      now === undefined
        ? 'A new group belongs to the organization or to you.'
        : 'The owner of a group cannot be changed.';
    this.#add(here, 'contradiction', detail);
    return undefined;
  }

  /** Checks the fields that the entry repeats from the record; returns the revision that it expects. */
  #repeated(
    kind: 'group' | 'device',
    entry: JsonObject,
    now: SecurityGroup | Device | undefined,
    here: string,
  ): number | undefined {
    for (const name of repeatedFields[kind]) {
      const said = field(entry, name);
      if (said !== undefined && !isSame(said, now && field(now, name)))
        this.#add(at(here, name), 'contradiction', `${name} is set by the server and cannot be changed.`);
    }
    const revision = this.#revisionIn(entry, 'revision', here);
    if (revision === undefined || now !== undefined) return revision;
    this.#add(at(here, 'revision'), 'contradiction', 'A group that does not exist has no revision.');
    return undefined;
  }

  #revisionIn(entry: JsonObject, name: string, here: string): number | undefined {
    const revision = field(entry, name);
    if (revision === undefined) return undefined;
    if (typeof revision === 'number' && Number.isSafeInteger(revision) && revision >= 0) return revision;
    this.#add(at(here, name), 'not_an_integer', `${name} must be a whole number, got ${show(revision)}.`);
    return undefined;
  }
}

/** All problems of a well-formed body, or its content if there are none. */
export function readChanges(
  body: unknown,
  known: KnownRecords,
  options: ReadChangesOptions,
): Found<RequestProblem> & { readonly changes: ChangeBody } {
  const reading = new Reading(known, options);
  const groups = listOf(body, 'security_groups').flatMap(
    (entry, i) => reading.group(entry, `/security_groups/${i}`) ?? [],
  );
  const devices = listOf(body, 'devices').flatMap((entry, i) => reading.device(entry, `/devices/${i}`) ?? []);
  const deletes = listOf(body, 'delete').flatMap((id, i) => reading.deletion(id, `/delete/${i}`) ?? []);
  const policyTests = reading.policyTests(isObject(body) ? field(body, 'policy_tests') : undefined);
  const policyTestsRevision = isObject(body) ? reading.policyTestsRevision(body) : undefined;
  const { problems, more } = reading.problems;
  const tests = {
    ...(policyTests && { policyTests }),
    ...(policyTestsRevision !== undefined && { policyTestsRevision }),
  };
  return { problems, more, changes: { groups, devices, deletes, ...tests } };
}
