/** Owns an organization in memory for tests of decisions, written down in short words: `group('web', {…})`, `device('d1', { list: ['web'] })`. */
import { parseDeviceId, parseGroupId, parseOrganizationId, parseTrialId, parseUserId } from '../../policy/ids.ts';
import type { DeviceId, GroupId, UserId } from '../../policy/ids.ts';
import type { Peer, Selector, StoredRule } from '../../policy/rule.ts';
import { emptyOrganization, overlay, type Organization } from '../organization.ts';
import { deviceChange, groupChange } from '../read-records.ts';
import { rightRoles, type Caller, type Writer } from './caller.ts';
import type { Deciding, DecisionLimits } from './decision.ts';
import type { DeviceContent, DeviceFields, Draft, GroupContent, RecordState, RecordTrial } from './records.ts';
import { Refused, type Refusal } from './refusal.ts';

/** The same word is always the same id. */
export function idOf(word: string): string {
  let hash = 7n;
  for (const letter of word) hash = (hash * 131n + BigInt(letter.codePointAt(0) ?? 0)) % 0xffffffffffffn;
  return `00000000-0000-4000-8000-${hash.toString(16).padStart(12, '0')}`;
}
export const groupId = (word: string): GroupId => parseGroupId(idOf(word));
export const deviceId = (word: string): DeviceId => parseDeviceId(idOf(word));
export const userId = (word: string): UserId => parseUserId(idOf(word));
const org = parseOrganizationId(idOf('organization'));
export const at = '2026-06-01T12:00:00.000Z';
const earlier = '2026-01-01T00:00:00.000Z';

type TrialOf<Before> = RecordTrial<NonNullable<Before>> & { readonly before: Before };
export const trial = <Before>(before: Before, scope?: readonly Selector[], name = 'trial'): TrialOf<Before> =>
  ({
    id: parseTrialId(idOf(name)),
    started_at: earlier,
    ends_at: '2026-06-01T13:00:00.000Z',
    by: userId('mia'),
    ...(scope && { scope }),
    before,
  }) as TrialOf<Before>;

/** So many ranges of one rule. */
export const ranges = (count: number): StoredRule => ({
  ip_protocol: 'tcp',
  from_port: 22,
  to_port: 22,
  ip_ranges: Array.from({ length: count }, (_, n) => `10.${n >> 8}.${n & 255}.0/24`),
});
export const naming = (...peers: readonly Peer[]): StoredRule => ({
  ip_protocol: 'tcp',
  from_port: 22,
  to_port: 22,
  peers,
});

export const labels = (...some: readonly string[]): readonly Selector[] => [{ labels: some }];

type GroupWords = Partial<Omit<GroupContent, 'user_id'>> & { readonly of?: string };
export const group = (word: string, { of, ...more }: GroupWords = {}): GroupContent => ({
  id: groupId(word),
  group_name: word,
  group_description: '',
  org_id: org,
  ...(of !== undefined && { user_id: userId(of) }),
  ...more,
  created_at: earlier,
  updated_at: earlier,
});

export const fields = (word: string, more: Partial<DeviceFields> = {}): DeviceFields => ({
  public_key: `key of ${word}`,
  local_ip: '',
  tunnel_ip: '100.64.0.1/32',
  child_prefix: null,
  relay: false,
  discovery: false,
  reflexive_ip4: '',
  endpoint_local_address_ip4: '',
  symmetric_nat: false,
  hostname: word,
  addresses: [],
  labels: [],
  ...more,
});

type DeviceWords = Partial<Omit<DeviceContent, 'user_id' | 'security_groups'>> & {
  readonly of?: string;
  readonly list?: readonly string[];
};
export function device(word: string, { of = 'mia', list = [], ...more }: DeviceWords = {}): DeviceContent {
  const { addresses: _addresses, labels: _labels, ...rest } = fields(word);
  return {
    ...rest,
    id: deviceId(word),
    user_id: userId(of),
    organization_id: org,
    ...(list.length > 0 && { security_groups: list.map(groupId) }),
    ...more,
    created_at: earlier,
    updated_at: earlier,
  };
}

