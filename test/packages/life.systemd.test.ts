/** Proves the Debian packages over their whole life on machines with real systemd, under packets: from installation to purge. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { buildProgramDebs, buildRuntimeDeb } from '../../scripts/packaging/build-debs.mjs';
import { debianVersion, packageVersion } from '../../scripts/packaging/version.mjs';
import { Machine } from './machine.ts';
import { previousRelease, type Release } from './previous.ts';
import { Repository, withVersion } from './repository.ts';
import { debianRoot, type Suite } from './root.ts';
import { countPackets, installNetwork, startSending, stopSending } from './traffic.ts';

const top = fileURLToPath(new URL('../..', import.meta.url));
const machineArchitecture = process.arch === 'arm64' ? 'arm64' : 'amd64';
const debs = mkdtempSync(join(tmpdir(), 'ringfence-debs-'));
const version = packageVersion();
let previous: Release;
let current: readonly string[];
let runtime: string;

beforeAll(async () => {
  runtime = buildRuntimeDeb(machineArchitecture, debs);
  previous = await previousRelease(debs);
  current = buildProgramDebs({ program: top, version, notices: '', epoch: 1_700_000_000, outdir: debs });
}, 900_000);
afterAll(() => rmSync(debs, { recursive: true, force: true }));

const ours = 'ringfence ringfence-agent ringfence-server';
const at = (wanted: string): string =>
  ours
    .split(' ')
    .map((name) => `${name}=${debianVersion(wanted)}`)
    .join(' ');

describe.each<[string, Suite]>([
  ['Debian 12', 'bookworm'],
  ['Debian 13', 'trixie'],
])('on %s', (_, suite) => {
  let machine: Machine;
  let repository: Repository;
  beforeAll(async () => {
    const root = debianRoot(suite);
    repository = new Repository(root);
    repository.offer([runtime, ...previous.debs]);
    machine = await Machine.boot(root, repository.folder);
  }, 900_000);
  afterAll(async () => {
    await machine?.stop();
    repository?.remove();
  });

  const apt = (words: string): Promise<string> =>
    machine.ok(`apt-get -qq update && apt-get -o Dpkg::Use-Pty=0 -y --no-install-recommends ${words} 2>&1`);
  const unit = (name: string, property: string): Promise<string> =>
    machine.ok(`systemctl show --value -p ${property} ringfence-${name}`);
  const running = (name: string): Promise<string> => machine.ok(`systemctl is-active ringfence-${name} || true`);
  const cli = (words: string): Promise<string> =>
    machine.ok(
      `RINGFENCE_SERVER=http://127.0.0.1:8080 RINGFENCE_TOKEN=$(cat /var/lib/ringfence/admin-token) ringfence ${words}`,
    );
  /** The rules of the server are in the kernel, and the agent follows. */
  const followed = (): Promise<string> =>
    machine.until('ringfence agent status | grep -q "stream *live" && nft list table inet service | grep -q 5000');
  const serves = (): Promise<string> => machine.until(fetching('/readyz'));
  const fetching = (path: string): string =>
    `/opt/test/node -e 'fetch("http://127.0.0.1:8080${path}").then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))'`;

  /** Nothing that the groups forbid passed since, and nothing that they permit was lost; and there were such packets. */
  async function expectGuarded(work: () => Promise<unknown>): Promise<void> {
    const before = await countPackets(machine);
    await startSending(machine);
    try {
      await work();
    } finally {
      await stopSending(machine);
    }
    const { permitted, forbidden } = await countPackets(machine);
    expect(forbidden.came).toBeGreaterThan(before.forbidden.came + 50);
    expect(permitted.came).toBeGreaterThan(before.permitted.came + 50);
    expect({ passed: forbidden.passed, lost: permitted.came - permitted.passed }).toEqual({ passed: 0, lost: 0 });
  }

  /** What is installed, without the commit of the build. */
  const releaseOf = async (): Promise<string> => (await machine.ok('ringfence --version')).replace(/\+.*/, '');

  test('installing starts nothing that is not configured, and no database of the distribution', async () => {
    await apt(`install ${at(previous.version)}`);
    expect(await releaseOf()).toBe(previous.version);
    expect(await unit('agent', 'UnitFileState')).toBe('enabled');
    expect(await machine.ok('systemctl is-active ringfence-agent || true')).not.toBe('active');
    expect(await machine.ok('pg_lsclusters --no-header')).toBe('');
    expect(await machine.ok('ls /etc/postgresql-common/createcluster.d')).toBe('');
    expect(await machine.ok('nft list ruleset')).toBe('');
  });

  test('configured, the server serves and the agent enforces what it says', async () => {
    await installNetwork(machine);
    await machine.write('/etc/ringfence/server.env', 'RINGFENCE_WORKERS=2\n', '0600');
    await machine.ok('systemctl restart ringfence-server');
    await serves();
    await cli('group create guard --in "udp 5000" --in icmp');
    const key = await cli('key create -q --uses 9 --group guard');
    const organization = await cli('org list -q');
    const settings = { SERVER: 'http://127.0.0.1:8080', ORGANIZATION: organization, INTERFACE: 'wg0', ENROLL: key };
    const lines = Object.entries(settings).map(([name, value]) => `RINGFENCE_${name}=${value}\n`);
    await machine.write('/etc/ringfence/agent.env', lines.join(''), '0600');
    await machine.ok('systemctl restart ringfence-agent');
    await followed();
    await expectGuarded(() => machine.ok('sleep 1'));
  });

  test('an upgrade from the previous release lets no forbidden packet through and loses no permitted one', async () => {
    repository.offer(current);
    const before = await unit('agent', 'MainPID');
    await expectGuarded(async () => {
      await apt(`install ${at(version)}`);
      await followed();
    });
    expect(await releaseOf()).toBe(version);
    expect(await unit('agent', 'MainPID')).not.toBe(before);
    expect([await running('agent'), await running('server')]).toEqual(['active', 'active']);
    await serves();
  });

  test('both run as users of their own, in their sandbox, the agent with one right', async () => {
    for (const [name, right] of [
      ['agent', '0000000000001000'],
      ['server', '0000000000000000'],
    ] as const) {
      const status = await machine.ok(`cat /proc/${await unit(name, 'MainPID')}/status`);
      expect(status).toMatch(/^NoNewPrivs:\t1$/m);
      expect(status).toMatch(/^Seccomp:\t2$/m);
      expect(status).toMatch(new RegExp(`^CapEff:\\t${right}$`, 'm'));
      expect(status).toMatch(new RegExp(`^CapBnd:\\t${right}$`, 'm'));
      expect(status).not.toMatch(/^Uid:\t0/m);
      const exposure = await machine.ok(`systemd-analyze security --no-pager ringfence-${name} | tail -1`);
      expect(Number(/level for \S+: ([\d.]+)/.exec(exposure)?.[1])).toBeLessThan(3);
    }
  });

  test('a restart and a kill of the agent leave the rules in force, and it comes back', async () => {
    await expectGuarded(async () => {
      await machine.ok('systemctl restart ringfence-agent');
      await followed();
      const killed = await unit('agent', 'MainPID');
      await machine.ok(`kill -9 ${killed}`);
      await machine.until(`[ "$(systemctl show --value -p MainPID ringfence-agent)" -gt 1 ]`);
      await followed();
      expect(await unit('agent', 'MainPID')).not.toBe(killed);
    });
  });

  test('after a reboot the last policy is in force before there is a network', async () => {
    await machine.reboot();
    const early = await machine.ok('cat /run/in-force-before-the-network');
    expect(early).toContain('table inet service');
    expect(early).toContain('5000');
    await serves();
    await followed();
    await expectGuarded(() => machine.ok('sleep 1'));
  });

  test('a running server outlives the replacement of its files, and takes no worker of another version', async () => {
    const next = buildProgramDebs({
      program: top,
      version: later(version),
      notices: '',
      epoch: 1_700_000_000,
      outdir: debs,
    });
    repository.offer(next);
    const before = await unit('server', 'MainPID');
    const names = next.map((file) => `$(find /srv/repository/pool -name ${basename(file)})`).join(' ');
    await machine.ok(`dpkg --unpack ${names}`);
    await machine.ok(
      `for pid in $(cat /proc/${before}/task/*/children); do grep -q ringfence /proc/$pid/cmdline && kill -9 $pid && break; done`,
    );
    await machine.until(`journalctl -u ringfence-server | grep -q 'is installed, but version ${version}.* is running'`);
    for (const path of ['/readyz', '/ui/', '/api/openapi.json', '/api/docs']) await machine.ok(fetching(path));
    expect(await unit('server', 'MainPID')).toBe(before);
    await machine.ok('dpkg --configure -a');
    expect(await unit('server', 'MainPID')).not.toBe(before);
    await serves();
    await followed();
  });

  test('a new runtime alone makes both start again with it', async () => {
    const before = new Set([await unit('agent', 'MainPID'), await unit('server', 'MainPID'), '0']);
    repository.offer([withVersion(runtime, '99.0.0-1', debs)]);
    await expectGuarded(async () => {
      await apt('install ringfence-node');
      await followed();
    });
    const after = [await unit('agent', 'MainPID'), await unit('server', 'MainPID')];
    expect(after.filter((pid) => before.has(pid))).toEqual([]);
    await serves();
  });

  test('going back to an older version is refused while there is a database, and disturbs nothing', async () => {
    const before = [await unit('agent', 'MainPID'), await unit('server', 'MainPID')];
    const { code, output } = await machine.run(`apt-get -y --allow-downgrades install ${at(version)} 2>&1`);
    expect(code).not.toBe(0);
    expect(output).toContain('refusing to go back');
    await machine.ok('apt-get -y -f install 2>&1');
    expect(await releaseOf()).toBe(later(version));
    expect([await unit('agent', 'MainPID'), await unit('server', 'MainPID')]).toEqual(before);
    await serves();
  });

  test('removing the agent leaves its rules in force and says so; installed again, it runs again', async () => {
    await expectGuarded(async () => {
      expect(await apt('remove ringfence-agent')).toContain('its rules stay in force');
      expect(await machine.ok("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).not.toContain('ringfence agent');
      await machine.ok('sleep 0.5');
      await apt('install ringfence-agent');
      expect(await running('agent')).toBe('active');
      await followed();
    });
  });

  test('a purge takes the rules, the configuration and the data away', async () => {
    await apt(`purge ringfence-agent ringfence-server ringfence ringfence-node`);
    expect(await machine.ok('nft list tables')).toBe('table inet observer');
    const left =
      'ls -d /etc/ringfence /var/lib/ringfence* /var/lib/private/ringfence* /var/cache/ringfence* /usr/lib/ringfence';
    expect((await machine.run(`${left} 2>/dev/null`)).output).toBe('');
    expect((await machine.run("systemctl list-unit-files --no-legend 'ringfence*'")).output).toBe('');
  });
});

/** The version after it. */
function later(text: string): string {
  const [major, minor, patch] = text.split(/[.-]/);
  return `${major}.${minor}.${Number(patch) + 1}`;
}
