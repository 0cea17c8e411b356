/**
 * Owns the content of evidence about a device: it reads the history, walks through the span, and puts together what is known and what is not
 * (docs/decisions/audit-and-evidence.md).
 */
import type {
  EvidenceCause,
  EvidenceDevice,
  EvidenceDocument,
  EvidenceState,
  EvidenceWrite,
} from '../../api/evidence/document.ts';
import { evidenceFormat } from '../../api/evidence/document.ts';
import { limits } from '../../api/limits.ts';
import { mostTold } from '../../policy/difference/policy-difference.ts';
import { parseDeviceId, parseGroupId, type DeviceId, type OrganizationId, type UserId } from '../../policy/ids.ts';
import { policyIn } from '../../organization/reach/device-reach.ts';
import { largeGroups, readLarge } from '../../organization/large-groups.ts';
import { deviceChange } from '../../organization/read-records.ts';
import {
  emptyOrganization,
  overlay,
  type Organization,
  type OrganizationChange,
} from '../../organization/organization.ts';
import type { Convergence } from '../convergence/contract.ts';
import type { SlicedWork } from '../scheduling/time-slices.ts';
import type { State, WrittenState } from '../store/data/history.ts';
import type { DevicePolicyRecord, GroupRecord } from '../store/data/records.ts';
import type { Store } from '../store/open.ts';
import { changedFields } from './changed-fields.ts';
import { DeviceStates, type DeviceState, type Step } from './device-states.ts';
import { FileRoom, largestFile, TooMuchEvidence } from './file-room.ts';
import { unknownsOf } from './not-known.ts';
import { inForceOf, samplesOf, testsOf, trafficOf, type ObservedSpan } from './observed.ts';
import { farEndsOf, inForceOnAllAt, othersOf, readReports, Receipts } from './receipts.ts';
import { NamedRules, writeOf } from './rule-writers.ts';
import { ownRuleKeys, stateParts, type StateParts } from './state-document.ts';

export interface EvidenceQuestion extends ObservedSpan {
  /** Whether a span was asked for, and not a moment. */
  readonly isSpan: boolean;
  readonly by: { readonly user_id: UserId; readonly username: string };
}

export interface EvidenceServices {
  readonly store: Store;
  readonly convergence: Convergence;
  readonly present: (org: OrganizationId) => Promise<Organization>;
  readonly slices: SlicedWork;
  readonly clock: () => number;
  readonly version: string;
}

/** Writes in the span that are looked at, and states that are told. */
const mostWrites = 2_000;
/** Characters of all these writes together. */
const mostWritten = 4 * limits.answer;
const mostStates = 200;
const devicesAtOnce = 500;
/** Each may have megabytes. */
const groupsAtOnce = 16;
/** And of at most so many bytes, and one. */
const bytes = 1024 * 1024;

