/**
 * Owns the measurement of the agent's start with a saved policy: the time until it is in force, the time until systemd
 * is notified, and memory at rest. It runs with the packaged runtime and with this machine's, beside the same runtime
 * starting an empty program.
 */
import { once } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { runtimeVersion } from '../../scripts/packaging/runtime.mjs';
import { heapEnvironment } from '../../src/agent/host/runtime.ts';
import { StateFolder } from '../../src/agent/state/state-folder.ts';
import { parseInterfaceName } from '../../src/nft/names.ts';
import { written } from '../../src/nft/policies.fixture.ts';
import { parseGroupId } from '../../src/policy/ids.ts';
import { Namespace } from '../../test/lib/netns.ts';
import { median, type Goal } from '../lib/goals.ts';
import { ProcessorMeter, sumOf } from '../lib/processor-time.ts';
import { shippedRuntime } from '../lib/shipped-runtime.ts';
import { figure, table } from '../lib/table.ts';
import { buildOurs, compile, residentKb, root } from '../watch/tools.ts';
import { flips, now, Witness } from './witness.ts';

const rounds = Number(process.env['RINGFENCE_BENCH_ROUNDS'] ?? 9);
/** Starts whose memory is read, each after so many milliseconds at rest. */
const memoryRounds = 3;
const rest = 3_000;

/** One way to run the program. */
interface Way {
  readonly name: string;
  readonly node: string;
  readonly env: NodeJS.ProcessEnv;
  readonly shipped?: true;
}

/** Milliseconds from the start of the process, and of the processor; megabytes. */
interface Start {
  readonly inForce: number;
  readonly ready: number;
  readonly processor: number;
  readonly resident?: number;
}

interface Place {
  readonly namespace: Namespace;
  readonly witness: Witness;
  readonly notices: Notices;
  readonly program: string;
  readonly state: string;
}

/** What is said to systemd, heard in its place by a program that knows the kernel's clock. Node has no sockets of that kind. */
class Notices {
  readonly path: string;
  #at: number | undefined;
  #wake: () => void = () => {};

