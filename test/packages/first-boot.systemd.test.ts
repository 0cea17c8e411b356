/** Proves the two ways in which a fresh machine joins: by the installation line, and by what cloud-init wrote before anything was installed. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { installerWithKey } from '../../scripts/packaging/apt-repository.mjs';
import { buildProgramDebs, buildRuntimeDeb } from '../../scripts/packaging/build-debs.mjs';
import { packageVersion } from '../../scripts/packaging/version.mjs';
import { firstBoot } from './cloud-init.ts';
import { Machine } from './machine.ts';
import { Repository } from './repository.ts';
import { debianRoot, type Suite } from './root.ts';

const top = fileURLToPath(new URL('../..', import.meta.url));
const debs = mkdtempSync(join(tmpdir(), 'ringfence-debs-'));
const server = 'http://127.0.0.1:8080';
let gpgKey: string;
let packages: readonly string[];

/** A test key in a key ring of its own: the installation line accepts only signed repositories. */
function makeKey(): string {
  const home = join(debs, 'gnupg');
  execFileSync('mkdir', ['-m', '700', home]);
  process.env['GNUPGHOME'] = home;
  const gpg = (...args: readonly string[]): string =>
    execFileSync('gpg', ['--batch', '--quiet', '--passphrase', '', ...args], { encoding: 'utf8', stdio: 'pipe' });
  gpg('--quick-gen-key', 'Test <test@ringfence.invalid>', 'ed25519', 'sign', 'never');
  return /^fpr:+([0-9A-F]+):/m.exec(gpg('--list-secret-keys', '--with-colons'))?.[1] ?? '';
}

beforeAll(() => {
  gpgKey = makeKey();
  const runtime = buildRuntimeDeb(process.arch === 'arm64' ? 'arm64' : 'amd64', debs);
  const options = { program: top, version: packageVersion(), notices: '', epoch: 1_700_000_000, outdir: debs };
  packages = [runtime, ...buildProgramDebs(options)];
}, 900_000);
afterAll(() => {
  execFileSync('gpgconf', ['--kill', 'all']);
  delete process.env['GNUPGHOME'];
  rmSync(debs, { recursive: true, force: true });
});

describe.each<[string, Suite]>([
  ['Debian 12', 'bookworm'],
  ['Debian 13', 'trixie'],
])('on %s', (_, suite) => {
  let machine: Machine;
  let repository: Repository;
  let organization: string;
  const install = 'sh /srv/repository/install.sh';
  const cli = (words: string): Promise<string> =>
    machine.ok(`RINGFENCE_SERVER=${server} RINGFENCE_TOKEN=$(cat /var/lib/ringfence/admin-token) ringfence ${words}`);
  const followed = (): Promise<string> =>
    machine.until('ringfence agent status | grep -q "stream *live" && nft list table inet service | grep -q 5000');

  /** The server of these machines is installed on the machine itself, as the documentation says. */
  beforeAll(async () => {
    const root = debianRoot(suite);
    repository = new Repository(root);
    repository.offer(packages, gpgKey);
    installerWithKey({ top, apt: repository.folder });
    machine = await Machine.boot(root, repository.folder);
    // Only what the installation line writes may lead to the packages.
    await machine.ok('rm /etc/apt/sources.list');
    await machine.ok(`${install} server --repository file:/srv/repository 2>&1`);
    await machine.ok('cp /usr/share/doc/ringfence-server/examples/server.env /etc/ringfence/server.env');
    await machine.ok('systemctl start ringfence-server');
    organization = await cli('org list -q');
    await cli('group create guard --in "udp 5000"');
  }, 900_000);
  afterEach(async () => {
    await machine?.ok('apt-get -y purge ringfence-agent 2>&1');
  });
  afterAll(async () => {
    await machine?.stop();
    repository?.remove();
  });

  test('the token of the first administrator lies where the journal says, and not in the journal', async () => {
    const token = await machine.ok('cat /var/lib/ringfence/admin-token');
    expect(await machine.ok('journalctl -u ringfence-server')).toContain('Its token is in');
    expect(await machine.ok('journalctl')).not.toContain(token);
    expect(await machine.ok('stat -L -c %a /var/lib/ringfence/admin-token')).toBe('600');
  });

  test('the installation line installs the agent and enrolls it with nothing but the key on its input, from a signed repository only', async () => {
    await machine.write('/root/key', `${await cli('key create -q --group guard')}\n`, '0600');
    const line = `${install} agent --repository file:/srv/repository`;
    const said = await machine.ok(`${line} --interface wg0 </root/key 2>&1`);
    expect(said).toContain(`A new device joins the organization ${organization} at ${server}\n`);
    expect(said).toContain('The agent runs.');
    await followed();
    expect(await machine.ok('stat -c %a /etc/ringfence/enrollment-key /etc/ringfence/agent.env')).toBe('600\n600');
    expect(await machine.ok('grep -cE "SERVER|ORGANIZATION" /etc/ringfence/agent.env || true')).toBe('0');
    expect((await machine.run(`${install} agent --repository http://packages.example/apt`)).code).toBe(2);
    expect((await machine.run(`${line} --key-sha256 ${'0'.repeat(64)}`)).code).toBe(1);
  });

  test('the installation line takes server and organization from its options, for a key that does not carry them', async () => {
    const [secret = ''] = (await cli('key create -q --group guard')).split(':');
    await machine.write('/root/key', `${secret}\n`, '0600');
    const line = `${install} agent --repository file:/srv/repository --interface wg0`;
    const lacking = await machine.run(`${line} </root/key`);
    expect(lacking).toMatchObject({ code: 2, output: expect.stringContaining('give --server and --organization') });
    await machine.ok(`${line} --server ${server} --organization ${organization} </root/key`);
    await followed();
  });

  test('a machine that cloud-init configured beforehand starts at once, with a key that only root can read', async () => {
    const { files, packages: wanted } = firstBoot({
      server,
      organization,
      key: await cli('key create -q --group guard'),
    });
    for (const { path, permissions, content } of files) await machine.write(path, content, permissions);
    await machine.ok(`apt-get -y --no-install-recommends install ${wanted.join(' ')} 2>&1`);
    await followed();
    expect(await machine.ok('stat -c "%a %U" /etc/ringfence/enrollment-key')).toBe('600 root');
    await machine.ok('rm /etc/ringfence/enrollment-key && systemctl restart ringfence-agent');
    await followed();
  });
});
