/**
 * Measures the processor time of a write in an organization of 10,000 devices in 100 cohorts with 1,000 policy tests, beside the same write without tests. Every
 * write changes the labels or rules of the organization on a durable PostgreSQL, through the store. Not measured: HTTP, several servers, PostgreSQL.
 */
import { rightRoles } from '../src/organization/decide/caller.ts';
import { rm } from 'node:fs/promises';
import { openDatabase } from '../src/server/database/supervise.ts';
import type { PolicyTest } from '../src/policy/policy-test/policy-test.ts';
import { parseDeviceId, parseGroupId } from '../src/policy/ids.ts';
import { asServer, type Actor } from '../src/server/store/data/actor.ts';
import { processorMs } from '../src/server/scheduling/time-slices.ts';
import { openStore } from '../src/server/store/open.ts';
import { device, group } from '../src/server/store/store.fixture.ts';
import { temporaryDirectory } from '../test/lib/postgres.ts';
import { median, showGoals } from './lib/goals.ts';

const [devices, tests, roles, writes] = [10_000, 1_000, 100, 60];
const role = (n: number): string => `role-${n % roles}`;

const directory = await temporaryDirectory();
const database = await openDatabase({ dir: directory });
const store = await openStore({ url: database.url, phase: 3 });
const { id: user_id } = await store.users.create({ username: 'bench' }, asServer);
/** A person: what the server itself writes is not checked. */
const owner: Actor = {
  user_id,
  right: { user_id, credential: { kind: 'access_token' }, roles: rightRoles.owner | rightRoles.ownerOfOwn },
};

async function organization(): Promise<{
  readonly label: (n: number) => Promise<unknown>;
  readonly rule: (n: number) => Promise<unknown>;
  readonly test: () => Promise<unknown>;
}> {
  const { id: org } = await store.organizations.create(user_id, { name: 'bench', description: '' }, asServer);
  const groups = await Promise.all(
    Array.from({ length: roles }, (_, n) =>
      store.groups.create(org, owner, 'organization', {
        ...group({ group_name: role(n) }),
        applies_to: [{ labels: [role(n)] }],
        inbound_rules: Array.from({ length: 20 }, (_each, k) => ({
          ip_protocol: 'tcp' as const,
          from_port: 1_000 + k,
          to_port: 1_000 + k,
          peers: [{ labels: [role(n + k)] }],
        })),
      }),
    ),
  );
  const made = await Promise.all(
    Array.from({ length: devices }, (_, n) =>
      store.devices.create(
        org,
        { user_id, ...asServer },
        device(user_id, {
          fields: {
            hostname: `host-${n}`,
            tunnel_ip: `100.64.${n >> 8}.${n & 255}`,
            addresses: [`fd00::${n.toString(16)}`],
            labels: [role(n)],
          },
        }),
      ),
    ),
  );
  const [first, changed] = [made[0], groups[0]];
  if (first === undefined || changed === undefined) throw new Error('there are devices and groups');
  const all = Array.from({ length: tests }, (_, n): PolicyTest => ({
    name: `test ${n}`,
    from: { labels: [role(n + (n % 20))] },
    to: { labels: [role(n)] },
    protocol: 'tcp',
    port: n % 3 === 0 ? 5_000 + n : 1_000 + (n % 20),
    expect: n % 3 === 0 ? 'refuse' : 'allow',
  }));
  return {
    label: (n) => store.devices.update(org, owner, parseDeviceId(first.id), { labels: [role(n)] }),
    rule: (n) =>
      store.groups.update(org, owner, 'organization', parseGroupId(changed.id), {
        outbound_rules: [],
        inbound_rules: [
          ...(changed.record.inbound_rules ?? []),
          { ip_protocol: 'tcp', from_port: 100 + n, to_port: 100 + n },
        ],
      }),
    test: () => store.policyTests.replace(org, owner, all),
  };
}

/** Of the processor, in this process: the median of the writes. */
async function milliseconds(write: (n: number) => Promise<unknown>, from: number): Promise<number> {
  const times: number[] = [];
  for (let n = from; n < from + writes; n += 1) {
    const started = processorMs();
    await write(n);
    times.push(processorMs() - started);
  }
  return median(times);
}

try {
  const { label, rule, test } = await organization();
  await milliseconds(label, 0);
  const plain = { label: await milliseconds(label, 100), rule: await milliseconds(rule, 0) };
  await test();
  await milliseconds(label, 200);
  const tested = { label: await milliseconds(label, 300), rule: await milliseconds(rule, 100) };
  const beside = (ms: number): string => `${ms.toFixed(1)} ms without tests`;
  showGoals([
    {
      what: 'processor time while a label changes, with 1,000 tests',
      goal: 100,
      measured: tested.label,
      unit: 'ms',
      beside: beside(plain.label),
    },
    {
      what: 'processor time while a rule changes, with 1,000 tests',
      goal: 100,
      measured: tested.rule,
      unit: 'ms',
      beside: beside(plain.rule),
    },
  ]);
} finally {
  await store.close();
  await database.stop();
  await rm(directory, { recursive: true, force: true });
}
