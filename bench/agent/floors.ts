/**
 * Owns what no change can be quicker than, each after the same pause as a change: a page on the disk of the database, an HTTP server that only answers,
 * a question that PostgreSQL needs not think about, the statement of the change by itself, and an `nft` that runs and turns a chain.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client as Postgres } from 'pg';
import { NftSession } from '../../src/agent/kernel/nft-session.ts';
import type { Lab } from '../../dev/lab/lab.ts';
import { systemClock } from '../../src/client/clock.ts';
import type { Client } from '../../src/client/http.ts';
import { runningUrl } from '../../src/server/database/cluster.ts';
import { Operator, type ChangeTimes } from './operator.ts';
import { updateGroupFunction } from '../lib/pgbench.ts';
import type { BenchTls } from '../lib/tls.ts';
import { now } from './witness.ts';

const rounds = 30;
const timeout = 20_000;
/** In the background of the figures: those of a server that has worked for a while. */
const warmUps = 500;

/** A group that no device has, in an organization of its own: what is written to it wakes no agent. */
export interface Elsewhere {
  readonly organization: string;
  readonly group: string;
  readonly user: string;
}

const rules = (port: number) => [{ ip_protocol: 'tcp' as const, from_port: port, to_port: port }];

/** Makes that group and changes it often: Node compiles what runs often, and a server runs for weeks. */
export async function warmUp(client: Client, operator: Operator): Promise<Elsewhere> {
  const { id: organization } = await client.organizations.create({ name: 'elsewhere' });
  const { id: group } = await client.groups.create(organization, { group_name: 'elsewhere', inbound_rules: [] });
  for (let n = 0; n < warmUps; n++) {
    await operator.changeGroup(organization, group, { inbound_rules: rules(10_000 + n) });
  }
  const { id: user } = await client.whoAmI();
  return { organization, group, user };
}

export interface Floors {
  readonly http: readonly number[];
  readonly question: readonly number[];
  readonly statement: readonly number[];
  readonly disk: readonly number[];
  readonly filter: readonly number[];
}

/** Answers every request with its own body, over TLS, in a process of its own. */
const bareServer = `const { readFileSync } = require('node:fs');
const [cert, key] = process.argv.slice(1).map((file) => readFileSync(file));
require('node:https').createServer({ cert, key }, (request, response) => {
  const chunks = [];
  request.on('data', (chunk) => chunks.push(chunk));
  request.on('end', () => response.setHeader('content-type', 'application/json').end(Buffer.concat(chunks)));
}).listen(0, '127.0.0.1', function () { console.log(this.address().port); })`;

async function startBareServer({
  cert,
  key,
}: BenchTls): Promise<{ readonly operator: Operator; readonly end: () => Promise<void> }> {
  const child = spawn(process.execPath, ['-e', bareServer, cert, key], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [port] = (await once(child.stdout, 'data')) as [Buffer];
  const operator = new Operator(`https://127.0.0.1:${port.toString().trim()}`, 'nobody');
  const end = async (): Promise<void> => {
    await operator.end();
    child.kill('SIGKILL');
  };
  return { operator, end };
}

/** The store's own statements in one call, by a client without a store. */
function bareStatement(postgres: Postgres, { organization, group, user }: Elsewhere) {
  return async (port: number): Promise<void> => {
    const values = [organization, group, user, port];
    await postgres.query({ name: 'bench', text: 'SELECT bench_update_group($1, $2, $3, $4)', values });
  };
}

export async function measureFloors(
  lab: Lab,
  elsewhere: Elsewhere,
  { pause, tls }: { readonly pause: number; readonly tls: BenchTls },
): Promise<Floors> {
  const { namespace } = lab.device(1);
  const database = await runningUrl(join(lab.folder, 'server'));
  if (database === undefined) throw new Error('the database of the lab does not run');
  const file = await open(join(lab.folder, 'floor'), 'w');
  const session = new NftSession({ clock: systemClock, prefix: namespace.inside([]), program: 'nft' });
  const bare = await startBareServer(tls);
  const postgres = new Postgres({ connectionString: database.url });
  await postgres.connect();
  await postgres.query(updateGroupFunction());
  const change = bareStatement(postgres, elsewhere);
  const turn = 'flush chain inet floor turned; add rule inet floor turned iifname "none" drop';
  const ways: { readonly [Name in keyof Floors]: (round: number) => Promise<unknown> } = {
    http: (round) => bare.operator.changeGroup('o', 'g', { inbound_rules: rules(round) }),
    question: () => postgres.query({ name: 'nothing', text: 'SELECT' }),
    statement: (round) => change(20_000 + round),
    disk: async (round) => {
      await file.write(Buffer.alloc(8_192, round));
      await file.datasync();
    },
    filter: () => session.ask(turn, timeout),
  };
  const times = { http: [], question: [], statement: [], disk: [], filter: [] } satisfies Record<string, number[]>;
  const names = Object.keys(ways) as (keyof Floors)[];
  try {
    await session.ask('add table inet floor; add chain inet floor turned', timeout);
    for (const name of names) for (let n = 0; n < 100; n++) await ways[name](100 + n);
    for (let round = 1; round <= rounds; round++) {
      for (const name of names) {
        await sleep(pause);
        const start = now();
        const told = await ways[name](round);
        const { asked, answered } = (told ?? {}) as Partial<ChangeTimes>;
        (times[name] as number[]).push((answered ?? now()) - (asked ?? start));
      }
    }
    await session.ask('delete table inet floor', timeout);
  } finally {
    await session.end();
    await postgres.end();
    await bare.end();
    await file.close();
  }
  return times;
}
