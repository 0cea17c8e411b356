/**
 * Owns one side of the history benchmark: a store on a database of its own, which makes as many writes as requested.
 */
import { rm } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { openDatabase } from '../../src/server/database/supervise.ts';
import { asServer, type Actor } from '../../src/server/store/data/actor.ts';
import { openStore } from '../../src/server/store/open.ts';
import { device, group } from '../../src/server/store/store.fixture.ts';
import { temporaryDirectory } from '../../test/lib/postgres.ts';
import { updateNote } from '../lib/pgbench.ts';

const crowd = 64;
const rulesOf = (serial: number) =>
  Array.from({ length: 10 }, (_, index) => ({
    ip_protocol: 'tcp' as const,
    from_port: 1 + ((serial + index) % 60_000),
    to_port: 1 + ((serial + index) % 60_000),
    ip_ranges: [`10.${index}.0.0/16`],
  }));

const dir = await temporaryDirectory();
const database = await openDatabase({ dir });
const store = await openStore({ url: database.url, phase: 3 });
try {
  const { id: user_id } = await store.users.create({ username: 'bench' }, asServer);
  const by: Actor = { user_id, audit: updateNote(user_id), ...asServer };
  const { id: org } = await store.organizations.create(user_id, { name: 'bench', description: '' }, asServer);
  const devices = await Promise.all(
    Array.from({ length: crowd }, () => store.devices.create(org, by, device(user_id))),
  );
  const groups = await Promise.all(
    Array.from({ length: crowd }, (_, c) =>
      store.groups.create(org, by, 'organization', group({ group_name: `group ${c}`, inbound_rules: rulesOf(c) })),
    ),
  );
  let serial = 0;
  const writes = {
    group: async (c: number): Promise<void> => {
      const id = groups[c]?.record.id;
      if (id !== undefined)
        await store.groups.update(org, by, 'organization', id, { inbound_rules: rulesOf((serial += 1)) });
    },
    device: async (c: number): Promise<void> => {
      const id = devices[c]?.record.id;
      if (id !== undefined) await store.devices.update(org, by, id, { hostname: `host ${(serial += 1)}` });
    },
  };
  process.stdout.write('ready\n');
  for await (const line of createInterface({ input: process.stdin })) {
    const [what = '', writers = '', count = ''] = line.split(' ');
    if (what !== 'group' && what !== 'device') break;
    const each = Math.ceil(Number(count) / Number(writers));
    await Promise.all(
      Array.from({ length: Number(writers) }, async (_, c) => {
        for (let n = 0; n < each; n += 1) await writes[what](c);
      }),
    );
    process.stdout.write('done\n');
  }
} finally {
  await store.close();
  await database.stop();
  await rm(dir, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
}
