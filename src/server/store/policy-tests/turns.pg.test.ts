/** Proves that writes whose policy tests take long hold only a part of the connections for transactions, however many organizations write. */
import { rightRoles } from '../../../organization/decide/caller.ts';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import { parseGroupId } from '../../../policy/ids.ts';
import type { PolicyTest } from '../../../policy/policy-test/policy-test.ts';
import type { StoredRule } from '../../../policy/rule.ts';
import { processSlices } from '../../scheduling/time-slices.ts';
import { asServer, type Actor } from '../data/actor.ts';
import type { ShortSteps } from '../data/short-steps.ts';
import type { Store } from '../open.ts';
import { device, group, openTestStore, someDigest } from '../store.fixture.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

const size = 100;

/** Work of more steps than a walk over all devices has: the judging of tests. It stops, until it is let go on. */
class Gate {
  held = 0;
  #opened: Promise<void> = Promise.resolve();
  open = (): void => {};

  readonly slices: ShortSteps;

  constructor() {
    const slices = processSlices();
    slices.run = async (steps) => {
      for (let taken = 0; ; taken += 1) {
        const step = steps.next();
        if (step.done === true) return step.value;
        if (taken !== size + 20) continue;
        this.held += 1;
        await this.#opened;
        this.held -= 1;
      }
    };
    this.slices = slices;
  }

  close(): void {
    this.#opened = new Promise((resolve) => (this.open = resolve));
  }
}

const upTo = (port: number, label: number): readonly StoredRule[] => [
  { ip_protocol: 'tcp', from_port: port, to_port: 2_000, peers: [{ labels: [`c${label % size}`] }] },
];
const everybody = { all_devices: true } as const;

async function newOwner(store: Store, username: string) {
  const { id } = await store.users.create({ username }, asServer);
  const digest = someDigest();
  await store.tokens.issue(id, { digest, name: '', scope: 'full' }, asServer);
  const credential = { kind: 'token', digest: digest.toString('hex') } as const;
  const owner: Actor = { user_id: id, right: { user_id: id, credential, roles: rightRoles.owner } };
  const made = await store.organizations.create(id, { name: username, description: '' }, asServer);
  return { owner, org: made.id, server: { user_id: id, ...asServer } };
}

/** Many policies, and tests that look at each port of each of them. Gives a write that changes all policies. */
async function newCostlyWrite(store: Store, username: string): Promise<() => Promise<unknown>> {
  const { owner, org, server } = await newOwner(store, username);
  for (let n = 0; n < size; n += 1) {
    const fields = { labels: [`c${n}`], tunnel_ip: `100.64.0.${n + 1}` };
    await store.devices.create(org, server, device(owner.user_id, { fields }));
    const rules = { inbound_rules: upTo(1 + n, n + 1), outbound_rules: upTo(1 + n, n + 2) };
    await store.groups.create(org, server, 'organization', group({ ...rules, applies_to: [{ labels: [`c${n}`] }] }));
  }
  const shared = await store.groups.create(org, server, 'organization', group({ applies_to: [everybody] }));
  const tests = Array.from({ length: 1_000 }, (_, n): PolicyTest => ({
    name: `t${n}`,
    from: everybody,
    to: everybody,
    protocol: 'tcp',
    port: n + 1,
    expect: 'refuse',
  }));
  await store.policyTests.replace(org, server, tests);
  const inbound_rules = upTo(1_999, 0);
  return () => store.groups.update(org, owner, 'organization', parseGroupId(shared.id), { inbound_rules });
}

test('writes whose tests take long leave a connection to everybody else', async () => {
  const gate = new Gate();
  const store = await openTestStore(await postgres.freshUrl(), { slices: gate.slices, transactionConnections: 4 });
  const costly = await Promise.all(Array.from({ length: 5 }, (_, n) => newCostlyWrite(store, `costly ${n}`)));
  const stranger = await newOwner(store, 'stranger');
  const own = await store.groups.create(stranger.org, stranger.server, 'organization', group());

  onTestFinished(() => gate.open());
  gate.close();
  const writes = costly.map((write) => write());
  await expect.poll(() => gate.held).toBe(2);
  // A transaction of several statements, while the others hold theirs open.
  await store.groups.delete(stranger.org, stranger.owner, 'organization', parseGroupId(own.id));
  expect(gate.held).toBe(2);
  gate.open();
  // Those that waited for longer than they may are refused.
  await Promise.allSettled(writes);
});
