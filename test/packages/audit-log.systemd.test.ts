/** Proves that the audit log of an installed server reaches a real journald and a real syslog daemon, whole and from within the sandbox of its unit. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { buildProgramDebs, buildRuntimeDeb } from '../../scripts/packaging/build-debs.mjs';
import { packageVersion } from '../../scripts/packaging/version.mjs';
import { Machine } from './machine.ts';
import { Repository } from './repository.ts';
import { debianRoot, type Suite } from './root.ts';

const top = fileURLToPath(new URL('../..', import.meta.url));
const debs = mkdtempSync(join(tmpdir(), 'ringfence-debs-'));
let packages: readonly string[];

beforeAll(() => {
  const runtime = buildRuntimeDeb(process.arch === 'arm64' ? 'arm64' : 'amd64', debs);
  const options = { program: top, version: packageVersion(), notices: '', epoch: 1_700_000_000, outdir: debs };
  packages = [runtime, ...buildProgramDebs(options)];
}, 900_000);
afterAll(() => rmSync(debs, { recursive: true, force: true }));

interface AuditLine {
  readonly type: string;
  readonly id: string;
  readonly operation?: string;
  readonly subject?: { readonly name?: string };
  readonly truncated?: boolean;
  readonly after?: { readonly inbound_rules?: readonly unknown[] };
}

describe.each<[string, Suite]>([
  ['Debian 12', 'bookworm'],
  ['Debian 13', 'trixie'],
])('on %s', (_, suite) => {
  let machine: Machine;
  let repository: Repository;
  beforeAll(async () => {
    const root = debianRoot(suite);
    repository = new Repository(root);
    repository.offer(packages);
    machine = await Machine.boot(root, repository.folder);
    await machine.ok(
      'apt-get -qq update && apt-get -y --no-install-recommends install ringfence-server ringfence rsyslog 2>&1',
    );
  }, 900_000);
  afterAll(async () => {
    await machine?.stop();
    repository?.remove();
  });

  const cli = (words: string, before = ''): Promise<string> =>
    machine.ok(
      `${before} RINGFENCE_SERVER=http://127.0.0.1:8080 RINGFENCE_TOKEN=$(cat /var/lib/ringfence/admin-token) ringfence ${words}`,
    );
  const logTo = async (where: string): Promise<void> => {
    await machine.write('/etc/ringfence/server.env', `RINGFENCE_AUDIT_LOG=${where}\n`, '0600');
    await machine.ok('systemctl restart ringfence-server');
  };
  const createGroup = (name: string, rules: number): Promise<string> =>
    cli(`group create -q ${name} "$@"`, `for n in $(seq ${rules}); do set -- "$@" --in "tcp $n"; done;`);
  const parsed = (text: string): readonly AuditLine[] =>
    text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as AuditLine);

  const places = [
    {
      where: 'journald',
      daemon: 'systemd-journald',
      read: 'journalctl --sync; journalctl -t ringfence-audit -o cat --no-pager --all',
      whole: 300,
    },
    {
      where: 'syslog',
      daemon: 'rsyslog',
      read: `sed -n 's/^.* ringfence-audit[^ ]* //p' /var/log/auth.log`,
      whole: 60,
    },
  ] as const;

  test.each(places)(
    'each entry is one line of the log, long ones too, also after the daemon restarts: $where',
    async ({ where, daemon, read, whole }) => {
      await logTo(where);
      const has = (name: string): Promise<string> => machine.until(`{ ${read}; } | grep -q '"${name}"'`);
      await createGroup(`${where}-whole`, whole);
      await createGroup(`${where}-long`, 900);
      await has(`${where}-long`);
      await machine.ok(`systemctl restart ${daemon}`);
      await createGroup(`${where}-later`, 1);
      await has(`${where}-later`);
      const lines = parsed(await machine.ok(read));
      expect(new Set(lines.map(({ id }) => id)).size).toBe(lines.length);
      const groups = lines.filter(({ operation }) => operation === 'createSecurityGroup');
      expect(
        groups.map(({ subject, truncated, after }) => [subject?.name, truncated, after?.inbound_rules?.length]),
      ).toEqual([
        [`${where}-whole`, undefined, whole],
        [`${where}-long`, true, undefined],
        [`${where}-later`, undefined, 1],
      ]);
    },
  );
});
