/** Proves which changes affect a device: those of its group list and of the rules of its groups, in log order. */
import { expect, test } from 'vitest';
import { rulesHash } from '../../organization/group-rules.ts';
import {
  emptyOrganization,
  overlay,
  type Organization,
  type OrganizationStep,
} from '../../organization/organization.ts';
import { deviceChange, groupChange, loggedChange } from '../../organization/read-records.ts';
import { parseDeviceId, parseGroupId } from '../../policy/ids.ts';
import { processSlices, TimeSlices } from '../scheduling/time-slices.ts';
import { PolicyRevisions, type EnforcedDevice } from './policy-revisions.ts';

const idOf = (number: number): string => `00000000-0000-4000-8000-${String(number).padStart(12, '0')}`;
const [d1, d2, web, ssh, fallback, another] = [1, 2, 11, 12, 13, 14].map(idOf) as [
  string,
  string,
  string,
  string,
  string,
  string,
];

const device = (revision: number, id: string, groups: readonly string[], more: object = {}): OrganizationStep => ({
  revision,
  change: deviceChange({ id, hostname: 'h', revision, security_groups: groups, ...more }),
});
const rules = (port: number) => [{ ip_protocol: 'tcp', from_port: port, to_port: port }];
const group = (revision: number, id: string, port: number, more: object = {}): OrganizationStep => ({
  revision,
  change: groupChange({ id, group_name: 'g', inbound_rules: rules(port), revision, ...more }),
});
const gone = (revision: number, kind: 'device' | 'security-groups', id: string): OrganizationStep => ({
  revision,
  change: loggedChange(kind, id, undefined),
});

/** Follows an organization, step by step. */
class Followed {
  readonly policies: PolicyRevisions;
  #organization: Organization;

