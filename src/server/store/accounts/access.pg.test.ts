/** Proves that the combined read of a token and a subject gives the same answer as the two separate reads. */
import { asServer } from '../data/actor.ts';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import { parseDeviceId, parseGroupId, parseOrganizationId, type UserId } from '../../../policy/ids.ts';
import { device, group, makeWorld, someDigest } from '../store.fixture.ts';
import type { Access, Subject, Visible } from './access.ts';
import type { Credential, DeviceRecord, GroupRecord } from '../data/records.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

const nowhere = '00000000-0000-4000-8000-000000000000';

/** What can be compared: a record is read from its text when it is asked for. */
const shown = ({ membership, thing }: Visible<DeviceRecord> | Visible<GroupRecord>) => ({
  membership,
  thing: thing && { user_id: thing.user_id, revision: thing.stored.revision, json: thing.stored.json },
});

async function looked(access: Access, credential: Credential, { kind, org, id }: Subject) {
  const user = credential.user_id;
  if (kind === 'device') return access.device(org, user, id);
  return access.group(org, { user, reader: credential.kind === 'user' ? user : undefined }, id);
}

test('a token sees of every group and device what its user or its device sees, and nobody sees more for asking both at once', async () => {
  const { store, org, owner, member } = await makeWorld(postgres);
  const stranger = await store.users.create({ username: 'eve' }, asServer);
  const { id: elsewhere } = await store.organizations.create(
    stranger.id,
    { name: 'elsewhere', description: '' },
    asServer,
  );
  const issue = async (user: UserId) => {
    const digest = someDigest();
    await store.tokens.issue(user, { digest, name: '', scope: 'full' }, asServer);
    return digest;
  };
  const deviceDigest = someDigest();
  const applied = await store.groups.create(org, member, member.user_id, group({ group_name: 'applied' }));
  const machine = await store.devices.create(
    org,
    member,
    device(member.user_id, {
      security_groups: [parseGroupId(applied.id)],
      token: { digest: deviceDigest, name: '' },
    }),
  );
  const groups = [
    await store.groups.create(org, owner, 'organization', group()),
    await store.groups.create(org, member, member.user_id, group({ group_name: 'own' })),
    applied,
  ];
  const digests = [await issue(owner.user_id), await issue(member.user_id), await issue(stranger.id), deviceDigest];
  const subjects: Subject[] = [org, elsewhere, parseOrganizationId(nowhere)].flatMap((place): Subject[] => [
    ...[...groups.map(({ id }) => id), nowhere].map((id): Subject => ({
      kind: 'group',
      org: place,
      id: parseGroupId(id),
    })),
    ...[machine.id, nowhere].map((id): Subject => ({ kind: 'device', org: place, id: parseDeviceId(id) })),
  ]);
  const pairs = digests.flatMap((digest) => subjects.map((subject) => ({ digest, subject })));
  // All at once, so that they share reads.
  const together = await Promise.all(pairs.map(({ digest, subject }) => store.tokens.authenticateFor(digest, subject)));
  const apart: unknown[] = [];
  for (const { digest, subject } of pairs) {
    const credential = await store.tokens.authenticate(digest);
    if (credential === undefined) throw new Error('a token that was just made is unknown');
    apart.push({ credential, [subject.kind]: shown(await looked(store.access, credential, subject)) });
  }
  const asOne = together.map((found) => ({
    credential: found?.credential,
    ...(found?.visible.group && { group: shown(found.visible.group) }),
    ...(found?.visible.device && { device: shown(found.visible.device) }),
  }));
  expect(asOne).toEqual(apart);
  const visible = asOne.filter(({ group: found, device: other }) => (found ?? other)?.thing !== undefined);
  // Of four things: the owner, the stranger and the device do not see the group that is the member's own.
  expect(visible).toHaveLength(3 + 4 + 3 + 3);
});

test('a revoked token sees nothing, and whoever asks beside it does', async () => {
  const { store, org, owner } = await makeWorld(postgres);
  const [good, bad] = [someDigest(), someDigest()];
  await store.tokens.issue(owner.user_id, { digest: good, name: '', scope: 'full' }, asServer);
  const { id } = await store.tokens.issue(owner.user_id, { digest: bad, name: '', scope: 'full' }, asServer);
  const made = await store.groups.create(org, owner, 'organization', group());
  const subject: Subject = { kind: 'group', org, id: parseGroupId(made.id) };
  await store.tokens.revoke(id, asServer);
  const [first, second, third] = await Promise.all(
    [bad, good, someDigest()].map((digest) => store.tokens.authenticateFor(digest, subject)),
  );
  expect([first, third]).toEqual([undefined, undefined]);
  expect(second?.visible.group?.thing?.stored.id).toBe(made.id);
});
