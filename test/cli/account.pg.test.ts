/** Proves the commands about oneself, organizations, members, tokens and enrollment keys, on a real server. */
import { chmod, lstat, mkdir, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { createServer } from 'node:tls';
import { describe, expect, it } from 'vitest';
import { useProgram, useServer } from '../lib/stage.ts';
import { second as certificate } from '../lib/certificates.ts';
import { newPerson } from '../lib/server.ts';
import type { Program } from '../lib/program.ts';

const stage = useServer();
const installed = useProgram();

let homes = 0;
/** The program of somebody who has signed in. */
async function signedIn(token: string, ...args: readonly string[]): Promise<Program> {
  homes += 1;
  const person = await installed.program.as(`home-${homes}`);
  const outcome = await person.run(['login', stage.server.url, ...args], { input: `${token}\n` });
  expect(outcome).toMatchObject({ code: 0, stdout: '' });
  return person;
}

const profilesOf = ({ home }: Program): string => join(home, '.config/ringfence/profiles.json');

describe('login', () => {
  it('checks the token, keeps it for its owner only, and chooses the only organization', async () => {
    const owner = await signedIn(stage.place.owner.token);
    const file = profilesOf(owner);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect((await stat(join(file, '..'))).mode & 0o777).toBe(0o700);
    expect(JSON.parse(await readFile(file, 'utf8'))).toEqual({
      current: 'default',
      profiles: {
        default: { server: stage.server.url, token: stage.place.owner.token, organization: stage.place.org },
      },
    });
    const shown = await owner.run(['whoami']);
    expect(shown).toMatchObject({ code: 0, stderr: '' });
    expect(shown.stdout).toContain(stage.place.owner.username);
    expect(shown.stdout).not.toContain(stage.place.owner.token);
  });

  it('refuses a token that the server does not know, with code 4, and keeps nothing', async () => {
    const nobody = await installed.program.as('nobody');
    const outcome = await nobody.run(['login', stage.server.url], { input: 'rf_user_wrong' });
    expect(outcome.code).toBe(4);
    expect(outcome.stderr).toMatch(/^ringfence: \S.*\n$/);
    expect(outcome.stderr).not.toContain('rf_user_wrong');
    await expect(stat(profilesOf(nobody))).rejects.toThrow('ENOENT');
  });

  it.each([
    [['login'], /no server given/],
    [['login', 'ftp://x'], /is not a server URL/],
    [['login', 'http://user:secret@127.0.0.1'], /must not contain a user name/],
    [['login', 'http://127.0.0.1:1', '--profile', '../x'], /is not a profile name/],
    [['login', 'http://127.0.0.1:1', '--token-file', '/nowhere'], /cannot read the token file/],
  ])('answers wrong usage with one line and code 2: %j', async (args, message) => {
    const outcome = await installed.program.run(args, { input: 'x' });
    expect(outcome).toMatchObject({ code: 2, stdout: '' });
    expect(outcome.stderr).toMatch(message);
    expect(outcome.stderr.trim().split('\n')).toHaveLength(1);
  });

  it('warns once, before any token is sent, where the server is reached over plain http from another machine', async () => {
    const { port } = new URL(stage.server.url);
    // By its form no address of this machine, and yet it leads here.
    const remote = `http://[::ffff:127.0.0.1]:${port}`;
    const person = await installed.program.as('plain');
    const outcome = await person.run(['login', remote], { input: stage.place.owner.token });
    expect(outcome).toMatchObject({ code: 0, stdout: '' });
    expect(outcome.stderr).toMatch(/^Warning: .* uses plain http.*\n.*Signed in/);
    expect(await person.run(['whoami', '-q'])).toMatchObject({ code: 0, stderr: '' });
    const unreached = await person.run(['login', 'http://[::ffff:127.0.0.1]:1'], { input: 'x' });
    expect(unreached.stderr).toMatch(/^Warning: /);
    const near = await installed.program.as('near');
    const quiet = await near.run(['login', stage.server.url], { input: stage.place.owner.token });
    expect(quiet.stderr).not.toContain('Warning');
  });

  it('warns where others can read the profiles or a token file', async () => {
    const person = await installed.program.as('open');
    await person.run(['login', stage.server.url], { input: stage.place.owner.token });
    const file = profilesOf(person);
    expect(await person.run(['whoami', '-q'])).toMatchObject({ code: 0, stderr: '' });
    await chmod(file, 0o644);
    expect((await person.run(['whoami'])).stderr).toContain(
      `can read ${file}, which holds a secret: run chmod 600 ${file}`,
    );
    await chmod(file, 0o600);
    const token = await person.file('token', stage.place.owner.token);
    await chmod(token, 0o604);
    expect((await person.run(['whoami', '--token-file', token])).stderr).toContain(`run chmod 600 ${token}`);
    await chmod(token, 0o600);
    expect((await person.run(['whoami', '--token-file', token])).stderr).not.toContain('chmod');
  });

  it('follows no link where it writes, and leaves nothing beside the profiles', async () => {
    const person = await installed.program.as('linked');
    const file = profilesOf(person);
    const victim = await person.file('victim', 'untouched');
    await mkdir(join(file, '..'), { recursive: true });
    await symlink(victim, `${file}.new`);
    expect(await person.run(['login', stage.server.url], { input: stage.place.owner.token })).toMatchObject({
      code: 0,
    });
    expect(await readFile(victim, 'utf8')).toBe('untouched');
    expect((await lstat(file)).isFile()).toBe(true);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect((await readdir(join(file, '..'))).toSorted()).toEqual(['profiles.json', 'profiles.json.new']);
  });

  it('tells when there is no server, with code 1', async () => {
    const outcome = await installed.program.run(['login', 'http://127.0.0.1:65535'], { input: 'x' });
    expect(outcome.code).toBe(1);
    expect(outcome.stderr).toMatch(/cannot reach http:\/\/127\.0\.0\.1:65535: .*ECONNREFUSED/);
  });

  it('in a terminal asks for the token without showing it', async () => {
    const person = await installed.program.as('typist');
    const outcome = await person.inTerminal(['login', stage.server.url], {
      typed: [[/Token for/, `${stage.place.member.token}\r`]],
    });
    expect(outcome.code).toBe(0);
    expect(outcome.stdout).toContain('Token for');
    expect(outcome.stdout).toContain(`as ${stage.place.member.username}`);
    expect(outcome.stdout).not.toContain(stage.place.member.token);
  });

  it('keeps several profiles; logout forgets one', async () => {
    const person = await signedIn(stage.place.owner.token);
    await person.run(['login', stage.server.url, '--profile', 'other'], { input: stage.place.member.token });
    expect((await person.run(['profile', 'list', '-q'])).stdout).toBe('default\nother\n');
    expect((await person.run(['whoami', '-q'])).stdout).toBe(`${stage.place.member.id}\n`);
    expect((await person.run(['whoami', '-q', '--profile', 'default'])).stdout).toBe(`${stage.place.owner.id}\n`);
    await person.run(['profile', 'use', 'default']);
    expect((await person.run(['whoami', '-q'])).stdout).toBe(`${stage.place.owner.id}\n`);
    expect(await person.run(['whoami', '--profile', 'lost'])).toMatchObject({ code: 3 });
    expect(await person.run(['logout'])).toMatchObject({ code: 0 });
    expect(await readFile(profilesOf(person), 'utf8')).not.toContain(stage.place.owner.token);
    expect((await person.run(['profile', 'list', '-q'])).stdout).toBe('other\n');
    expect(await person.run(['logout', '--profile', 'default'])).toMatchObject({ code: 3 });
  });

  it('never sends the token of a profile to another server', async () => {
    const person = await signedIn(stage.place.owner.token);
    const outcome = await person.run(['whoami', '--server', 'http://127.0.0.1:1']);
    expect(outcome.code).toBe(4);
    expect(outcome.stderr).toContain('no token for http://127.0.0.1:1');
  });

  it('works without a profile: by environment variables', async () => {
    const env = {
      RINGFENCE_SERVER: stage.server.url,
      RINGFENCE_TOKEN: stage.place.member.token,
      RINGFENCE_OUTPUT: 'json',
    };
    const outcome = await installed.program.run(['whoami'], { env });
    expect(JSON.parse(outcome.stdout)).toMatchObject({ id: stage.place.member.id });
  });

  it('tells when the file of profiles is broken', async () => {
    const person = await signedIn(stage.place.owner.token);
    await writeFile(profilesOf(person), '{"current":1}');
    const outcome = await person.run(['whoami']);
    expect(outcome.code).toBe(1);
    expect(outcome.stderr).toContain('is not a valid profile file');
  });
});

describe('org and member', () => {
  it('create, list, show, edit, use and delete an organization by name or id', async () => {
    const someone = await newPerson(stage.server);
    const person = await signedIn(someone.token);
    const made = await person.run(['org', 'create', 'globex', '--description', 'Globex, all sites', '-o', 'json']);
    const organization = JSON.parse(made.stdout);
    expect(organization).toMatchObject({ name: 'globex', description: 'Globex, all sites', owner_id: someone.id });
    expect((await person.run(['org', 'show', 'globex', '-q'])).stdout).toBe(`${organization.id}\n`);
    expect((await person.run(['org', 'list'])).stdout).toMatch(/NAME +ID +GROUPS +DESCRIPTION\n.*globex/);
    expect((await person.run(['org', 'edit', 'globex', '--name', 'Globex Inc.'])).stdout).toContain('Globex Inc.');
    await person.run(['org', 'create', 'other']);
    const unsure = await person.run(['group', 'list']);
    expect(unsure.code).toBe(2);
    expect(unsure.stderr).toMatch(
      /several organizations[^]*Globex Inc\.[^]*other|several organizations[^]*other[^]*Globex/,
    );
    expect(await person.run(['org', 'use', 'Globex Inc.'])).toMatchObject({ code: 0 });
    expect((await person.run(['org', 'create', 'a third'])).stderr).toMatch(
      /To switch, run: ringfence org use [\da-f-]{36}\n$/,
    );
    expect((await person.run(['group', 'list', '-q'])).stdout).toBe(`${organization.security_groups[0]}\n`);
    expect(await person.run(['org', 'delete', organization.id])).toMatchObject({ code: 2 });
    expect(await person.run(['org', 'delete', organization.id, '--yes'])).toMatchObject({ code: 0 });
    expect(await person.run(['org', 'show', organization.id])).toMatchObject({ code: 3 });
  });

  it('tell an ambiguous name with the choices, and a mistyped one with the nearest', async () => {
    const person = await signedIn((await newPerson(stage.server)).token);
    const first = (await person.run(['org', 'create', 'twins', '-q'])).stdout.trim();
    const second = (await person.run(['org', 'create', 'twins', '-q'])).stdout.trim();
    const ambiguous = await person.run(['org', 'show', 'twins']);
    expect(ambiguous.code).toBe(2);
    expect(ambiguous.stderr).toContain(first);
    expect(ambiguous.stderr).toContain(second);
    const typo = await person.run(['org', 'show', 'twisn']);
    expect(typo.code).toBe(3);
    expect(typo.stderr).toContain('did you mean twins?');
  });

  it('add, list, show and remove members; a member may not, with code 4', async () => {
    const owner = await signedIn(stage.place.owner.token);
    const member = await signedIn(stage.place.member.token);
    const guest = await newPerson(stage.server, 'guest');
    expect(await member.run(['member', 'add', guest.username])).toMatchObject({ code: 4 });
    expect(await owner.run(['member', 'add', guest.username])).toMatchObject({ code: 0 });
    expect(await owner.run(['member', 'add', 'nobody-by-this-name'])).toMatchObject({ code: 3 });
    expect(await owner.run(['member', 'add', guest.id])).toMatchObject({ code: 5 });
    expect((await owner.run(['member', 'list'])).stdout).toContain(guest.username);
    expect((await owner.run(['member', 'show', guest.username, '-q'])).stdout).toBe(`${guest.id}\n`);
    expect((await owner.run(['member', 'role', guest.username, 'owner'])).stdout).toContain('is an owner');
    expect(await member.run(['member', 'role', guest.username, 'member'])).toMatchObject({ code: 4 });
    expect(await owner.run(['member', 'role', guest.username, 'boss'])).toMatchObject({ code: 2 });
    const guestOwns = await signedIn(guest.token);
    expect(await guestOwns.run(['member', 'accept'])).toMatchObject({ code: 0 });
    expect(await owner.run(['member', 'role', stage.place.owner.username, 'member'])).toMatchObject({ code: 0 });
    expect(await guestOwns.run(['member', 'role', guest.username, 'member'])).toMatchObject({ code: 5 });
    expect(await guestOwns.run(['member', 'role', stage.place.owner.username, 'owner'])).toMatchObject({ code: 0 });
    // The devices change owners, and copies of their tokens no longer work.
    const made = [];
    for (const public_key of ['first', 'second'])
      made.push(await guest.api.expect(201, 'POST', `${stage.place.base}/devices`, { public_key }));
    expect(await owner.run(['member', 'remove', guest.username, '--rotate-tokens', '-y'])).toMatchObject({ code: 2 });
    const taken = ['member', 'remove', guest.username, '--keep-devices', '--rotate-tokens', '-y', '-o', 'json'];
    const { device_tokens: rotated } = JSON.parse((await owner.run(taken)).stdout) as {
      readonly device_tokens: readonly { readonly device_id: string; readonly token: string }[];
    };
    expect(new Set(rotated.map(({ device_id }) => device_id))).toEqual(new Set(made.map(({ id }) => id)));
    const asDevice = (token: string) => stage.server.nobody.as(token);
    for (const { id, device_token } of made) {
      await asDevice(device_token).expect(401, 'GET', '/api/users/me');
      const { token = '' } = rotated.find(({ device_id }) => device_id === id) ?? {};
      await asDevice(token).expect(200, 'GET', '/api/users/me');
    }
    expect(await owner.run(['member', 'remove', guest.username, '-y'])).toMatchObject({ code: 3 });
  });
});

describe('user, token and key', () => {
  it('make users and tokens that work, and revoke them', async () => {
    const admin = await signedIn(stage.server.adminToken);
    const created = await admin.run(['user', 'create', 'grace', '-q']);
    expect(created.code).toBe(0);
    expect(await admin.run(['user', 'create', 'grace'])).toMatchObject({ code: 5 });
    expect((await admin.run(['user', 'list'])).stdout).toContain('grace');
    const issued = await admin.run(['token', 'create', 'first', '--user', 'grace', '-q']);
    expect(issued.stdout).toMatch(/^rf_user_\S+\n$/);

    const grace = await signedIn(issued.stdout.trim());
    expect((await grace.run(['whoami', '-q'])).stdout).toBe(created.stdout);
    const second = await grace.run(['token', 'create', 'ci', '--expires', '90d', '--read-only']);
    expect(second.stdout).toMatch(/scope +read-only\n/);
    expect(second.stdout).toMatch(/token +rf_user_\S+\n/);
    expect(second.stderr).toContain('You cannot see it again');
    const secret = /token +(\S+)/.exec(second.stdout)?.[1] ?? '';
    const robot = await signedIn(secret);
    expect(await robot.run(['org', 'create', 'x'])).toMatchObject({ code: 4 });
    const list = await grace.run(['token', 'list']);
    expect(list.stdout).toContain('ci');
    expect(list.stdout).not.toContain('rf_user_');
    expect((await grace.run(['token', 'show', 'ci', '-o', 'yaml'])).stdout).toContain('name: ci\n');
    const rotated = await grace.run(['token', 'rotate', 'ci', '--yes', '-q']);
    expect(rotated.stdout).toMatch(/^rf_user_\S+\n$/);
    expect(await robot.run(['whoami'])).toMatchObject({ code: 4 });
    const renewed = await signedIn(rotated.stdout.trim());
    expect((await renewed.run(['whoami', '-q'])).stdout).toBe(created.stdout);
    expect(await grace.run(['token', 'delete', 'ci', '--yes'])).toMatchObject({ code: 0 });
    expect(await renewed.run(['whoami'])).toMatchObject({ code: 4 });
    expect(await grace.run(['token', 'create', 'x', '--expires', 'soon'])).toMatchObject({ code: 2 });
    expect(await grace.run(['token', 'create', 'x', '--expires', '2001-01-01'])).toMatchObject({ code: 2 });
    expect(await grace.run(['user', 'delete', 'grace', '--yes'])).toMatchObject({ code: 4 });
    expect(await grace.run(['org', 'create', 'hers'])).toMatchObject({ code: 0 });
    const remove = ['user', 'delete', 'grace', '--yes'];
    const refused = await admin.run(remove);
    expect(refused).toMatchObject({ code: 5 });
    expect(refused.stderr).toMatch(/last owner of hers \(.*--organizations/);
    expect(await admin.run([...remove, '--organizations', 'keep'])).toMatchObject({ code: 2 });
    expect((await admin.run([...remove, '--organizations', 'delete'])).stdout).toContain('Deleted with it: hers.');
    expect(await grace.run(['whoami'])).toMatchObject({ code: 4 });
  });

  it('tell the owner who changed what', async () => {
    const owner = await signedIn(stage.place.owner.token);
    await owner.run(['group', 'create', 'audited']);
    const shown = await owner.run(['audit', '--limit', '5', '--all']);
    expect(shown).toMatchObject({ code: 0, stderr: '' });
    expect(shown.stdout).toMatch(/^TIME +REVISION +WHO +WHAT\n[^]*\n\S+Z +\d+ +\S*owner\S* +created group audited\n$/);
    await owner.run(['group', 'allow', 'audited', 'in', 'tcp', '22']);
    await owner.run(['group', 'edit', 'audited', '--name', 'seen', '--description', 'x']);
    const wide = (await owner.run(['audit', '--limit', '2', '-o', 'wide'])).stdout;
    expect(wide).toMatch(
      /renamed group \S+ to seen, and changed its description +[0-9a-f-]{36} +user token +127\.0\.0\.1\n/,
    );
    expect(wide).toMatch(/allowed tcp 22 from anywhere in audited +[0-9a-f-]{36} /);
    await owner.run(['group', 'delete', 'seen', '--yes']);
    expect((await owner.run(['audit', '--limit', '1'])).stdout).toMatch(/deleted group seen \([0-9a-f-]{36}\)\n/);
    expect(await (await signedIn(stage.place.member.token)).run(['audit'])).toMatchObject({ code: 4 });
    const admin = await signedIn(stage.server.adminToken);
    expect((await admin.run(['audit', '--all-organizations', '--limit', '50', '-o', 'json'])).stdout).toContain(
      'createUser',
    );
    // The limit counts what is found, however far back it is.
    await owner.run(['token', 'create', 'own']);
    for (const name of ['later-1', 'later-2', 'later-3']) await newPerson(stage.server, name);
    const { username } = stage.place.owner;
    const found = await admin.run(['log', '--all-organizations', '--by', username, '--limit', '1', '-o', 'json']);
    expect(JSON.parse(found.stdout)).toMatchObject([{ operation: 'createMyToken', username }]);
    const wrong = await admin.run(['log', '--all-organizations', '--by', `${username}x`]);
    expect(wrong.stderr).toContain(`No user is called ${username}x; did you mean ${username}?`);
    expect(await owner.run(['audit', '--limit', 'some'])).toMatchObject({ code: 2 });
  });

  it('issue enrollment keys that enroll a device, and revoke them', async () => {
    const owner = await signedIn(stage.place.owner.token);
    const issued = await owner.run(['key', 'create', 'lab', '--uses', '2', '--expires', '7d', '-o', 'json']);
    const key = JSON.parse(issued.stdout);
    expect(key).toMatchObject({ name: 'lab', uses_left: 2 });
    // One thing to join: the key carries organization and server, and the server accepts it whole.
    expect(key.key).toMatch(new RegExp(`^rf_enroll_[\\w-]{43}:${stage.place.org}@http://127\\.0\\.0\\.1:\\d+$`));
    const told = await owner.run(['key', 'create', 'told']);
    expect(told.stderr).toMatch(/^ +sudo ringfence-enroll --interface wg0$/m);
    await stage.server.nobody
      .as(key.key)
      .expect(201, 'POST', `${stage.place.base}/devices`, { public_key: 'enrolled-1' });
    const list = await owner.run(['key', 'list']);
    expect(list.stdout).toMatch(/lab +\S+ +1 /);
    expect(list.stdout).not.toContain('rf_enroll_');
    expect((await owner.run(['key', 'show', 'lab', '-q'])).stdout).toBe(`${key.id}\n`);
    expect(await owner.run(['key', 'create', '--uses', 'many'])).toMatchObject({ code: 2 });
    expect(await owner.run(['key', 'delete', 'lab', '--yes'])).toMatchObject({ code: 0 });
    await stage.server.nobody
      .as(key.key)
      .expect(401, 'POST', `${stage.place.base}/devices`, { public_key: 'enrolled-2' });
  });
});

describe('a person at a terminal', () => {
  it('is asked before something is deleted, and nothing happens without a yes', async () => {
    const owner = await signedIn(stage.place.owner.token);
    await owner.run(['key', 'create', 'asked']);
    const no = await owner.inTerminal(['key', 'delete', 'asked'], { typed: [[/\[y\/N\]/, 'n\r']] });
    expect(no.code).toBe(0);
    expect(no.stdout).toContain('Revoke enrollment key asked? [y/N]');
    expect(no.stdout).toContain('Nothing was changed.');
    const yes = await owner.inTerminal(['key', 'delete', 'asked'], { typed: [[/\[y\/N\]/, 'y\r']] });
    expect(yes.stdout).toMatch(/Revoked enrollment key asked \([0-9a-f-]{36}\)\./);
    expect((await owner.run(['key', 'list', '-q'])).stdout).not.toContain('asked');
  });

  it('sees colours, a pipe does not, and NO_COLOR and --no-color take them away', async () => {
    const owner = await signedIn(stage.place.owner.token);
    const escape = '\u001b[1m';
    expect((await owner.inTerminal(['org', 'list'])).stdout).toContain(escape);
    expect((await owner.run(['org', 'list'])).stdout).not.toContain(escape);
    expect((await owner.inTerminal(['org', 'list', '--no-color'])).stdout).not.toContain(escape);
    expect((await owner.inTerminal(['org', 'list'], { env: { NO_COLOR: '1' } })).stdout).not.toContain(escape);
  });

  it('who presses Ctrl-C at a question ends the command with 130 and nothing done', async () => {
    const owner = await signedIn(stage.place.owner.token);
    const id = (await owner.run(['key', 'create', 'kept', '-o', 'json'])).stdout;
    const outcome = await owner.inTerminal(['key', 'delete', 'kept'], { typed: [[/\[y\/N\]/, '\u0003']] });
    expect(outcome.code).toBe(130);
    expect((await owner.run(['key', 'list', '-q'])).stdout).toContain(JSON.parse(id).id);
  });
});

it('an http URL of a server that speaks HTTPS is named as such', async () => {
  const { program } = installed;
  const env = { RINGFENCE_TOKEN: 'x'.repeat(40) };
  const secure = createServer({ ...certificate });
  await new Promise<void>((resolve) => secure.listen(0, '127.0.0.1', resolve));
  try {
    const at = `127.0.0.1:${(secure.address() as AddressInfo).port}`;
    const http = await program.spawn(['org', 'list', '--server', `http://${at}`], { env });
    expect(http).toMatchObject({
      code: 1,
      stderr: `ringfence: cannot reach http://${at}: the server speaks HTTPS, not HTTP; use https://${at}\n`,
    });
  } finally {
    secure.close();
  }
});
