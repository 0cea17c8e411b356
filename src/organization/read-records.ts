/** Owns the step from API records of devices and groups to the model of an organization. */
import { readGroupRecord } from '../policy/fleet/group-record.ts';
import type { IdentityRecord } from '../policy/fleet/identity.ts';
import { parseDeviceId, parseGroupId, type GroupId } from '../policy/ids.ts';
import { Problems } from '../policy/problem.ts';
import type { GuardrailKind, PolicyGroup, Selector, StoredRule, Trial } from '../policy/rule.ts';
import { readListTrial } from '../policy/trial/read-trial.ts';
import { GroupRules, type RuleFields } from './group-rules.ts';
import { keepForNow } from './recently-read.ts';
import type { GroupState, OrganizationChange, OrganizationDevice, OrganizationGroup } from './organization.ts';
import { readIdentity } from './unclear-isolation.ts';

/** A device's record, as far as a model needs it. */
export interface DevicePolicyFields extends IdentityRecord {
  readonly revision?: number;
  readonly hostname?: string;
  readonly security_groups?: readonly string[];
  readonly trial?: unknown;
}

function deviceOf(record: DevicePolicyFields): OrganizationDevice {
  const trial = readListTrial(record.trial, new Problems());
  return {
    id: parseDeviceId(record.id),
    revision: record.revision,
    hostname: record.hostname ?? '',
    list: (record.security_groups ?? []).map(parseGroupId),
    ...(trial && { trial }),
    identity: readIdentity(record),
  };
}

/** The fields of a group's record, or of its state before a trial, from which one sees who has it and what rules. */
interface StateFields extends RuleFields {
  readonly group_name?: string;
  readonly applies_to?: readonly Selector[];
  readonly mode?: string;
}

interface GroupFields extends StateFields {
  readonly id: string;
  readonly revision?: number;
  readonly user_id?: unknown;
  readonly is_default?: unknown;
  readonly guardrail?: string;
  readonly trial?: Trial<StateFields>;
}

const stateOf = (
  fields: StateFields,
  again?: () => StateFields,
): Pick<GroupState, 'name' | 'appliesTo' | 'mode' | 'rules'> => ({
  name: fields.group_name ?? '',
  appliesTo: fields.applies_to ?? [],
  mode: fields.mode === 'observe' ? 'observe' : 'enforce',
  rules: new GroupRules(fields, again),
});

function selectableOf(id: GroupId, record: GroupFields, again?: () => GroupFields): GroupState {
  const { guardrail, trial } = record;
  const before = again && ((): StateFields => again().trial?.before ?? {});
  return {
    id,
    ...stateOf(record, again),
    ...(guardrail !== undefined && { guardrail: guardrail as GuardrailKind }),
    ...(trial && { trial: { ...trial, before: trial.before && stateOf(trial.before, before) } }),
  };
}

/** A peer counts as one range: its addresses come from the fleet, and the agent keeps them in a separate set. */
export const countNamed = (rules: readonly StoredRule[]): number =>
  rules.reduce((sum, { ip_ranges = [], peers = [] }) => sum + ip_ranges.length + peers.length, 0);

/** A record whose text is not held in memory. */
export interface LargeRecord {
  readonly again: () => string;
  /** Characters. */
  readonly size: number;
}

const readAgain = ({ again }: LargeRecord): GroupFields => JSON.parse(again()) as GroupFields;

/**
 * A group as its record says. The record is the server's own and was judged when it was written, so who has it is read at once. Its rules are read when
 * they are asked for: a record with fields of a later version keeps nobody from writing others.
 */
class GroupOfRecord implements OrganizationGroup {
  readonly id: GroupId;
  readonly revision: number | undefined;
  readonly selectable: GroupState;
  readonly isDefault: boolean;
  readonly user_id: string | undefined;
  readonly ranges: number;
  readonly size: number | undefined;
  readonly #record: GroupFields | LargeRecord;
  #group: { deref(): PolicyGroup | undefined } | undefined;

  constructor(record: GroupFields, large?: LargeRecord) {
    const { inbound_rules = [], outbound_rules = [], user_id, is_default, revision } = record;
    this.id = parseGroupId(record.id);
    this.revision = revision;
    this.selectable = selectableOf(this.id, record, large && ((): GroupFields => readAgain(large)));
    this.isDefault = is_default === true;
    this.user_id = typeof user_id === 'string' ? user_id : undefined;
    this.ranges = countNamed(inbound_rules) + countNamed(outbound_rules);
    this.size = large?.size;
    this.#record = large ?? record;
  }

  get group(): PolicyGroup {
    const group = this.#group?.deref() ?? this.#read();
    if ('again' in this.#record) keepForNow(this, group, this.#record.size);
    return group;
  }

  #read(): PolicyGroup {
    const isLarge = 'again' in this.#record;
    const group = readGroupRecord('again' in this.#record ? readAgain(this.#record) : this.#record);
    this.#group = isLarge ? new WeakRef(group) : { deref: () => group };
    return group;
  }
}

export const deviceChange = (record: DevicePolicyFields): OrganizationChange => {
  const device = deviceOf(record);
  return { kind: 'device', id: device.id, device };
};

export const groupChange = (record: object): OrganizationChange => {
  const group = new GroupOfRecord(record as GroupFields);
  return { kind: 'group', id: group.id, group };
};

/**
 * What an entry of the log makes of an organization: the record as JSON text, or undefined where it was deleted. A group that is large in this sense keeps
 * only what decides who has it; its rules are read again where they are asked for.
 */
export function loggedChange(
  kind: 'device' | 'security-groups',
  id: string,
  json: string | undefined,
  large?: LargeRecord,
): OrganizationChange {
  if (kind === 'device') {
    if (json === undefined) return { kind: 'device', id: parseDeviceId(id), device: undefined };
    return deviceChange(JSON.parse(json) as DevicePolicyFields);
  }
  if (json === undefined) return { kind: 'group', id: parseGroupId(id), group: undefined };
  const group = new GroupOfRecord(JSON.parse(json) as GroupFields, large);
  return { kind: 'group', id: group.id, group };
}
