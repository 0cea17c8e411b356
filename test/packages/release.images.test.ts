/** Proves a whole release: its signatures and provenance, and that its compose file runs a server and a database from its images. */
import { execFileSync, spawn, spawnSync, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { appendFileSync, copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { imageArchitecture } from '../../scripts/packaging/images.mjs';
import { packageVersion } from '../../scripts/packaging/version.mjs';
import { eventually } from '../lib/eventually.ts';
import { mortal } from '../lib/mortal.ts';

const top = fileURLToPath(new URL('../..', import.meta.url));
const out = join(top, 'out/release');
const work = mkdtempSync(join(tmpdir(), 'ringfence-release-'));
const key = (name: string): string => join(work, name);

beforeAll(() => {
  execFileSync('minisign', ['-G', '-W', '-p', key('public'), '-s', key('secret')]);
  execFileSync(process.execPath, ['scripts/release.mjs', '--minisign-key', key('secret')], { cwd: top });
}, 3_600_000);
afterAll(() => rmSync(work, { recursive: true, force: true }));

/** Whether minisign believes a file, by the key of this release. */
const isBelieved = (file: string, signature = `${file}.minisig`): boolean =>
  spawnSync('minisign', ['-V', '-q', '-p', key('public'), '-m', file, '-x', signature]).status === 0;

describe('what was made', () => {
  test('checksums and provenance are signed, and a changed one is not believed', () => {
    for (const name of ['SHA256SUMS', 'provenance.intoto.json']) {
      const file = join(out, name);
      expect(isBelieved(file)).toBe(true);
      const changed = key(name);
      writeFileSync(changed, readFileSync(file));
      appendFileSync(changed, ' ');
      expect(isBelieved(changed, `${file}.minisig`)).toBe(false);
    }
    expect(spawnSync('sha256sum', ['--check', '--quiet', 'SHA256SUMS'], { cwd: out }).status).toBe(0);
  });

  test('the provenance names every file of the checksums but itself', () => {
    const { subject } = JSON.parse(readFileSync(join(out, 'provenance.intoto.json'), 'utf8')) as {
      readonly subject: readonly { readonly name: string; readonly digest: { readonly sha256: string } }[];
    };
    const sums = readFileSync(join(out, 'SHA256SUMS'), 'utf8').trimEnd().split('\n');
    const own = /^\S+ {2}provenance\.intoto\.json$/;
    expect(subject.map(({ name, digest }) => `${digest.sha256}  ${name}`)).toEqual(
      sums.filter((line) => !own.test(line)),
    );
    const image = subject.find(({ name }) => name.startsWith('ringfence-server_') && name.endsWith('.tar'));
    expect(image?.digest.sha256).toBe(
      createHash('sha256')
        .update(readFileSync(join(out, image?.name ?? '')))
        .digest('hex'),
    );
  });
});

/** An engine with storage, network and control groups of its own, which end with the shell. A line of its input is a command; the answer ends with its code. */
const room = `
mount -t tmpfs none /dev/shm
mount -t cgroup2 none /sys/fs/cgroup
ip link set lo up
cd "$1" || exit 1
export PATH="$1/bin:$PATH"
while read -r line; do
  eval "$line" </dev/null 2>&1
  printf '\\n%s %s\\n' "$2" "$?"
done
`;

describe('podman compose', () => {
  const place = join(work, 'compose');
  const mark = `answer-${process.pid}`;
  const port = 18_080;
  let shell: ChildProcessWithoutNullStreams;
  let lines: AsyncIterator<string>;

  /** What a command says, with its code. */
  async function run(command: string): Promise<{ readonly code: number; readonly said: string }> {
    shell.stdin.write(`${command}\n`);
    let said = '';
    for (;;) {
      const next = await lines.next();
      if (next.done === true) throw new Error(`the room has ended: ${said}`);
      if (next.value.startsWith(`${mark} `)) return { code: Number(next.value.slice(mark.length)), said };
      said += `${next.value}\n`;
    }
  }
  async function done(command: string): Promise<string> {
    const { code, said } = await run(command);
    if (code !== 0) throw new Error(`${command}: ${said}`);
    return said;
  }
  const isHealthy = async (service: string): Promise<boolean> =>
    (await run(`podman healthcheck run ringfence_${service}_1`)).code === 0;
  const bothHealthy = async (): Promise<boolean> => (await isHealthy('database')) && (await isHealthy('server'));
  const asAdministrator = (words: string): Promise<string> =>
    done(
      `podman exec ringfence_server_1 sh -c 'RINGFENCE_SERVER=http://127.0.0.1:8080 RINGFENCE_TOKEN=$(cat /var/lib/ringfence/admin-token) ringfence ${words}'`,
    );

  beforeAll(async () => {
    mkdirSync(join(place, 'bin'), { recursive: true });
    copyFileSync(join(out, 'compose.yaml'), join(place, 'compose.yaml'));
    writeFileSync(join(place, '.env'), `RINGFENCE_DATABASE_PASSWORD=of-this-test\nRINGFENCE_PORT=127.0.0.1:${port}\n`);
    // A machine of tests may let nobody raise limits, and have control groups of two kinds.
    writeFileSync(
      join(place, 'containers.conf'),
      '[containers]\ncgroups = "disabled"\ndefault_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]\n[engine]\ncgroup_manager = "cgroupfs"\n',
    );
    const folders = `--root ${place}/storage --runroot ${place}/run --tmpdir ${place}/tmp --network-config-dir ${place}/networks`;
    const engine = `#!/bin/sh\nexport CONTAINERS_CONF=${place}/containers.conf\nexec /usr/bin/podman ${folders} --storage-driver vfs "$@"\n`;
    writeFileSync(join(place, 'bin/podman'), engine, { mode: 0o755 });
    const apart = ['--net', '--pid', '--fork', '--kill-child=KILL', '--mount', '--mount-proc'];
    shell = spawn(...mortal('unshare', [...apart, 'sh', '-c', room, 'room', place, mark]));
    lines = createInterface({ input: shell.stdout })[Symbol.asyncIterator]();
    await done(`podman load -i ${out}/ringfence-server_${packageVersion()}_${imageArchitecture}.tar`);
    await done('podman-compose -p ringfence up --detach');
  }, 900_000);
  afterAll(async () => {
    // The names of its networks are files of this machine.
    await run('podman-compose -p ringfence down --volumes');
    const closed = once(shell, 'close');
    shell.stdin.end();
    await closed;
  });

  test('brings both up healthy, and what is written outlives the containers', async () => {
    await eventually('both are healthy', bothHealthy);
    await asAdministrator('org create acme');
    expect(await done(`curl -fsS http://127.0.0.1:${port}/readyz`)).toContain('ready');
    await done('podman-compose -p ringfence down');
    await done('podman-compose -p ringfence up --detach');
    await eventually('both are healthy again', bothHealthy);
    expect(await asAdministrator('org list')).toContain('acme');
  });

  test('tells a server without its database as not healthy, until the database is back', async () => {
    await done('podman stop ringfence_database_1');
    await eventually('the server is not healthy', async () => !(await isHealthy('server')));
    expect(await isHealthy('database')).toBe(false);
    await done('podman start ringfence_database_1');
    await eventually('both are healthy', bothHealthy);
  });
});
