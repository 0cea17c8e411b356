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
import { readInput, readOneInput } from '../terminal/input-file.ts';
import { policyInFiles } from './files-alone.ts';
import { readSnapshot } from './read-snapshot.ts';

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
