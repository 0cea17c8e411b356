/**
 * Proves that a name which a user chose is never taken for something else: commands and files refuse an ambiguous word.
 */
import { expect, it } from 'vitest';
import { newPerson } from '../lib/server.ts';
import type { Outcome } from '../lib/program.ts';
import { done, json, usePeople } from './people.fixture.ts';

const people = usePeople();

const device = (name: string, ...more: readonly string[]) =>
  json(people.owner.run(['device', 'create', name, '--public-key', `key of ${name}`, ...more, '-o', 'json']));
const laptop = (name: string) =>
  json(people.member.run(['device', 'create', name, '--public-key', `key of my ${name}`, '-o', 'json']));
const rename = (id: string, hostname: string) =>
  done(people.member.run(['device', 'edit', id, '--hostname', hostname]));
const labelsOf = async (id: string): Promise<readonly string[]> =>
  (await json(people.owner.run(['device', 'show', id, '-o', 'json']))).labels ?? [];

/** Refused as wrong usage, with every id that the word could mean in full. */
function expectAmbiguous({ code, stdout, stderr }: Outcome, ids: readonly string[]): void {
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  for (const id of ids) expect(stderr).toContain(id);
}

it('a laptop that is called like the short id of a database server does not get its labels', async () => {
  const [db, mine] = [await device('db-1'), await laptop('laptop')];
  const short = db.id.slice(-8);
  expect(await done(people.owner.run(['device', 'list']))).toContain(short);
  for (const name of [db.id.slice(0, 8), db.id.slice(-12), short.toUpperCase(), short]) {
    await rename(mine.id, name);
    expectAmbiguous(await people.owner.run(['device', 'label', 'add', name, 'db']), [db.id, mine.id]);
  }
  expectAmbiguous(await people.owner.run(['device', 'delete', short, '--yes']), [db.id, mine.id]);
  expectAmbiguous(await people.owner.run(['explain', '--who', short, '22']), [db.id, mine.id]);
  expectAmbiguous(await people.owner.run(['nft', short]), [db.id, mine.id]);
  const file = await people.owner.file('labels.yaml', `devices: [{device: "${short}", labels: [db]}]`);
  expectAmbiguous(await people.owner.run(['apply', file, '--yes']), [db.id, mine.id]);
  const rule = await people.owner.run(['group', 'create', 'g', '--in', `tcp 22 from device:${short}`]);
  expectAmbiguous(rule, [db.id, mine.id]);
  // A full id is always an id.
  await rename(mine.id, db.id);
  await done(people.owner.run(['device', 'label', 'add', db.id, 'db']));
  expect([await labelsOf(db.id), await labelsOf(mine.id)]).toEqual([['db'], []]);
  await done(people.owner.run(['device', 'delete', db.id, '--yes']));
  const gone = await people.owner.run(['device', 'label', 'add', db.id, 'db']);
  expect(gone).toMatchObject({ code: 3, stdout: '', stderr: expect.stringContaining(mine.id) });
  const pinned = await people.owner.file('pinned.yaml', `devices: [{device: "${db.id}", labels: [db]}]`);
  expect(await people.owner.run(['apply', pinned, '--yes'])).toMatchObject({ code: 3, stdout: '' });
  expect(await labelsOf(mine.id)).toEqual([]);
});

it('a host name that looks like an id works as long as no id looks like it', async () => {
  const { id } = await device('deadbeef');
  await done(people.owner.run(['device', 'label', 'add', 'deadbeef', 'db']));
  expect(await labelsOf(id)).toEqual(['db']);
  expect(await done(people.owner.run(['export']))).toContain('device: deadbeef');
});

it('a member cannot take the word `default` or the name of a group away from its owner', async () => {
  const mine = await json(people.member.run(['group', 'create', 'default', '--mine', '-o', 'json']));
  await laptop('laptop');
  await done(people.member.run(['device', 'groups', 'set', 'laptop', mine.id]));
  const standard = people.place.defaultGroup;
  await done(people.owner.run(['group', 'edit', standard, '--name', 'everyone']));
  expectAmbiguous(await people.owner.run(['group', 'allow', 'default', 'in', 'tcp', '22']), [mine.id, standard]);
  const web = await json(people.owner.run(['group', 'create', 'web', '-o', 'json']));
  await done(people.member.run(['group', 'edit', mine.id, '--name', web.id.slice(-8)]));
  expectAmbiguous(await people.owner.run(['group', 'delete', web.id.slice(-8), '--yes']), [web.id, mine.id]);
  expectAmbiguous(await people.owner.run(['key', 'create', '--group', web.id.slice(-8)]), [web.id, mine.id]);
  await done(people.member.run(['group', 'edit', mine.id, '--name', 'web,everyone']));
  expectAmbiguous(await people.owner.run(['key', 'create', '--group', 'web,everyone']), [mine.id]);
});

it('members, keys, tokens and organizations are refused by words that could mean two of them', async () => {
  const { server, owner, place } = people;
  const short = place.member.id.slice(-8);
  const { id } = await server.admin.expect(201, 'POST', '/api/users', { username: short });
  expectAmbiguous(await owner.run(['member', 'add', short]), [place.member.id]);
  await done(owner.run(['member', 'add', id]));
  expectAmbiguous(await owner.run(['member', 'role', short, 'owner']), [place.member.id, id]);
  expectAmbiguous(await owner.run(['member', 'remove', short, '--yes']), [place.member.id, id]);
  expectAmbiguous(await owner.run(['device', 'create', 'x', '--public-key', 'x', '--user', short]), [id]);
  for (const noun of ['key', 'token']) {
    const first = await json(owner.run([noun, 'create', 'first', '-o', 'json']));
    const second = await json(owner.run([noun, 'create', first.id.slice(-8), '-o', 'json']));
    expectAmbiguous(await owner.run([noun, 'delete', first.id.slice(-8), '--yes']), [first.id, second.id]);
  }
  // Another person may add anybody to an organization of any name.
  const stranger = await newPerson(server);
  const trap = await stranger.api.expect(201, 'POST', '/api/organizations', { name: place.org.slice(-8) });
  await stranger.api.expect(201, 'POST', `/api/organizations/${trap.id}/members`, { user_id: place.owner.id });
  expectAmbiguous(await owner.run(['group', 'list', '--org', place.org.slice(-8)]), [place.org, trap.id]);
  expectAmbiguous(await owner.run(['org', 'delete', place.org.slice(-8), '--yes']), [place.org, trap.id]);
});

