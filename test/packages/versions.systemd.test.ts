/** Proves that neighbouring versions work together: the previous release's agent with this server, and this agent with the previous server. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { buildProgramDebs, buildRuntimeDeb } from '../../scripts/packaging/build-debs.mjs';
import { packageVersion } from '../../scripts/packaging/version.mjs';
import { Machine } from './machine.ts';
import { previousRelease } from './previous.ts';
import { Repository } from './repository.ts';
import { debianRoot } from './root.ts';
import { countPackets, installNetwork, startSending, stopSending } from './traffic.ts';

const debs = mkdtempSync(join(tmpdir(), 'ringfence-debs-'));
const top = fileURLToPath(new URL('../..', import.meta.url));
let machine: Machine;
let repository: Repository;

/** Both releases lie side by side on one machine, unpacked from their packages; nothing is installed but what they need. */
beforeAll(async () => {
  const runtime = buildRuntimeDeb(process.arch === 'arm64' ? 'arm64' : 'amd64', debs);
  const previous = await previousRelease(debs);
  const current = buildProgramDebs({ program: top, version: packageVersion(), notices: '', epoch: 1, outdir: debs });
  const root = debianRoot('trixie');
  repository = new Repository(root);
  repository.offer([runtime, ...previous.debs, ...current]);
  machine = await Machine.boot(root, repository.folder);
  await machine.ok(
    'apt-get -qq update && apt-get -y --no-install-recommends install ringfence-node postgresql nftables iproute2 conntrack 2>&1',
  );
  for (const [name, [deb = '']] of [
    ['previous', previous.debs],
    ['current', current],
  ] as const) {
    const file = `$(find /srv/repository/pool -name '${deb.split('/').at(-1)}')`;
    await machine.ok(`dpkg-deb -x ${file} /opt/${name} && ln -s /opt/${name}/usr/bin/ringfence /usr/local/bin/${name}`);
  }
  await installNetwork(machine);
}, 900_000);
afterAll(async () => {
  await machine?.stop();
  repository?.remove();
  rmSync(debs, { recursive: true, force: true });
});

test.each([
  ['the previous release', 'this one', 'previous', 'current'],
  ['this one', 'the previous release', 'current', 'previous'],
])('an agent of %s follows a server of %s and enforces what it says', async (_, __, agent, server) => {
  const data = `/srv/${server}-server`;
  const unit = (name: string, command: string): Promise<string> =>
    machine.ok(`systemd-run --quiet --unit=${name} --setenv=RINGFENCE_WORKERS=1 ${command}`);
  const asked = `RINGFENCE_SERVER=http://127.0.0.1:8080 RINGFENCE_TOKEN=$(cat ${data}/admin-token) /usr/local/bin/${server}`;
  const cli = (words: string): Promise<string> => machine.ok(`${asked} ${words}`);
  const inForce = (port: number): Promise<string> => machine.until(`nft list table inet service | grep -q ${port}`);
  await unit('server', `/usr/local/bin/${server} server --data ${data}`);
  try {
    await machine.until(
      `/opt/test/node -e 'fetch("http://127.0.0.1:8080/readyz").then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))'`,
    );
    await cli('group create guard --in "udp 5000"');
    await machine.write('/srv/key', `${await cli('key create -q --group guard')}\n`, '0600');
    const organization = await cli('org list -q');
    const follow = `--server http://127.0.0.1:8080 --organization ${organization} --interface wg0 --enroll-file /srv/key`;
    await unit('agent', `/usr/local/bin/${agent} agent ${follow} --state /srv/${agent}-agent`);
    await inForce(5000);
    const before = await countPackets(machine);
    await startSending(machine);
    await machine.ok('sleep 1');
    await stopSending(machine);
    const after = await countPackets(machine);
    expect(after.forbidden.came).toBeGreaterThan(before.forbidden.came);
    expect(after.forbidden.passed).toBe(before.forbidden.passed);
    expect(after.permitted.passed - before.permitted.passed).toBe(after.permitted.came - before.permitted.came);

    // A change arrives, and the server hears that it has.
    await cli('group allow guard in udp 5001');
    await inForce(5001);
    await machine.until(`${asked} device status --output json | grep -q '"revision": *[4-9]'`);
  } finally {
    await machine.run(
      'systemctl stop agent server; nft delete table inet service; nft delete table inet service-forward; nft delete table inet service-ended',
    );
  }
});
