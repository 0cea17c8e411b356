/** Owns the starting point of the store's tests: an open store with an organization, an owner and a member. */
import type { NewGroup } from '../../organization/decide/group.ts';
import type { Phase } from '../../organization/decide/phase.ts';
import type { DeviceFields } from '../../organization/decide/records.ts';
import { createHash, randomBytes } from 'node:crypto';
import { Client } from 'pg';
import { onTestFinished } from 'vitest';
import type { TestPostgres } from '../../../test/lib/postgres.ts';
import type { OrganizationId, UserId } from '../../policy/ids.ts';
import type { StoredRule } from '../../policy/rule.ts';
import { StoreError, type StoreProblem } from '../problems.ts';
import { openStore, type Store, type StoreOptions } from './open.ts';
import type { Entry, Projection, StatePage } from './data/change-log.ts';
import { asServer, type Actor } from './data/actor.ts';
import type { NewDevice } from './data/devices.ts';

export interface World {
  readonly url: string;
  readonly store: Store;
  readonly org: OrganizationId;
  readonly owner: Actor;
  readonly member: Actor;
}

export async function openTestStore(url: string, options: Partial<StoreOptions> = {}): Promise<Store> {
  const store = await openStore({ url, phase: 3, ...options });
  onTestFinished(() => store.close());
  return store;
}

/** As a server does now and then. */
export async function forgetOld({ retention }: Store): Promise<void> {
  for (const kind of retention) await kind.forget();
}

/** Looks past the store, on a connection of its own. */
export async function query<Row extends object>(url: string, text: string): Promise<Row[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Row>(text)).rows;
  } finally {
    await client.end();
  }
}

/** Another user who is a member of the organization. */
export async function join(store: Store, org: OrganizationId, owner: Actor, username: string): Promise<Actor> {
  const { id } = await store.users.create({ username }, asServer);
  await store.members.add(org, owner, { user_id: id });
  return { user_id: id, ...asServer };
}

export async function makeWorld(
  postgres: TestPostgres,
  options: Partial<StoreOptions> & { phase?: Phase } = {},
): Promise<World> {
  const url = await postgres.freshUrl();
  const store = await openTestStore(url, options);
  const owner = { user_id: (await store.users.create({ username: 'olga' }, asServer)).id, ...asServer };
  const { id: org } = await store.organizations.create(owner.user_id, { name: 'acme', description: '' }, asServer);
  return { url, store, org, owner, member: await join(store, org, owner, 'mark') };
}

export const someDigest = (): Buffer => createHash('sha256').update(randomBytes(32)).digest();

export const fields = (given: Partial<DeviceFields> = {}): DeviceFields => ({
  public_key: randomBytes(32).toString('base64'),
  local_ip: '',
  tunnel_ip: '',
  child_prefix: null,
  relay: false,
  discovery: false,
  reflexive_ip4: '',
  endpoint_local_address_ip4: '',
  symmetric_nat: false,
  hostname: 'host',
  addresses: [],
  labels: [],
  ...given,
});

export const device = (
  user_id: UserId,
  given: Partial<Omit<NewDevice, 'fields'>> & { fields?: Partial<DeviceFields> } = {},
): NewDevice => ({
  user_id,
  security_groups: [],
  ...given,
  fields: fields(given.fields),
});

export const ssh: StoredRule = { ip_protocol: 'tcp', from_port: 22, to_port: 22, ip_ranges: ['10.0.0.0/8'] };

export const group = (given: Partial<NewGroup> = {}): NewGroup => ({
  group_name: 'web',
  group_description: '',
  inbound_rules: [ssh],
  outbound_rules: [],
  ...given,
});

/** The problem that a promise fails with; fails itself when the promise does not. */
export async function problemOf(promise: Promise<unknown>): Promise<StoreProblem> {
  const outcome = await promise.then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  );
  if ('value' in outcome) throw new Error(`expected a refusal, got ${JSON.stringify(outcome.value)}`);
  if (outcome.error instanceof StoreError) return outcome.error.problem;
  throw outcome.error;
}

/** The whole log of an organization, as `revision kind type`, or more when asked. */
export async function logOf(store: Store, org: OrganizationId, after = 0): Promise<readonly Entry[]> {
  const entries = await store.log.readChanges(org, after, 1_000_000);
  if (entries === undefined) throw new Error('the log has a hole');
  return entries;
}

/** The current state of several kinds after a revision, read in pages of so many bytes. */
export async function stateOf(
  store: Store,
  org: OrganizationId,
  asked: {
    readonly kinds: readonly Projection[];
    readonly after: number;
    readonly deletions: boolean;
    readonly bytes?: number;
  },
): Promise<readonly Entry[]> {
  const { kinds, deletions, bytes = 1_048_576 } = asked;
  const all: Entry[] = [];
  for (const projection of kinds)
    for (let after: number | undefined = asked.after; after !== undefined;) {
      const page: StatePage = await store.log.readState(org, { projection, after, deletions, bytes });
      all.push(...page.entries);
      after = page.through;
    }
  return all.toSorted((a, b) => a.revision - b.revision);
}

export const brief = (entries: readonly Entry[]): string[] =>
  entries.map(({ revision, kind, type }) => `${revision} ${kind} ${type}`);