it('an address that is also a name, or that two devices have, is refused by `explain`', async () => {
  const [db, mine] = [await device('db-1', '--tunnel-ip', '100.64.0.2'), await laptop('100.64.0.2')];
  expectAmbiguous(await people.owner.run(['explain', '100.64.0.2', '192.0.2.1', '22']), [db.id, mine.id]);
  await rename(mine.id, 'laptop');
  await done(people.member.run(['device', 'edit', mine.id, '--tunnel-ip', '100.64.0.2']));
  expectAmbiguous(await people.owner.run(['explain', '100.64.0.2', '192.0.2.1', '22']), [db.id, mine.id]);
});

it('a policy file pins a device by its id, and never falls back to a name', async () => {
  const db = await device('db-1');
  const text = `devices: [{device: db-1, id: ${db.id}, labels: [db]}]`;
  const file = await people.owner.file('pinned.yaml', text);
  await done(people.owner.run(['apply', file, '--yes']));
  const exported = await done(people.owner.run(['export']));
  expect(exported).toContain(`  - device: db-1\n    id: ${db.id}\n    labels:\n      - db\n`);
  expect(await done(people.owner.run(['export', '--names-only']))).not.toContain(db.id);
  await done(people.owner.run(['device', 'edit', db.id, '--hostname', 'db-old']));
  expect(await done(people.owner.run(['apply', file, '--yes']))).toContain('No changes');
  const mine = await laptop('db-1');
  expect(await done(people.owner.run(['apply', file, '--yes']))).toContain('No changes');
  await done(people.owner.run(['device', 'delete', db.id, '--yes']));
  const refused = await people.owner.run(['apply', file, '--yes']);
  expect(refused).toMatchObject({ code: 3, stdout: '' });
  expect(refused.stderr).toMatch(new RegExp(`pinned\\.yaml:1: no device has the id ${db.id}; .*another device:`));
  expect(refused.stderr).toContain(mine.id);
  expect(await labelsOf(mine.id)).toEqual([]);
  const twice = `devices:\n  - {device: db-1, labels: [a]}\n  - {id: ${mine.id}, labels: [b]}\n`;
  expectAmbiguous(await people.owner.run(['apply', '-f', '-', '--yes'], { input: twice }), [mine.id]);
  const bad = await people.owner.run(['apply', '-f', '-', '--yes'], { input: 'devices: [{id: 564e23ea}]' });
  expect(bad.stderr).toMatch(/stdin:1: `id` must be the full id of a device/);
});

it('a shell is offered an id where the name could mean something else', async () => {
  const [db, mine] = [await device('db-1'), await laptop('laptop')];
  await rename(mine.id, db.id.slice(-8));
  const offered = await done(people.owner.run(['complete', '--', 'device', 'show', '']));
  expect(new Set(offered.trim().split('\n'))).toEqual(new Set(['db-1', mine.id]));
});

it('a policy file that names a host which was deleted or renamed does not label the device that took its name', async () => {
  const { owner, place } = people;
  const text = 'devices: [{device: db-1, labels: [db]}]\ngroups: [{name: g, inbound: [tcp 22 from device:gate]}]\n';
  const file = await owner.file('by-name.yaml', text);
  const [db, gate] = [await device('db-1'), await device('gate')];
  await done(owner.run(['apply', file, '--yes']));
  await done(owner.run(['device', 'delete', db.id, '--yes']));
  await done(owner.run(['device', 'edit', gate.id, '--hostname', 'old-gate']));
  const [mine, mygate] = [await laptop('laptop'), await laptop('gate')];
  await rename(mine.id, 'db-1');
  const planned = await owner.run(['diff', file]);
  expect(planned).toMatchObject({ code: 0 });
  expect(planned.stderr).toContain(`Warning: ${file}:1: db-1 is the device ${mine.id}`);
  // From another machine, as in a pipeline: there is no one to answer, and --yes does not answer this question.
  const pipeline = await owner.as('pipeline', {
    RINGFENCE_SERVER: people.server.url,
    RINGFENCE_ORG: place.org,
    RINGFENCE_TOKEN: place.owner.token,
  });
  const refused = await pipeline.run(['apply', file, '--yes']);
  expect(refused).toMatchObject({ code: 5, stdout: '' });
  for (const id of [db.id, mine.id, gate.id, mygate.id]) expect(refused.stderr).toContain(id);
  expect(await labelsOf(mine.id)).toEqual([]);
  const question = /Are these the devices that you mean\? \[y\/N\]/;
  const no = await owner.inTerminal(['apply', file], { typed: [[question, 'n\n']] });
  expect([no.code, await labelsOf(mine.id)]).toEqual([1, []]);
  // An owner who means it says so once.
  await done(owner.run(['apply', file, '--yes', '--accept-moved']));
  expect(await labelsOf(mine.id)).toEqual(['db']);
  await done(owner.run(['device', 'label', 'set', mine.id, 'other']));
  await done(owner.run(['apply', file, '--yes']));
  expect(await labelsOf(mine.id)).toEqual(['db']);
});