/** Undefined where the device never was in the span. Throws `TooMuchEvidence` as soon as the file would be too large. */
export async function collectEvidence(
  question: EvidenceQuestion,
  services: EvidenceServices,
): Promise<EvidenceDocument | undefined> {
  const { org, device, at, to } = question;
  const { store, slices, clock } = services;
  const [first, last] = await Promise.all([
    store.history.revisionAt(org, new Date(at)),
    store.history.revisionAt(org, new Date(to)),
  ]);
  const snapshot = await readSnapshot(question, first, services);
  const writes = await readWrites(org, { after: first, through: last }, store.history);
  const audit = new AuditedWrites(await store.evidence.audited(org, writes));
  const room = new FileRoom(largestFile);
  const rules = new NamedRules(room);
  // The file names each of the device's rules: where they alone are too many, nothing else is worked out.
  rules.begin(first);
  await slices.run(readLarge(await slices.run(largeGroups(snapshot))));
  const policy = policyIn(snapshot, device);
  for (const direction of ['inbound', 'outbound'] as const)
    await slices.run(ownRuleKeys(policy, direction, { snapshot, rules }));
  const states: (StateParts & Pick<DeviceState, 'writes' | 'snapshot'>)[] = [];
  // A file holds half of an answer.
  const sets = { left: mostTold / 2 };
  for await (const state of new DeviceStates(device, snapshot, slices).walk(audit.steps(writes), to)) {
    if (states.length === mostStates) throw new TooMuchEvidence();
    const parts = await slices.run(stateParts(device, state, { rules, room, sets }));
    states.push({ ...parts, writes: state.writes, snapshot: state.snapshot });
  }
  const latest = states.findLast(({ own }) => own !== undefined);
  const end = states.at(-1);
  if (latest === undefined || end === undefined) return undefined;

  const organization = await store.organizations.get(org);
  const written = await rules.read(org, { history: store.history, slices });
  const told = await tellStates(states, { org, device, history: store.history, audit, room });
  const farEnds = farEndsOf(device, end);
  const reports = await readReports(org, [device, ...(farEnds?.ids ?? [])], services);
  const past = states.map(({ from, snapshot: then }) => ({ from: Date.parse(from), snapshot: then }));
  const receipts = new Receipts(end.snapshot, reports);
  const others = farEnds && (await slices.run(othersOf(farEnds, end.snapshot, receipts)));
  const known = await inForceOf(question, await slices.run(receipts.of(device)), store);
  const in_force = { ...known, ...(others && { others }) };
  const traffic = await trafficOf(question, past, reports, services);
  const policy_tests = await testsOf(question, end.snapshot, services);
  const ruleWrites = [...written.rules.values()].flatMap(({ group_id, written: write }) =>
    write === undefined ? [] : [{ id: group_id, ...write }],
  );
  const ruleAudit = new AuditedWrites(await store.evidence.audited(org, ruleWrites));
  const document = {
    format: evidenceFormat,
    organization: { id: org, name: organization.name },
    device: { id: device, hostname: latest.own?.hostname ?? '' },
    at: new Date(at).toISOString(),
    ...(question.isSpan && { to: new Date(to).toISOString() }),
    created_at: new Date(clock()).toISOString(),
    created_by: question.by,
    server_version: services.version,
    states: told.map((state) => {
      const whole = inForceOnAllAt(state, in_force.samples, { seconds: samplesOf(question), end: to });
      return { ...state, ...(whole !== undefined && { in_force_on_all_at: whole }) };
    }),
    rules: Object.fromEntries(
      [...written.rules].map(([key, { written: write, ...rule }]) => [
        key,
        { ...rule, ...(write && { written: ruleAudit.with(rule.group_id, write) }) },
      ]),
    ),
    in_force,
    traffic,
    policy_tests,
  } satisfies Omit<EvidenceDocument, 'not_known'>;
  return { ...document, not_known: unknownsOf(document, written.isComplete) };
}

/** What was written in the span, some at a time: each may have megabytes. */
async function readWrites(
  org: OrganizationId,
  { after, through }: { readonly after: number; readonly through: number },
  history: Store['history'],
): Promise<readonly WrittenState[]> {
  const writes: WrittenState[] = [];
  let left = mostWritten;
  for (let from = after; ;) {
    const some = await history.between(org, { after: from, through, limit: groupsAtOnce });
    writes.push(...some);
    for (const { json = '' } of some) left -= json.length;
    if (writes.length > mostWrites || left < 0) throw new TooMuchEvidence();
    const end = some.at(-1);
    if (end === undefined || some.length < groupsAtOnce) return writes;
    from = end.revision;
  }
}

/** Everything that decided verdicts at a revision. */
async function readSnapshot(
  { org, by, at }: EvidenceQuestion,
  revision: number,
  { store: { history, models }, slices }: EvidenceServices,
): Promise<Organization> {
  const changes: OrganizationChange[] = [];
  const texts = models.texts();
  let after: string | undefined;
  do {
    const page = await history.devicesAt(org, revision, { limit: devicesAtOnce, after });
    await slices.each(page, ({ record }) => changes.push(deviceChange(record)));
    after = page.length < devicesAtOnce ? undefined : page.at(-1)?.id;
  } while (after !== undefined);
  do {
    // A group that the reader cannot see is on no device, so it decides nothing.
    const page = await history.groupsAt(org, revision, { limit: groupsAtOnce, bytes, after, reader: by.user_id });
    await slices.each(page, ({ id, json }) => changes.push(texts.changeOf('security-groups', id, json)));
    after = page.length < groupsAtOnce && page.isCut !== true ? undefined : page.at(-1)?.id;
  } while (after !== undefined);
  return overlay(emptyOrganization, changes, { revision, at });
}

