/**
 * Soaks a server: honest load on a fixed schedule beside an attacker of each kind in turn, with quiet in between. Fails when the honest wait
 * three times as long as in the quiet of the same run, when one of them is refused or loses its stream, or when memory grows from round to
 * round. `RINGFENCE_SOAK_MINUTES` (default 2, up to 10), `RINGFENCE_SOAK_AGAINST` (some of the attackers, by comma). Not measured: attackers with more bandwidth than the machine has.
 */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { constants, setPriority } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Api } from '../test/lib/http.ts';
import { temporaryDirectory } from '../test/lib/postgres.ts';
import { Program } from '../test/lib/run.ts';
import { at, showGoals } from './lib/goals.ts';
import { figure, table } from './lib/table.ts';
import { attack, attackers as known, type Attacker, type Foothold, type Pace } from './soak/attacks.ts';
import { HonestLoad, type Slice, type World } from './soak/honest.ts';
import { MemoryWatch } from './soak/memory.ts';

const minutes = Math.min(10, Math.max(0.2, Number(process.env['RINGFENCE_SOAK_MINUTES'] ?? 2)));
const chosen = process.env['RINGFENCE_SOAK_AGAINST']?.split(',');
const attackers = known.filter((kind) => chosen?.includes(kind) ?? true);
const rounds = minutes < 4 ? 2 : 4;
const sliceMs = (minutes * 60_000) / (rounds * attackers.length * 2);
const pace: Pace = { requestsPerSecond: 40, bytesPerSecond: 8_000_000 };
/** Of the organization whose owner is hostile. */
const labelledDevices = Number(process.env['RINGFENCE_SOAK_DEVICES'] ?? 2_000);
const honest = { perSecond: 60, streams: 40 };
const most = { ratio: 3, growth: 1.2, growthMB: 40 };
const adminToken = `rf_user_${'s'.repeat(43)}`;

if (process.argv[2] === 'attack') {
  const [kind, foothold] = JSON.parse(process.argv[3] ?? '[]') as [Attacker, Foothold];
  await attack(kind, foothold, pace);
}

interface Stage {
  readonly world: World;
  readonly footholds: { readonly [Kind in Attacker]: Foothold };
}

/** An organization with honest members and devices, and one hostile member with all it can get. */
async function prepare(url: string): Promise<Stage> {
  const admin = new Api(url, adminToken);
  const person = async (
    username: string,
  ): Promise<{ readonly id: string; readonly api: Api; readonly token: string }> => {
    const { id } = await admin.expect(201, 'POST', '/api/users', { username });
    const { token } = await admin.expect(201, 'POST', `/api/users/${id}/tokens`, {});
    return { id, token, api: new Api(url, token) };
  };
  const owner = await person('owner');
  const { id: org } = await owner.api.expect(201, 'POST', '/api/organizations', { name: 'soaked' });
  const base = `/api/organizations/${org}`;
  const others = [await person('ada'), await person('bob'), await person('mallory')] as const;
  for (const { id } of others) await owner.api.expect(201, 'POST', `${base}/members`, { user_id: id });
  const [ada, bob, mallory] = others;
  const devices: string[] = [];
  for (let i = 0; i < 100; i += 1) {
    const made = await owner.api.expect(201, 'POST', `${base}/devices`, { public_key: `key-${i}` });
    devices.push(made.id);
  }
  const { id: group } = await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'web' });
  const elsewhere = await person('trudy');
  const { id: other } = await elsewhere.api.expect(201, 'POST', '/api/organizations', { name: 'elsewhere' });
  const labelled: string[] = [];
  for (let from = 0; from < labelledDevices; from += 50) {
    const made = await Promise.all(
      Array.from({ length: 50 }, (_, index) =>
        elsewhere.api.expect(201, 'POST', `/api/organizations/${other}/devices`, {
          public_key: `key-${from + index}`,
          labels: [`l${index % 2}`],
        }),
      ),
    );
    labelled.push(...made.map(({ id }: { id: string }) => id));
  }
  elsewhere.api.close();
  const readOnly = await mallory.api.expect(201, 'POST', '/api/users/me/tokens', { scope: 'read-only' });
  const hostile = await mallory.api.expect(201, 'POST', `${base}/devices`, { public_key: 'mallory' });
  for (const { api } of [owner, ...others]) api.close();
  admin.close();
  const foothold = (token?: string): Foothold => ({ url, org, device: hostile.id, token });
  return {
    world: { url, org, tokens: [owner.token, ada.token, bob.token], devices, group },
    footholds: {
      stranger: foothold(),
      'read-only token': foothold(readOnly.token),
      member: foothold(mallory.token),
      'device token': foothold(hostile.device_token),
      waiter: foothold(mallory.token),
      'owner elsewhere': { url, org: other, device: labelled[0] ?? '', token: elsewhere.token },
      asker: foothold(mallory.token),
      'tester elsewhere': { url, org: other, device: labelled[0] ?? '', token: elsewhere.token },
    },
  };
}

/** An attacker at work, with the lowest priority: it shares the machine with its victims. */
class AttackProcess {
  readonly #child: ChildProcess;
  /** How often each status was answered. */
  answered: Readonly<Record<string, number>> = {};

  private constructor(child: ChildProcess) {
    this.#child = child.on('message', (message) => (this.answered = message as Readonly<Record<string, number>>));
  }