  constructor(steps: readonly OrganizationStep[], slices = processSlices()) {
    const revision = Math.max(...steps.map((step) => step.revision));
    const changes = steps.map(({ change }) => change);
    this.#organization = overlay(emptyOrganization, changes, { revision });
    this.policies = new PolicyRevisions(this.#organization, slices);
  }

  load(): Promise<void> {
    return this.policies.load(this.#organization);
  }

  async apply(step: OrganizationStep): Promise<void> {
    await this.#follow([step], step.revision);
  }

  /** The organization is at this revision, and nothing changed that a policy depends on. */
  async pass(revision: number): Promise<void> {
    await this.#follow([], revision);
  }

  async #follow(steps: readonly OrganizationStep[], revision: number): Promise<void> {
    const changes = steps.map(({ change }) => change);
    this.#organization = overlay(this.#organization, changes, { revision });
    expect(await this.policies.follow({ organization: this.#organization, steps })).toBe(true);
  }

  device(id: string): EnforcedDevice | undefined {
    return this.policies.devices.get(parseDeviceId(id));
  }
}

async function modelOf(...steps: readonly OrganizationStep[]): Promise<Followed> {
  const model = new Followed(steps);
  await model.load();
  return model;
}
const changesOf = (model: Followed, id: string): readonly number[] =>
  model.device(id)?.policyChanges.map(({ revision }) => revision) ?? [];

test('a device that is loaded was touched by the newest of itself and its groups', async () => {
  const model = await modelOf(
    group(1, fallback, 1, { is_default: true }),
    group(5, web, 80),
    group(7, ssh, 22),
    device(3, d1, [web]),
    device(9, d2, []),
  );
  expect([changesOf(model, d1), changesOf(model, d2)]).toEqual([[5], [9]]);
});

test('only what changes the rules in effect touches: not a name, not another group, not another device', async () => {
  const model = await modelOf(
    group(1, fallback, 1, { is_default: true }),
    group(2, web, 80),
    group(3, ssh, 22),
    device(4, d1, [web]),
    device(5, d2, []),
  );
  await model.apply(group(6, web, 80, { group_name: 'renamed' }));
  await model.apply(group(7, ssh, 2222));
  expect(rulesHash({ inbound_rules: [{ to_port: 1 }] })).toBe(
    rulesHash({ inbound_rules: [{ to_port: 1, description: 'x' }] }),
  );
  await model.apply(device(8, d1, [web], { hostname: 'other' }));
  await model.pass(9);
  expect([changesOf(model, d1), changesOf(model, d2), model.policies.head]).toEqual([[4], [5], 9]);
  await model.apply(group(10, web, 81));
  await model.apply(device(11, d2, [ssh]));
  expect([changesOf(model, d1), changesOf(model, d2)]).toEqual([
    [4, 10],
    [5, 11],
  ]);
  await model.apply(group(12, ssh, 22));
  expect([changesOf(model, d1), changesOf(model, d2)]).toEqual([
    [4, 10],
    [5, 11, 12],
  ]);
});

test('a change that is taken back touches twice: what is in between may be in force', async () => {
  const model = await modelOf(group(1, web, 80), device(2, d1, [web]));
  await model.apply(group(3, web, 443));
  await model.apply(group(4, web, 80));
  const { policyChanges = [] } = model.device(d1) ?? {};
  expect(policyChanges.map(({ revision }) => revision)).toEqual([2, 3, 4]);
  expect(new Set(policyChanges.map(({ key }) => key)).size).toBe(3);
});

test('a default group that is reset touches the devices without a list, and no other', async () => {
  const model = await modelOf(
    group(1, fallback, 1, { is_default: true }),
    group(2, web, 80),
    device(3, d1, []),
    device(4, d2, [web]),
  );
  await model.apply(gone(5, 'security-groups', fallback));
  await model.apply(group(6, another, 1, { is_default: true }));
  expect([changesOf(model, d1), changesOf(model, d2)]).toEqual([[3, 5, 6], [4]]);
  await model.apply(group(7, another, 2, { is_default: true }));
  expect([changesOf(model, d1), changesOf(model, d2)]).toEqual([[3, 5, 6, 7], [4]]);
});

test('a device that is deleted is gone, and one that comes is there with its first change', async () => {
  const model = await modelOf(group(1, web, 80), device(2, d1, [web]));
  await model.apply(gone(3, 'device', d1));
  await model.apply(device(4, d2, [web]));
  await model.apply(group(5, web, 81));
  expect([...model.policies.devices.keys()]).toEqual([d2]);
  expect(changesOf(model, d2)).toEqual([4, 5]);
});

const labelled = (revision: number, id: string, labels: readonly string[], tunnel_ip: string): OrganizationStep =>
  device(revision, id, [], { labels, tunnel_ip });

test('a group that applies by label touches those that carry it, when they come to carry it, and when it goes', async () => {
  const model = await modelOf(group(1, fallback, 1, { is_default: true }), device(2, d1, []), device(3, d2, []));
  await model.apply(group(4, web, 80, { applies_to: [{ labels: ['web'] }] }));
  expect([changesOf(model, d1), changesOf(model, d2)]).toEqual([[2], [3]]);
  await model.apply(labelled(5, d1, ['web'], '100.64.0.1'));
  await model.apply(group(6, web, 81, { applies_to: [{ labels: ['web'] }] }));
  await model.apply(group(7, web, 81, { applies_to: [{ all_devices: true }] }));
  await model.apply(gone(8, 'security-groups', web));
  expect([changesOf(model, d1), changesOf(model, d2)]).toEqual([
    [2, 5, 6, 8],
    [3, 7, 8],
  ]);
});

test('a guardrail touches those that it applies to, beside their groups', async () => {
  const model = await modelOf(group(1, web, 80), device(2, d1, [web]), device(3, d2, [web], { labels: ['db'] }));
  await model.apply(group(4, ssh, 22, { applies_to: [{ labels: ['db'] }], guardrail: 'forbid' }));
  expect([changesOf(model, d1), changesOf(model, d2)]).toEqual([[2], [3, 4]]);
});

test('a device that joins or leaves a peer touches those whose rules name it, and no other', async () => {
  const named = { inbound_rules: [{ ...rules(80)[0], peers: [{ labels: ['app'] }] }] };
  const model = await modelOf(group(1, web, 80, named), group(2, ssh, 22), device(3, d1, [web]), device(4, d2, [ssh]));
  const d3 = idOf(3);
  await model.apply(device(5, d3, [ssh], { labels: ['app'], tunnel_ip: '100.64.0.9' }));
  await model.apply(device(6, d3, [ssh], { labels: ['app'], tunnel_ip: '100.64.0.9', hostname: 'other' }));
  await model.apply(device(7, d3, [ssh], { labels: ['app'], tunnel_ip: '100.64.0.8' }));
  await model.apply(gone(8, 'device', d3));
  expect([changesOf(model, d1), changesOf(model, d2)]).toEqual([[4, 5, 7, 8], [4]]);
});

test('where rules name devices, what was loaded may have been touched as late as the head', async () => {
  const named = { inbound_rules: [{ ...rules(80)[0], peers: [{ all_devices: true }] }] };
  const model = await modelOf(group(1, web, 80, named), group(2, ssh, 22), device(3, d1, [web]), device(9, d2, [ssh]));
  expect([changesOf(model, d1), changesOf(model, d2)]).toEqual([[9], [9]]);
});

/** Turns of a loop that the test takes; every look at the time is half a slice later. */
class SlowTurns {
  #now = 0;
  #due: (() => void)[] = [];
  readonly slices = new TimeSlices({
    monotonic: () => (this.#now += 1),
    worked: () => this.#now,
    defer: (run) => this.#due.push(run),
    rest: (run) => this.#due.push(run),
  });

  /** One turn, and everything that follows from it at once. False when nothing is left to be done. */
  async next(): Promise<boolean> {
    for (const run of this.#due.splice(0)) run();
    await new Promise((resolve) => setImmediate(resolve));
    return this.#due.length > 0;
  }
}

test('a change of a whole fleet is taken in by slices; until the last device has it, the head is the one before', async () => {
  const turns = new SlowTurns();
  const ids = Array.from({ length: 30 }, (_, index) => idOf(100 + index));
  const model = new Followed([group(1, web, 80), ...ids.map((id) => device(2, id, [web]))], turns.slices);
  const loading = model.load();
  while (await turns.next());
  await loading;

  const applying = model.apply(group(3, web, 81));
  const seen = new Set<number>();
  do {
    expect(model.policies.organization).toBeUndefined();
    const count = ids.filter((id) => changesOf(model, id).includes(3)).length;
    expect(count).toBeLessThan(ids.length);
    seen.add(model.policies.head);
    // A device that the slice has not reached yet keeps its old policy, and never gets the new one by mistake.
    for (const one of model.policies.devices.values()) {
      const { policyChanges } = one;
      const { key } = model.policies.policyOf(one);
      expect(policyChanges.at(-1)?.key === key).toBe(policyChanges.at(-1)?.revision === 3);
    }
  } while (await turns.next());
  await applying;
  expect([...seen]).toEqual([2]);
  expect(model.policies.head).toBe(3);
  expect(model.policies.organization?.revision).toBe(3);
  expect(ids.map((id) => changesOf(model, id))).toEqual(ids.map(() => [2, 3]));
});

test('a policy that time changes says since which revision: of its own rules that expire, and of isolations', async () => {
  const timedAt = (model: Followed, id: string): number | undefined => model.device(id)?.policyChanges.at(-1)?.timedAt;
  const [rule] = rules(80);
  const expiring = { inbound_rules: [{ ...rule, expires_at: '2030-01-01T00:00:00Z' }] };
  const isolated = { since: '2026-01-01T00:00:00Z', by: 'somebody', reason: 'odd' };
  const model = await modelOf(
    group(1, fallback, 1, { is_default: true }),
    group(5, web, 80, expiring),
    device(8, d1, [web]),
    device(9, d2, []),
  );
  expect([timedAt(model, d1), timedAt(model, d2)]).toEqual([5, undefined]);
  await model.apply(device(10, d2, [], { tunnel_ip: '10.0.0.2', isolated }));
  expect([timedAt(model, d1), timedAt(model, d2)]).toEqual([10, 10]);
  await model.apply(device(11, d2, [], { tunnel_ip: '10.0.0.2', isolated, local_ip: '10.1.1.1' }));
  expect(timedAt(model, d1)).toBe(10);
  await model.apply(
    device(12, d2, [], { tunnel_ip: '10.0.0.2', isolated: { ...isolated, until: '2030-01-01T00:00:00Z' } }),
  );
  expect(timedAt(model, d1)).toBe(12);
  await model.apply(device(13, d2, [], { tunnel_ip: '10.0.0.2' }));
  expect([timedAt(model, d1), timedAt(model, d2)]).toEqual([5, undefined]);
});

test('the confirmation of a trial touches the devices that tried the change: without it they go back', async () => {
  const touched = (model: Followed, id: string): unknown => {
    const { revision, timedAt } = model.device(id)?.policyChanges.at(-1) ?? {};
    return [revision, timedAt];
  };
  const before = {
    group_name: 'g',
    group_description: '',
    inbound_rules: rules(80),
    outbound_rules: [],
    applies_to: [],
  };
  const trial = { id: 't', started_at: '', ends_at: '2030-01-01T00:00:00Z', by: 'u', before };
  const start = [
    group(1, fallback, 1, { is_default: true }),
    group(2, web, 80),
    group(3, ssh, 22),
    device(4, d1, [web]),
    device(5, d2, [ssh]),
  ];
  const model = await modelOf(...start);
  await model.apply(group(6, web, 81, { trial }));
  await model.apply(device(7, d2, [web], { trial: { ...trial, before: { security_groups: [ssh] } } }));
  expect([touched(model, d1), touched(model, d2)]).toEqual([
    [6, undefined],
    [7, undefined],
  ]);
  await model.apply(group(8, web, 81));
  await model.apply(device(9, d2, [web]));
  expect([touched(model, d1), touched(model, d2)]).toEqual([
    [8, 8],
    [9, 9],
  ]);
  // What goes back is a change of the rules.
  await model.apply(group(10, web, 82, { trial: { ...trial, before: { ...before, inbound_rules: rules(81) } } }));
  await model.apply(group(11, web, 81));
  expect(touched(model, d1)).toEqual([11, 8]);
});

test('the end of a trial touches the devices that were not in its scope: they come to have the change', async () => {
  const everywhere = { applies_to: [{ all_devices: true }] };
  const trial = { id: 't', ends_at: '2030-01-01T00:00:00Z', scope: [{ labels: ['canary'] }], before: null };
  const model = await modelOf(
    group(1, fallback, 1, { is_default: true }),
    device(2, d1, [], { labels: ['canary'] }),
    device(3, d2, []),
  );
  await model.apply(group(4, web, 80, { ...everywhere, trial }));
  expect([changesOf(model, d1), changesOf(model, d2)]).toEqual([[2, 4], [3]]);
  await model.apply(group(5, web, 80, everywhere));
  expect([changesOf(model, d1), changesOf(model, d2)]).toEqual([
    [2, 4, 5],
    [3, 5],
  ]);
});

test('a model that is loaded knows the confirmed trials by their records', async () => {
  const model = new Followed([
    group(1, fallback, 1, { is_default: true }),
    group(8, web, 80),
    device(4, d1, [web]),
    device(9, d2, []),
  ]);
  const records = (revision: number, ...devices: string[]) => ({
    revision,
    security_groups: [parseGroupId(web)],
    devices: devices.map(parseDeviceId),
  });
  model.policies.confirmed.load([
    { state: 'confirmed', ...records(7) },
    { state: 'confirmed', ...records(6, d2) },
    { state: 'reverted', ...records(8, d1) },
  ]);
  await model.load();
  const timedAt = [d1, d2].map((id) => model.device(id)?.policyChanges.at(-1)?.timedAt);
  expect(timedAt).toEqual([7, 6]);
});

test('where an isolation is of a later version, no policy is known, and everything else is; known again once it is lifted', async () => {
  const isolated = { since: '2026-01-01T00:00:00Z', by: d1, reason: 'x', only_ports: [22] };
  const model = await modelOf(group(1, web, 80), device(2, d1, [web], { isolated }), device(3, d2, [web]));
  const groupsOn = (id: string) => {
    const found = model.device(id);
    return found && model.policies.groupsOn(found)?.map((one) => one.id);
  };
  expect(groupsOn(d2)).toBeUndefined();
  await model.apply(device(4, d2, [web], { hostname: 'renamed' }));
  expect([groupsOn(d1), groupsOn(d2)]).toEqual([undefined, undefined]);
  await model.apply(device(5, d1, [web]));
  expect([groupsOn(d1), groupsOn(d2)]).toEqual([[web], [web]]);
  expect(changesOf(model, d2)).toEqual([3, 5]);
});

test('what isolated devices mean is worked out once for all devices with the same labels', async () => {
  const model = await modelOf(
    group(1, web, 80),
    device(2, d1, []),
    device(3, d2, [web]),
    device(4, idOf(3), [], { isolated: { since: '2026-01-01T00:00:00Z', by: d1, reason: 'x' } }),
  );
  const isolationOf = (id: string) => {
    const found = model.device(id);
    return found && model.policies.policyOf(found).isolation;
  };
  expect(isolationOf(d1)?.refused).toHaveLength(1);
  expect(isolationOf(d1)).toBe(isolationOf(d2));
});
