/** Owns policy tests without a server: what they would be after `apply` of some files, from a snapshot of the organization or from the files alone. */
import type { Device } from '../../api/device.ts';
import type { PolicyTestResult } from '../../api/policy-tests/policy-test.ts';
import { printable } from '../../policy/names/printable.ts';
import { evaluateTests } from '../../organization/policy-test/evaluate.ts';
import { policiesOf } from '../../organization/device-policies.ts';
import { deviceChange, groupChange } from '../../organization/read-records.ts';
import { emptyOrganization, overlay, type Organization } from '../../organization/organization.ts';
import { NotUnderstood } from '../../policy/fleet/not-understood.ts';
import { peerNames } from '../group/peer-text.ts';
import { planPolicy, type CurrentPolicy } from '../policy/plan.ts';
import { plannedChange } from '../policy/planned-change.ts';
import { readPolicy } from '../policy/policy-file.ts';
import type { Session } from '../session/session.ts';
import { usageError } from '../terminal/exit.ts';
import { readInput, readOneInput, type InputDocument } from '../terminal/input-file.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { isUuid, parseDeviceId, parseGroupId, parseOrganizationId, parseUserId } from '../../policy/ids.ts';
import { isObject, type JsonObject } from '../../policy/json.ts';
import { readPolicyTests } from '../../policy/policy-test/read-tests.ts';
import { printAddress } from '../../policy/address.ts';
import { defaultInboundRules } from '../../policy/rule.ts';

export interface OfflineOptions {
  readonly file?: readonly string[];
  readonly snapshot?: string;
  readonly prune?: boolean;
}

/** The records as they would be, without what only the server can say of them. */
function recordsAfter(
  { groups, devices }: CurrentPolicy,
  change: ReturnType<typeof plannedChange>,
): { readonly groups: readonly object[]; readonly devices: readonly Device[] } {
  const gone = new Set<string>(change.delete);
  const patches = new Map((change.devices ?? []).map((device) => [device.id, device]));
  const written = new Map(
    (change.security_groups ?? []).flatMap((group) => (group.id === undefined ? [] : [[group.id, group]])),
  );
  const known = new Set<string>(groups.map(({ id }) => id));
  const made = (change.security_groups ?? []).filter(({ id }) => id === undefined || !known.has(id));
  return {
    groups: [
      ...groups.filter(({ id }) => !gone.has(id)).map((group) => ({ ...group, ...written.get(group.id) })),
      ...made.map((group) => ({ ...group, id: group.id ?? crypto.randomUUID() })),
    ],
    devices: devices.map((device) => ({ ...device, ...patches.get(device.id) }) as Device),
  };
}

function snapshotOf({ groups, devices }: ReturnType<typeof recordsAfter>, at: number): Organization {
  try {
    return overlay(emptyOrganization, [...groups.map(groupChange), ...devices.map(deviceChange)], { at });
  } catch (error) {
    if (!(error instanceof NotUnderstood)) throw error;
    throw usageError(`this version of ringfence does not understand the snapshot: ${error.message}`);
  }
}

/** Devices whose policy is not known: they list a group that the person who made the snapshot cannot see. */
function sayUnknown(session: Session, snapshot: Organization): void {
  const policies = policiesOf(snapshot);
  const unknown = [...snapshot.devices.values()].filter((device) => 'missing' in policies.ofDevice(device));
  if (unknown.length === 0) return;
  const names = unknown.slice(0, 8).map(({ hostname, id }) => hostname || id);
  const more = unknown.length > names.length ? ` and ${unknown.length - names.length} more` : '';
  session.say(
    `The policy of ${printable(names.join(', '))}${more} is not known: a group in the list of the device is not in the snapshot. The tests treat these devices as closed.`,
  );
}

/** Says what the result cannot know. */
function sayLimits(
  session: Session,
  { snapshot }: OfflineOptions,
  current: CurrentPolicy,
  age: string | undefined,
): void {
  if (snapshot !== undefined)
    return session.say(
      `Tested without a server, on the snapshot of ${age ?? 'an unknown time'}. Later changes on the server are not known.`,
    );
  const count = current.devices.length;
  return session.say(
    `Tested without a server, on ${count === 1 ? 'the 1 device' : `the ${count} devices`} that the files name. Rules by address match none of them, groups that only the server has are not known, and the default group is that of a new organization unless a file has it.`,
  );
}

/** The tests after `apply` of the files: those of the files, and those of the snapshot that stay. */
export async function testFiles(
  session: Session,
  files: readonly string[],
  options: OfflineOptions,
): Promise<readonly PolicyTestResult[]> {
  const inputs = await Promise.all(files.map((name) => readInput(name, session)));
  const documents = inputs.flatMap((input) => input.documents);
  const { at, ...current } =
    options.snapshot === undefined
      ? { ...policyInFiles(documents), at: undefined }
      : readSnapshot(await readOneInput(options.snapshot, session));
  const desired = readPolicy({ documents, faults: inputs.flatMap(({ faults }) => faults) }, peerNames(current.devices));
  const { steps } = planPolicy(desired, current, { prune: options.prune === true, now: Date.now() });
  const change = plannedChange(steps, current, undefined);
  const snapshot = snapshotOf(recordsAfter(current, change), Date.now());
  const tests = change.policy_tests ?? current.tests;
  sayUnknown(session, snapshot);
  sayLimits(session, options, current, at);
  const results = evaluateTests(snapshot, tests);
  return tests.map((test, index) => ({ ...test, ...(results[index] ?? { state: 'vacuous' }) }));
}

