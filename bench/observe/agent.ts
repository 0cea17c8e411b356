/** Owns the measure of what recording costs a real agent that follows a real server over TLS on the packaged runtime, while 1,000 new tuples a minute reach its device. */
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
/** With `all`; one more with `counters` comes before them. The heap grows in the first stretches whatever the agent records. */
const stretches = Number(process.env['RINGFENCE_BENCH_PAIRS'] ?? 3);

/** Sends datagrams at a steady pace, each to another port, so that each is a tuple of its own. */
const sender = `
const [to, everyMs] = process.argv.slice(1);
const socket = require('node:dgram').createSocket('udp4').on('error', () => {});
let sent = 0;
setInterval(() => socket.send('x', 10_000 + (sent++ % 50_000), to, () => {}), Number(everyMs));`;

/** The agent with its helpers, in MB. */
const resident = (pid: number): number => treeOf(pid).reduce((sum, one) => sum + (residentKb(one) || 0), 0) / 1_024;

interface Stretch {
  /** Percent of a core. */
  readonly processor: number;
  readonly memory: number;
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
      let memory = 0;
      const sampling = setInterval(() => (memory = Math.max(memory, resident(pid))), 500);
      meter.start();
      const began = performance.now();
      await sleep(stretchMs);
      meter.stop();
      clearInterval(sampling);
      return { processor: (sumOf(meter.total) / 1_000 / (performance.now() - began)) * 100, memory };
    };
    const found: { readonly counters: Stretch[]; readonly all: Stretch[] } = { counters: [], all: [] };
    const sums: number[] = [];
    for (const observe of ['counters', 'all'] as const) {
      await client.organizations.update(organization, { observe });
      // The agent follows, and what it compiles the first time is no part of the stretch.
      await sleep(10_000);
      const count = observe === 'counters' ? stretches + 1 : stretches;
      for (let number = 0; number < count; number += 1) {
        const began = Date.now();
        found[observe].push(await stretch());
        if (observe === 'all') sums.push(await countSums(began, Date.now()));
      }
    }
    const of = (what: keyof Stretch, observe: keyof typeof found): number =>
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
