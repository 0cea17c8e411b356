/** Owns the measure of what recording costs a real agent that follows a real server over TLS on the packaged runtime, while 1,000 new tuples a minute reach its device. */
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { openTlsLab, startAsUnit, type TlsLabOptions } from '../lib/agent-as-unit.ts';
import { median, type Goal } from '../lib/goals.ts';
import { ProcessorMeter, sumOf, treeOf } from '../lib/processor-time.ts';
import { figure, table } from '../lib/table.ts';
import { residentKb } from '../watch/tools.ts';

const tuplesPerMinute = 1_000;
/** One report of the agent falls into a stretch. */
const stretchMs = 60_000;
/** The agent reports once a minute; a busy machine takes longer. */
const longestReportMs = 180_000;
/** With `all`. Twelve show whether the growth ends. */
const stretches = Number(process.env['RINGFENCE_BENCH_PAIRS'] ?? 3);
/** With `counters`, before them. The heap grows in the first stretches whatever the agent records. */
const stretchesBefore = 4;

/** Sends datagrams at a steady pace, each to another port, so that each is a tuple of its own. */
const sender = `
const [to, everyMs] = process.argv.slice(1);
const socket = require('node:dgram').createSocket('udp4').on('error', () => {});
let sent = 0;
setInterval(() => socket.send('x', 10_000 + (sent++ % 50_000), to, () => {}), Number(everyMs));`;

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').join(' ');
  } catch {
    return ''; // It ended meanwhile.
  }
}

/** What the program is to the agent; a helper that enters the namespace first has the same name. */
const partOf = (pid: number, agent: number): string => {
  const command = commandOf(pid);
  if (pid === agent) return 'agent';
  if (/nft.* monitor/.test(command)) return 'nft monitor';
  if (/nft.* -i/.test(command)) return 'nft';
  if (command.includes('perl')) return 'netlink';
  return 'others';
};

function residentOf(pid: number): number {
  try {
    return (residentKb(pid) || 0) / 1_024;
  } catch {
    return 0; // It ended meanwhile.
  }
}

/** Resident MB of the agent and its helpers, by program. */
function resident(pid: number): ReadonlyMap<string, number> {
  const parts = new Map<string, number>();
  for (const one of treeOf(pid)) {
    const part = partOf(one, pid);
    parts.set(part, (parts.get(part) ?? 0) + residentOf(one));
  }
  return parts;
}

const total = (parts: ReadonlyMap<string, number>): number => [...parts.values()].reduce((sum, one) => sum + one, 0);

interface Stretch {
  /** Percent of a core. */
  readonly processor: number;
  readonly memory: number;
  /** At the moment of the most. */
  readonly parts: ReadonlyMap<string, number>;
}

export async function measureRecordingAgent(options: Omit<TlsLabOptions, 'devices'>): Promise<readonly Goal[]> {
  const { lab } = await openTlsLab({ ...options, devices: 2 });
  try {
    const [receiver, far] = [lab.device(1), lab.device(2)];
    await far.stopAgent();
    const pid = await startAsUnit(lab);
    const everyMs = String(60_000 / tuplesPerMinute);
    far.namespace.spawn([process.execPath, '-e', sender, receiver.addresses.driver4, everyMs], { stdio: 'ignore' });
    const { organization, token } = lab.place;
    const client = lab.client(token);
    const own = (await client.devices.list(organization)).find(({ hostname }) => hostname === receiver.name);
    /** The sums of this stretch, once the report that covers its end has come. */
    const countSums = async (since: number, until: number): Promise<number> => {
      const query = { device_id: own?.id ?? '', since: new Date(since).toISOString(), limit: 1_000 };
      const giveUp = performance.now() + longestReportMs;
      for (;;) {
        let [count, newest] = [0, 0];
        for await (const sum of client.flows.each(organization, query)) {
          count += 1;
          newest = Math.max(newest, Date.parse(sum.until));
        }
        if (newest >= until) return count;
        if (performance.now() > giveUp)
          throw new Error(`no report covers the stretch; the server stored ${count} sums`);
        await sleep(2_000);
      }
    };
    const stretch = async (): Promise<Stretch> => {
      const meter = new ProcessorMeter(pid);
      let parts = resident(pid);
      const sampling = setInterval(() => {
        const now = resident(pid);
        if (total(now) > total(parts)) parts = now;
      }, 500);
      meter.start();
      const began = performance.now();
      await sleep(stretchMs);
      meter.stop();
      clearInterval(sampling);
      const processor = (sumOf(meter.total) / 1_000 / (performance.now() - began)) * 100;
      return { processor, memory: total(parts), parts };
    };
    const found: { readonly counters: Stretch[]; readonly all: Stretch[] } = { counters: [], all: [] };
    const sums: number[] = [];
    for (const observe of ['counters', 'all'] as const) {
      await client.organizations.update(organization, { observe });
      // The agent follows, and what it compiles the first time is no part of the stretch.
      await sleep(10_000);
      const count = observe === 'counters' ? stretchesBefore : stretches;
      for (let number = 0; number < count; number += 1) {
        const began = Date.now();
        found[observe].push(await stretch());
        if (observe === 'all') sums.push(await countSums(began, Date.now()));
      }
    }
    const of = (what: 'processor' | 'memory', observe: keyof typeof found): number =>
      median(found[observe].map((one) => one[what]));
    const row = (observe: keyof typeof found): string[] => [
      observe,
      found[observe].map(({ processor }) => figure(processor)).join(', '),
      found[observe].map(({ memory }) => figure(memory)).join(', '),
    ];
    console.log(
      `\nAn agent while ${figure(tuplesPerMinute)} new tuples a minute reach its device, with its helpers, stretches of ${stretchMs / 1_000} s one after the other (the server stored ${sums.map(figure).join(', ')} sums of the stretches with \`all\`):\n`,
    );
    console.log(table(['observe', '% of a core', 'resident MB, at most'], [row('counters'), row('all')]));
    const all = [...found.counters.slice(-1), ...found.all];
    const programs = [...new Set(all.flatMap(({ parts }) => [...parts.keys()]))];
    console.log('\nThe same by program: the last stretch with `counters`, then those with `all`:\n');
    console.log(
      table(
        ['program', 'resident MB'],
        programs.map((name) => [name, all.map(({ parts }) => figure(parts.get(name) ?? 0)).join(', ')]),
      ),
    );
    if (sums.some((count) => count < tuplesPerMinute * 0.5))
      throw new Error(`the server stored only ${sums.join(', ')} sums`);
    return [
      {
        what: 'processor time of the agent beside 1,000 new tuples a minute, all − counters',
        goal: 1,
        measured: of('processor', 'all') - of('processor', 'counters'),
        unit: '% of a core',
      },
      {
        what: 'memory of the agent, most with all − most with counters just before',
        goal: 5,
        measured: Math.max(...found.all.map(({ memory }) => memory)) - (found.counters.at(-1)?.memory ?? Number.NaN),
        unit: 'MB',
      },
    ];
  } finally {
    await lab.close();
  }
}