type Audited = Awaited<ReturnType<Store['evidence']['audited']>>[number];

/** What the audit says of writes. */
class AuditedWrites {
  readonly #entries: ReadonlyMap<string, Audited>;

  constructor(entries: readonly Audited[]) {
    this.#entries = new Map(entries.map((entry) => [`${entry.id} ${entry.revision}`, entry]));
  }

  with(id: string, write: EvidenceWrite): EvidenceWrite {
    const entry = this.#entries.get(`${id} ${write.revision}`);
    if (entry === undefined) return write;
    const { operation, credential, address, request_id, change_id } = entry;
    return { ...write, operation, credential, address, request_id, ...(change_id && { change_id }) };
  }

  /** Writes of one change set, and writes of one user at one time, took effect together. */
  steps(writes: readonly WrittenState[]): readonly Step[] {
    const steps: { at: number; writes: WrittenState[]; key: string; change: string | undefined }[] = [];
    for (const write of writes) {
      const change = this.#entries.get(`${write.id} ${write.revision}`)?.change_id;
      const key = `${write.at} ${write.user_id ?? ''}`;
      const last = steps.at(-1);
      if (last !== undefined && (last.key === key || (change !== undefined && last.change === change)))
        last.writes.push(write);
      else steps.push({ at: Date.parse(write.at), writes: [write], key, change });
    }
    return steps;
  }
}

interface Tellers {
  readonly org: OrganizationId;
  readonly device: DeviceId;
  readonly history: Store['history'];
  readonly audit: AuditedWrites;
  readonly room: FileRoom;
}

async function tellStates(
  states: readonly (StateParts & Pick<DeviceState, 'writes' | 'snapshot'>)[],
  tellers: Tellers,
): Promise<readonly EvidenceState[]> {
  const told: EvidenceState[] = [];
  for (const [index, { own, writes, snapshot, ...state }] of states.entries()) {
    const until = states[index + 1]?.from;
    const causes: EvidenceCause[] = [];
    for (const write of writes) causes.push(await causeOf(write, snapshot, tellers));
    if (index > 0 && causes.length === 0) causes.push({ kind: 'time', at: state.from });
    const record = own && (await deviceOf(state.revision, tellers));
    told.push({ ...state, ...(until !== undefined && { until }), causes, ...(record && { device: record }) });
  }
  return told;
}

async function deviceOf(
  revision: number,
  { org, device, audit, history }: Tellers,
): Promise<EvidenceDevice | undefined> {
  const [is] = await history.ofDevice(org, device, { below: revision + 1, limit: 1 });
  if (is === undefined) return undefined;
  const { hostname, user_id, tunnel_ip, addresses = [], labels = [], security_groups = [], isolated } = is.record;
  return {
    hostname,
    user_id,
    tunnel_ip,
    addresses,
    labels,
    security_groups,
    ...(isolated && { isolated }),
    written: audit.with(device, writeOf(is)),
  };
}

/** A write with the record after it and before it. */
async function causeOf(
  write: WrittenState,
  snapshot: Organization,
  { org, history, audit, room }: Tellers,
): Promise<EvidenceCause> {
  const { kind, id, revision, json } = write;
  const page = { below: revision + 1, limit: 2 };
  // Whoever has the group may see all its states.
  const reader = kind === 'device' ? undefined : (snapshot.groups.get(parseGroupId(id))?.user_id as UserId | undefined);
  const [is, was]: readonly State<DevicePolicyRecord | GroupRecord>[] =
    kind === 'device'
      ? await history.ofDevice(org, parseDeviceId(id), page)
      : await history.ofGroup(org, parseGroupId(id), { ...page, reader });
  const before = was?.type === 'change' ? was.record : undefined;
  const after = json === undefined ? undefined : is?.record;
  const changed = changedFields(before, after);
  room.take(JSON.stringify(changed).length);
  const record = (after ?? before ?? is?.record) as (Partial<DevicePolicyRecord> & Partial<GroupRecord>) | undefined;
  return {
    kind: kind === 'device' ? 'device' : 'group',
    id,
    name: record?.hostname ?? record?.group_name ?? '',
    type: json === undefined ? 'deleted' : before === undefined ? 'created' : 'changed',
    ...audit.with(id, writeOf(write)),
    ...changed,
  };
}