const isRecord = (value: unknown): value is JsonObject => isObject(value) && isUuid(value['id']);
const isGroup = (value: unknown): boolean => isRecord(value) && typeof value['group_name'] === 'string';
const isTexts = (value: unknown): boolean =>
  value === undefined || (Array.isArray(value) && value.every((one) => typeof one === 'string'));
const isDevice = (value: unknown): boolean =>
  isRecord(value) &&
  ['hostname', 'public_key', 'tunnel_ip', 'user_id'].every((name) => typeof value[name] === 'string') &&
  ['labels', 'addresses', 'security_groups'].every((name) => isTexts(value[name]));

function listIn(
  value: JsonObject,
  name: string,
  isEntry: (entry: unknown) => boolean,
  file: string,
): readonly unknown[] {
  const list = value[name];
  if (Array.isArray(list) && list.every(isEntry)) return list as unknown[];
  throw usageError(
    `${file} is not a snapshot: \`${name}\` is not a list of records; write it with \`ringfence export --snapshot\``,
  );
}

interface ReadSnapshot extends CurrentPolicy {
  /** When it was made. */
  readonly at: string | undefined;
}

/** Records are taken as the server wrote them; what decides verdicts in them is judged by the policy core. */
function readSnapshot({ value, file }: Pick<InputDocument, 'value' | 'file'>): ReadSnapshot {
  if (!isObject(value) || value['snapshot'] !== 1)
    throw usageError(`${file} is not a snapshot: write it with \`ringfence export --snapshot\``);
  const { tests, problems } = readPolicyTests(value['policy_tests']);
  if (problems.length > 0)
    throw usageError(`${file} is not a snapshot: ${problems.map(({ detail }) => detail).join(' ')}`);
  return {
    groups: listIn(value, 'security_groups', isGroup, file) as readonly SecurityGroup[],
    devices: listIn(value, 'devices', isDevice, file) as readonly Device[],
    tests,
    me: typeof value['user_id'] === 'string' ? value['user_id'] : '',
    at: typeof value['at'] === 'string' ? value['at'] : undefined,
  };
}

const nobody = '00000000-0000-4000-8000-000000000000';
const times = { created_at: '1970-01-01T00:00:00.000Z', updated_at: '1970-01-01T00:00:00.000Z' };

/** An address that nobody can have and no sensible rule names: reserved for ever (240.0.0.0/4). */
const standIn = (host: number): string => printAddress(4, (240n << 24n) + BigInt(host));

function standInDevice(id: string, hostname: string, place: number): Device {
  return {
    id: parseDeviceId(id),
    user_id: parseUserId(nobody),
    organization_id: parseOrganizationId(nobody),
    public_key: '',
    local_ip: '',
    tunnel_ip: standIn(place + 1),
    child_prefix: null,
    relay: false,
    discovery: false,
    reflexive_ip4: '',
    endpoint_local_address_ip4: '',
    symmetric_nat: false,
    hostname,
    revision: 1,
    ...times,
  };
}

/** Each device once, however many files name it; what is wrong with an entry is found by whoever reads it. */
function devicesIn(documents: readonly Pick<InputDocument, 'value'>[]): readonly Device[] {
  const named = new Map<string, { readonly id: string; readonly hostname: string }>();
  for (const { value } of documents) {
    const entries = isObject(value) && Array.isArray(value['devices']) ? (value['devices'] as unknown[]) : [];
    for (const entry of entries) {
      if (!isObject(entry)) continue;
      const { id, device = id } = entry;
      if (typeof device !== 'string' || device === '') continue;
      const known = isUuid(id) ? id : isUuid(device) ? device : undefined;
      named.set(known ?? device, { id: (known ?? crypto.randomUUID()).toLowerCase(), hostname: device });
    }
  }
  return [...named.values()].map(({ id, hostname }, place) => standInDevice(id, hostname, place));
}

/** The default group as a new organization has it. */
const newDefaultGroup = (): SecurityGroup => ({
  id: parseGroupId(crypto.randomUUID()),
  org_id: parseOrganizationId(nobody),
  is_default: true,
  group_name: 'default',
  group_description: '',
  inbound_rules: [...defaultInboundRules],
  revision: 1,
  ...times,
});

const policyInFiles = (documents: readonly Pick<InputDocument, 'value'>[]): CurrentPolicy => ({
  groups: [newDefaultGroup()],
  devices: devicesIn(documents),
  tests: [],
  me: nobody,
});