  constructor(namespace: Namespace, folder: string) {
    this.path = join(folder, 'notify');
    const script = String.raw`
      use Socket; use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC); $| = 1;
      socket(my $socket, AF_UNIX, SOCK_DGRAM, 0) or die $!; bind($socket, sockaddr_un($ARGV[0])) or die $!;
      while (defined recv($socket, my $said, 4096, 0)) { printf "%d\n", clock_gettime(CLOCK_MONOTONIC) * 1e9 if $said =~ /READY/; }`;
    const child = namespace.spawn(['chrt', '--fifo', '10', 'perl', '-e', script, this.path], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    if (child.stdout === null) throw new Error('the listener has no output');
    createInterface({ input: child.stdout }).on('line', (line) => {
      this.#at = Number(line) / 1e6;
      this.#wake();
    });
  }

  /** When the next one comes, by the clock of `now`. */
  async next(): Promise<number> {
    this.#at = undefined;
    const deadline = now() + 20_000;
    while (this.#at === undefined) {
      if (now() > deadline) throw new Error('systemd was never told');
      await Promise.race([new Promise<void>((resolve) => (this.#wake = resolve)), sleep(1_000)]);
    }
    return this.#at;
  }
}

/** The program as its package lays it out. */
function layOut(folder: string): string {
  buildOurs(folder);
  mkdirSync(join(folder, 'bin'));
  cpSync(join(root, 'bin/ringfence'), join(folder, 'bin/ringfence'));
  writeFileSync(join(folder, 'package.json'), '{"name": "ringfence", "version": "0.0.0", "type": "module"}\n');
  return join(folder, 'bin/ringfence');
}

async function savePolicy(state: string): Promise<void> {
  mkdirSync(state, { mode: 0o700 });
  const group = {
    id: parseGroupId('00000000-0000-4000-8000-000000000001'),
    name: 'web',
    inbound: [written('tcp', 443, 443), written('tcp', 22, 22, '10.0.0.0/8')],
    outbound: [written('udp', 53, 53)],
  };
  await new StateFolder({ folder: state }).writePolicy({
    policy: { source: 'list', groups: [group] },
    revision: 7,
    interface: parseInterfaceName('rf0'),
    neighbourDiscovery: true,
  });
  writeFileSync(join(state, 'token'), 'rf_nobody_asks_for_it\n', { mode: 0o600 });
}

/**
 * A machine that has just booted: its kernel has no rules, its disk has the last policy, and the server does not answer
 * yet.
 */
async function startOnce(place: Place, { node, env }: Way, { memory }: { memory: boolean }): Promise<Start> {
  const { namespace, witness, notices, program, state } = place;
  const before = witness.seen.length;
  const { stdout: tables } = await namespace.run(['nft', 'list', 'tables']);
  await namespace.run(['nft', 'flush', 'ruleset']);
  if (tables !== '') await witness.next(before, flips);
  await sleep(200);
  const seen = witness.seen.length;
  const told = notices.next();
  const from = now();
  const child = namespace.spawn([node, program, 'agent'], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: {
      ...env,
      NOTIFY_SOCKET: notices.path,
      RINGFENCE_STATE: state,
      RINGFENCE_SERVER: 'http://127.0.0.1:9',
      RINGFENCE_ORGANIZATION: '00000000-0000-4000-8000-000000000002',
      RINGFENCE_DEVICE: '00000000-0000-4000-8000-000000000003',
      RINGFENCE_TOKEN_FILE: join(state, 'token'),
      RINGFENCE_INTERFACE: 'rf0',
      RINGFENCE_LOG_LEVEL: 'error',
    },
  });
  const ended = once(child, 'close');
  const meter = new ProcessorMeter(child.pid ?? 0);
  meter.start();
  const { at } = await witness.next(seen, flips);
  meter.stop();
  const ready = await told;
  if (memory) await sleep(rest);
  const resident = memory ? residentKb(child.pid ?? 0) / 1_024 : undefined;
  child.kill('SIGTERM');
  await ended;
  return {
    inForce: at - from,
    ready: ready - from,
    processor: sumOf(meter.total) / 1_000,
    ...(resident !== undefined && { resident }),
  };
}

/** The same runtime, starting for nothing: milliseconds until it has ended, and its memory at rest. */
async function bare({ namespace }: Place, { node, env }: Way): Promise<Pick<Start, 'inForce' | 'resident'>> {
  const from = now();
  await once(namespace.spawn([node, '-e', '0'], { stdio: 'ignore', env }), 'close');
  const inForce = now() - from;
  const child = namespace.spawn([node, '-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore', env });
  await sleep(500);
  const resident = residentKb(child.pid ?? 0) / 1_024;
  child.kill('SIGKILL');
  await once(child, 'close');
  return { inForce, resident };
}

export async function measureStart(): Promise<readonly Goal[]> {
  const folder = mkdtempSync(join(tmpdir(), 'ringfence-bench-start-'));
  const namespace = await Namespace.create();
  try {
    await namespace.run(['ip', 'link', 'add', 'rf0', 'type', 'veth', 'peer', 'name', 'rf1']);
    const state = join(folder, 'state');
    await savePolicy(state);
    const place: Place = {
      namespace,
      witness: new Witness(namespace, compile('../agent/stamp.c', folder)),
      notices: new Notices(namespace, folder),
      program: layOut(folder),
      state,
    };
    const own = shippedRuntime(folder);
    const heap = heapEnvironment;
    const cache = { NODE_COMPILE_CACHE: join(folder, 'cache') };
    const ways: readonly Way[] = [
      { name: `Node ${process.versions.node}, of this machine`, node: process.execPath, env: heap },
      { name: `Node ${runtimeVersion}, packaged, first start`, node: own, env: heap },
      { name: `Node ${runtimeVersion}, packaged, compile cache`, node: own, env: { ...heap, ...cache }, shipped: true },
    ];
    await sleep(1_000); // The monitor needs a moment before it sees everything.
    const rows: (readonly (string | number)[])[] = [];
    const goals: Goal[] = [];
    for (const way of ways) {
      // Whatever the way keeps for the next start, it has then; and the files are in memory.
      for (let warm = 0; warm < 2; warm++) await startOnce(place, way, { memory: false });
      const starts: Start[] = [];
      const bares: Pick<Start, 'inForce' | 'resident'>[] = [];
      for (let round = 0; round < rounds; round++) {
        bares.push(await bare(place, way));
        starts.push(await startOnce(place, way, { memory: round < memoryRounds }));
      }
      const of = (what: keyof Start): number[] => starts.flatMap((start) => start[what] ?? []);
      const inForce = median(of('inForce'));
      const resident = median(of('resident'));
      const times = [Math.min(...of('inForce')), inForce, median(of('ready')), median(of('processor'))];
      const idle = [median(bares.map((each) => each.inForce)), median(bares.flatMap((each) => each.resident ?? []))];
      rows.push([way.name, ...times, idle[0] ?? 0, resident, idle[1] ?? 0]);
      if (way.shipped)
        goals.push(
          {
            what: 'start of the agent until in force, median',
            goal: 200,
            measured: inForce,
            unit: 'ms',
            beside: `the runtime alone ${figure(idle[0] ?? 0)} ms`,
          },
          {
            what: 'memory of the started agent',
            goal: 60,
            measured: resident,
            unit: 'MB',
            beside: `the runtime alone ${figure(idle[1] ?? 0)} MB`,
          },
        );
    }
    console.log(`\nFrom the start of the process, with a saved policy of one group, ${rounds} starts each (ms, MB):\n`);
    const head = ['runtime', 'in force: least', 'median', 'systemd told', 'processor time', '`node -e 0`'];
    console.log(table([...head, 'resident', 'resident, for nothing'], rows));
    return goals;
  } finally {
    await namespace.close();
    rmSync(folder, { recursive: true, force: true });
  }
}
