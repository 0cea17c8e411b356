/** Proves what each sslmode of a database URL admits, with a real PostgreSQL that speaks TLS: also with several hosts, and with a client's certificate. */
import { chmod, chown, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { first, uplink } from '../../../../test/lib/certificates.ts';
import { databaseAccount, DatabaseNode } from '../../../../test/lib/database-node.ts';
import { temporaryDirectory } from '../../../../test/lib/postgres.ts';
import { Primary } from './primary.ts';
import { statement } from './sql.ts';

let node: DatabaseNode;
let folder: string;
const fileOf = (name: string): string => join(folder, name);

/** Its certificate holds for 127.0.0.1, and not for localhost. */
beforeAll(async () => {
  folder = await temporaryDirectory();
  await chmod(folder, 0o755);
  const account = await databaseAccount();
  const files = {
    'server.crt': uplink.cert,
    'server.key': uplink.key,
    'client.crt': first.cert,
    'client.key': first.key,
    'pg_hba.conf':
      'local all all trust\nhostssl all guarded all trust clientcert=verify-ca\nhost all ringfence all trust\n',
  };
  for (const [name, text] of Object.entries(files)) {
    await writeFile(fileOf(name), text, { mode: name.endsWith('.key') ? 0o600 : 0o644 });
    if (account !== undefined && name !== 'client.key') await chown(fileOf(name), account.uid, account.gid);
  }
  node = await DatabaseNode.primary({
    ssl: 'on',
    ssl_cert_file: fileOf('server.crt'),
    ssl_key_file: fileOf('server.key'),
    ssl_ca_file: fileOf('client.crt'),
    hba_file: fileOf('pg_hba.conf'),
  });
  await node.query('CREATE ROLE guarded LOGIN');
});
afterAll(async () => {
  await node.remove();
  await rm(folder, { recursive: true, force: true });
});

const isEncrypted = statement<{ ssl: boolean }>(
  'is_encrypted',
  'SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()',
);

/** Whether the connection is encrypted. */
async function open(hosts: readonly string[], query: string, user = 'ringfence'): Promise<boolean | undefined> {
  const at = hosts.map((host) => `${host}:${node.port}`).join(',');
  const connection = await new Primary(`postgres://${user}@${at}/postgres?${query}`).open();
  try {
    return (await connection.run(isEncrypted, []))[0]?.ssl;
  } finally {
    await connection.end();
  }
}

const [address, name] = ['127.0.0.1', 'localhost'];
const ours = () => `sslrootcert=${fileOf('server.crt')}`;
const others = () => `sslrootcert=${fileOf('client.crt')}`;

test('each sslmode encrypts and checks what it says', async () => {
  expect(await open([address], '')).toBe(false);
  for (const mode of ['allow', 'prefer', 'require']) expect(await open([name], `sslmode=${mode}`), mode).toBe(true);
  expect(await open([name], `sslmode=verify-ca&${ours()}`)).toBe(true);
  expect(await open([address], `sslmode=verify-full&${ours()}`)).toBe(true);
});

test('a server with another name or of another authority is refused', async () => {
  await expect(open([name], `sslmode=verify-full&${ours()}`)).rejects.toThrow(/Hostname\/IP does not match/);
  for (const mode of ['require', 'verify-ca', 'verify-full'])
    await expect(open([address], `sslmode=${mode}&${others()}`), mode).rejects.toThrow(/self-signed certificate/);
  for (const query of ['sslmode=verify-full', 'sslrootcert=system'])
    await expect(open([address], query), query).rejects.toThrow(/self-signed certificate/);
});

test('of several hosts, one that cannot be trusted is passed over, and the reason of each is told', async () => {
  expect(await open([name, address], `sslmode=verify-full&${ours()}`)).toBe(true);
  await expect(open([name, address], `sslmode=verify-full&${others()}`)).rejects.toThrow(
    /no primary: localhost:\d+: .*; 127\.0\.0\.1:\d+: self-signed certificate/,
  );
});

test('a certificate of its own opens what asks for one', async () => {
  const own = () => `sslcert=${fileOf('client.crt')}&sslkey=${fileOf('client.key')}`;
  expect(await open([address], `sslmode=verify-full&${ours()}&${own()}`, 'guarded')).toBe(true);
  await expect(open([address], `sslmode=verify-full&${ours()}`, 'guarded')).rejects.toThrow(/client certificate/);
});

test('a server that answers that it speaks no TLS gets nothing from a URL that requires it', async () => {
  await node.reload({ ssl: 'off' });
  await expect.poll(() => open([address], 'sslmode=prefer')).toBe(false);
  for (const mode of ['require', 'verify-ca', 'verify-full'])
    await expect(open([address], `sslmode=${mode}&${ours()}`), mode).rejects.toThrow(/does not support SSL/);
});