class State<Content extends { readonly id: string; readonly user_id?: string | undefined }> {
  readonly id: string;
  readonly revision: number;
  readonly body: string;
  readonly record: Content;
  readonly owner: string | null;
  constructor(record: Content, revision: number) {
    this.id = record.id;
    this.revision = revision;
    this.body = JSON.stringify(record).slice(0, -1);
    this.record = record;
    this.owner = record.user_id ?? null;
  }
}

/** Every record that it begins with has revision 5. */
export class DraftInMemory implements Draft {
  readonly #groups: Map<string, RecordState<GroupContent>>;
  readonly #devices: Map<string, RecordState<DeviceContent>>;
  #revision = 5;

  constructor(groups: readonly GroupContent[], devices: readonly DeviceContent[]) {
    this.#groups = new Map(groups.map((one) => [one.id, new State(one, 5)]));
    this.#devices = new Map(devices.map((one) => [one.id, new State(one, 5)]));
  }

  group(id: string): RecordState<GroupContent> | undefined {
    return this.#groups.get(id);
  }
  device(id: string): RecordState<DeviceContent> | undefined {
    return this.#devices.get(id);
  }
  hasKey(publicKey: string, except?: string): boolean {
    return [...this.#devices.values()].some(({ id, record }) => id !== except && record.public_key === publicKey);
  }
  countOf(what: 'devices' | 'groups'): number {
    return what === 'devices' ? this.#devices.size : this.#groups.size;
  }
  putGroup(record: GroupContent): RecordState<GroupContent> {
    const state = new State(record, (this.#revision += 1));
    this.#groups.set(record.id, state);
    return state;
  }
  putDevice(record: DeviceContent): RecordState<DeviceContent> {
    const state = new State(record, (this.#revision += 1));
    this.#devices.set(record.id, state);
    return state;
  }
  /** A field of a later version is called `later`. */
  isKnown(_what: 'device' | 'group', record: object): boolean {
    return !('later' in record);
  }
  /** As readers see it. */
  get organization(): Organization {
    const changes = [
      ...[...this.#groups.values()].map(({ record, revision }) => groupChange({ ...record, revision })),
      ...[...this.#devices.values()].map(({ record, revision }) => deviceChange({ ...record, revision })),
    ];
    return overlay(emptyOrganization, changes, { revision: this.#revision, at: Date.parse(at) });
  }
}

const limits: DecisionLimits = { groups: 8, devices: 8, group_ranges: 10, device_ranges: 20 };

export type Role = keyof typeof rightRoles;

/** Somebody who writes: the name, the roles that the right of the operation admits, and what holds of the person now. */
export interface Somebody {
  readonly name: string;
  readonly right: readonly Role[];
  readonly caller: Caller;
}
export const somebody = (
  name: string,
  role: Caller['role'],
  right: readonly Role[],
  more: Partial<Caller> = {},
): Somebody => ({
  name,
  right,
  caller: {
    has_ended: false,
    role,
    is_pending: role === 'owner' ? false : null,
    is_administrator: false,
    is_member: true,
    forbids: false,
    ...more,
  },
});

const writerOf = ({ name, right }: Pick<Somebody, 'name' | 'right'>): Writer => ({
  user_id: userId(name),
  right: { roles: right.reduce((bits, role) => bits | rightRoles[role], 0) },
});

export const deciding = (records: Draft, who: Somebody, quotas: Partial<DecisionLimits> = {}): Deciding => ({
  context: { quotas: { ...limits, ...quotas } },
  org,
  records,
  caller: who.caller,
  by: writerOf(who),
  at,
});

/** What became of a decision in a word: the code of its refusal, or what `done` says. */
export function outcomeOf<T>(decide: () => T, done: (value: T) => string): string {
  try {
    return done(decide());
  } catch (error) {
    if (error instanceof Refused) return (error as Refused<Refusal>).code;
    throw error;
  }
}

/** Runs work that pauses to its end. */
export function finish<T>(steps: Generator<void, T>): T {
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}