  /** Resolves when it begins. */
  static async start(kind: Attacker, foothold: Foothold): Promise<AttackProcess> {
    const child = fork(fileURLToPath(import.meta.url), ['attack', JSON.stringify([kind, foothold])]);
    setPriority(child.pid ?? 0, constants.priority.PRIORITY_LOW);
    await once(child, 'message');
    return new AttackProcess(child);
  }

  async stop(): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await ended;
  }
}

const all = (slices: readonly Slice[], of: 'times' | 'deliveries'): readonly number[] =>
  slices.flatMap((one) => one[of]);

/** Waits until the honest are answered as in the first quiet again, so that no attack counts as the quiet before the next. Gives the seconds it took. */
async function calmAgain(load: HonestLoad, first: Slice | undefined): Promise<number> {
  const begun = performance.now();
  const usual = at(first?.times ?? [], 0.99);
  for (let second = 0; second < 60; second += 1) {
    const slice = load.begin();
    await sleep(1_000);
    if (slice.times.length >= honest.perSecond / 2 && at(slice.times, 0.9) <= 2 * usual) break;
  }
  return (performance.now() - begun) / 1_000;
}

async function soak(pid: number, { world, footholds }: Stage): Promise<boolean> {
  const load = new HonestLoad(world);
  const memory = new MemoryWatch(pid);
  const quiet: Slice[] = [];
  const under = new Map<Attacker, Slice[]>(attackers.map((kind) => [kind, []]));
  const answers = new Map<Attacker, Record<string, number>>(attackers.map((kind) => [kind, {}]));
  const calm = new Map<Attacker, number[]>(attackers.map((kind) => [kind, []]));
  const grown: number[] = [];
  await load.start(honest);
  await sleep(2_000);
  for (let round = 0; round < rounds; round += 1) {
    for (const kind of attackers) {
      quiet.push(load.begin());
      memory.take();
      await sleep(sliceMs);
      if (kind === attackers[0]) grown.push(memory.take());
      load.begin();
      const attacker = await AttackProcess.start(kind, footholds[kind]);
      under.get(kind)?.push(load.begin());
      await sleep(sliceMs);
      await attacker.stop();
      calm.get(kind)?.push(await calmAgain(load, quiet[0]));
      const counts = answers.get(kind) ?? {};
      for (const [status, count] of Object.entries(attacker.answered)) counts[status] = (counts[status] ?? 0) + count;
    }
  }
  load.begin();
  await sleep(3_000);
  grown.push(memory.take());
  memory.stop();
  const lost = load.lost;
  await load.stop();

  const base = at(all(quiet, 'times'), 0.99);
  const row = (
    name: string,
    slices: readonly Slice[],
    after: readonly number[] = [0],
    counts: Readonly<Record<string, number>> = {},
  ) => {
    const times = all(slices, 'times');
    return [
      name,
      times.length,
      at(times, 0.5),
      at(times, 0.99),
      at(times, 1),
      at(times, 0.99) / base,
      at(all(slices, 'deliveries'), 0.99),
      Math.max(...after),
      slices.reduce((sum, one) => sum + one.failures.length, 0),
      Object.entries(counts)
        .map(([status, count]) => `${count}× ${status}`)
        .join(', '),
    ];
  };
  console.log(
    `${minutes} minutes, ${rounds} rounds, ${honest.perSecond} honest requests a second, ${honest.streams} streams; ms`,
  );
  console.log(
    table(
      [
        'beside',
        'requests',
        'p50',
        'p99',
        'worst',
        'p99 ÷ quiet',
        'delivery p99',
        'calm after s',
        'failed',
        'the attacker was answered',
      ],
      [
        row('nobody', quiet),
        ...attackers.map((kind) => row(kind, under.get(kind) ?? [], calm.get(kind), answers.get(kind))),
      ],
    ),
  );
  const [, warm = Number.NaN] = grown;
  const last = grown.at(-1) ?? Number.NaN;
  console.log(`memory in MB, quiet, round by round: ${grown.map(figure).join(', ')}; streams lost: ${lost}`);
  const failures = [...quiet, ...[...under.values()].flat()].flatMap((one) => one.failures);
  for (const failure of new Set(failures.slice(0, 20))) console.log(`failed: ${failure}`);
  const slow = attackers.filter((kind) => at(all(under.get(kind) ?? [], 'times'), 0.99) > most.ratio * base);
  const swollen = last > warm * most.growth + most.growthMB;
  showGoals([
    ...attackers.map((kind) => ({
      what: `honest p99 beside ${kind}, ÷ quiet`,
      goal: most.ratio,
      measured: at(all(under.get(kind) ?? [], 'times'), 0.99) / base,
      unit: '×',
    })),
    { what: 'honest requests that failed, and streams lost', goal: 0, measured: failures.length + lost, unit: '' },
  ]);
  if (slow.length > 0) console.log(`too slow beside: ${slow.join(', ')}`);
  if (swollen) console.log(`memory grew from ${figure(warm)} to ${figure(last)} MB`);
  return slow.length === 0 && !swollen && failures.length === 0 && lost === 0;
}

const dir = await temporaryDirectory();
const program = await Program.build();
try {
  const run = program.run(['server', '--data', dir, '--listen', '127.0.0.1:0', '--log-level', 'error'], {
    RINGFENCE_ADMIN_TOKEN: adminToken,
  });
  const url = await run.url();
  const well = await soak(run.child.pid ?? 0, await prepare(url));
  await run.stop();
  if (!well) process.exitCode = 1;
} finally {
  await program.close();
  // After a failure PostgreSQL is still ending: what it writes meanwhile must not hide why.
  await rm(dir, { recursive: true, force: true, maxRetries: 20 });
}
