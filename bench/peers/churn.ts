/**
 * Owns the measurement of a large organization under constant change: an agent while devices join and leave a thousand
 * times a second among ten thousand, and the volume of streams by identity while devices roam. Server, agent and load
 * share the machine, so the agent's cost is given per join.
 */
import { connect as connectTo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Lab } from '../../dev/lab/lab.ts';
import type { Client } from '../../src/client/http.ts';
import { installedDoor, startAsUnit } from '../lib/agent-as-unit.ts';
import { httpLoad, type LoadResult } from '../lib/http-load.ts';
import type { Goal } from '../lib/goals.ts';
import { ProcessorMeter, sumOf } from '../lib/processor-time.ts';
import { figure, table } from '../lib/table.ts';
import { resident } from '../soak/memory.ts';

const count = Number(process.env['RINGFENCE_BENCH_DEVICES'] ?? 10_000);
/** Less than a heartbeat, which comes after 15 seconds of silence. */
const seconds = Math.min(12, Number(process.env['RINGFENCE_BENCH_SECONDS'] ?? 10));
/** So many that writes come together, as those of many people and programs do. */
const connections = 64;
const timeout = 120_000;
const perSecond = 1_000;

async function makeDevices(client: Client, organization: string): Promise<readonly string[]> {
  const ids: string[] = [];
  for (let from = 0; from < count; from += 50) {
    const made = await Promise.all(
      Array.from({ length: Math.min(50, count - from) }, (_, i) =>
        client.devices.create(organization, {
          public_key: `key ${from + i}`,
          hostname: `host-${from + i}`,
          tunnel_ip: `10.${(from + i) >> 16}.${((from + i) >> 8) & 255}.${(from + i) & 255}`,
        }),
      ),
    );
    ids.push(...made.map(({ id }) => id));
  }
  return ids;
}

/** A stream of devices that counts what comes after the listing. */
class CountedStream {
  bytes = 0;
  readonly #socket: ReturnType<typeof connectTo>;
  readonly ready: Promise<void>;

  constructor(lab: Lab, view: 'full' | 'identity') {
    const { hostname, port, host } = new URL(lab.url);
    const { organization, token } = lab.place;
    const body = JSON.stringify([{ kind: 'device', view }]);
    const head = [
      `POST /api/organizations/${organization}/events HTTP/1.1`,
      `Host: ${host}`,
      `Authorization: Bearer ${token}`,
      'Content-Type: application/json',
      `Content-Length: ${body.length}`,
    ];
    this.#socket = connectTo({ host: hostname, port: Number(port) });
    this.ready = new Promise((resolve, reject) => {
      let isListed = false;
      let end = '';
      this.#socket.on('error', reject);
      this.#socket.on('data', (chunk: Buffer) => {
        if (isListed) {
          this.bytes += chunk.length;
          return;
        }
        // The mark may lie on the border of two pieces.
        end = (end + chunk.toString('latin1')).slice(-chunk.length - 16);
        if (!end.includes('"tail"')) return;
        isListed = true;
        resolve();
      });
    });
    this.#socket.write(`${head.join('\r\n')}\r\n\r\n${body}`);
  }

  close(): void {
    this.#socket.destroy();
  }
}

const isGood = ({ statuses }: LoadResult): boolean => [...statuses.keys()].every((status) => status === 200);

/** Changes of devices, each connection with devices of its own, as fast as the server takes them. */
async function change(lab: Lab, ids: readonly string[], body: (n: number) => object): Promise<LoadResult> {
  const { organization, token } = lab.place;
  const share = Math.floor(ids.length / connections);
  const result = await httpLoad({
    url: lab.url,
    connections,
    seconds,
    token,
    request: (c, n) => ({
      method: 'PATCH',
      path: `/api/organizations/${organization}/devices/${ids[c * share + (n % share)]}`,
      body: JSON.stringify(body(Math.floor(n / share))),
    }),
  });
  if (!isGood(result)) throw new Error(`the server answered ${JSON.stringify([...result.statuses])}`);
  return result;
}

export async function measureChurn(program: string): Promise<readonly Goal[]> {
  const lab = await Lab.open({
    devices: 1,
    tunnel: 'veth',
    program: [process.execPath, installedDoor(program)],
    serverArguments: ['--rate-limit', '0', '--log-level', 'error'],
  });
  try {
    const { organization, token } = lab.place;
    const client = lab.client(token);
    const [record] = await client.devices.list(organization);
    const own = record?.id ?? '';
    const ids = await makeDevices(client, organization);
    const group = await client.groups.create(organization, {
      group_name: 'db',
      inbound_rules: [{ ip_protocol: 'tcp', from_port: 5_432, to_port: 5_432, peers: [{ labels: ['app'] }] }],
    });
    await client.devices.update(organization, own, { security_groups: [group.id] });
    /** Until the agent says, with a digest of what its kernel holds, that it has everything. */
    const settle = async (): Promise<number> => {
      const from = performance.now();
      for (;;) {
        // Ids ascend, and it is the oldest of all: the first of the list.
        const [first] = await client.statuses.list(organization, { limit: 1 });
        if (first?.device_id !== own) throw new Error('the agent is not the first of the list');
        if (first.in_force === 'yes') return performance.now() - from;
        if (performance.now() - from > timeout) throw new Error('the agent does not keep up');
        await sleep(100);
      }
    };
    const pid = await startAsUnit(lab);
    await settle();
    const atRest = resident(pid);
    const meter = new ProcessorMeter(pid);
    const peak = { memory: 0 };
    const sampling = setInterval(() => (peak.memory = Math.max(peak.memory, resident(pid))), 250);
    meter.start();
    const joins = await change(lab, ids, (n) => ({ labels: n % 2 === 0 ? ['app'] : [] }));
    const behind = await settle();
    meter.stop();
    clearInterval(sampling);
    const spent = sumOf(meter.total) / joins.requests;
    const share = sumOf(meter.total) / (seconds * 10_000 + behind * 10);

    const [full, identity] = [new CountedStream(lab, 'full'), new CountedStream(lab, 'identity')];
    await Promise.all([full.ready, identity.ready]);
    const roamed = await change(lab, ids, (n) => ({ symmetric_nat: n % 2 === 0 }));
    const until = performance.now() + timeout;
    // Each of the changes is in the one stream; what belongs into the other has come by then.
    for (let before = -1; full.bytes !== before && performance.now() < until; await sleep(500)) before = full.bytes;
    const bytes = { full: full.bytes, identity: identity.bytes };
    full.close();
    identity.close();

    console.log(`\nAn organization of ${count.toLocaleString('en-US')} devices, ${seconds} s each:\n`);
    console.log(
      table(
        ['', 'measured'],
        [
          ['joins and leaves a second', figure(joins.perSecond)],
          ["the agent's processor time for each, µs", figure(spent)],
          ['… of a core, %', figure(share)],
          ['resident memory of the agent: at rest, at most, MB', `${figure(atRest)}, ${figure(peak.memory)}`],
          ['until the agent has proved the last of them, ms', figure(behind)],
          ['endpoint changes a second', figure(roamed.perSecond)],
          ['bytes of them to a full stream, to an agent', `${figure(bytes.full)}, ${bytes.identity}`],
        ],
      ),
    );
    if (bytes.full === 0) throw new Error('nobody heard of the endpoint changes');
    return [
      {
        what: 'joins and leaves that the server takes',
        goal: perSecond,
        measured: joins.perSecond,
        unit: '/s',
        atLeast: true,
      },
      { what: 'the agent beside them', goal: 100, measured: share, unit: '% of a core' },
      { what: '… its memory, beside at rest', goal: 1.5, measured: peak.memory / atRest, unit: '×' },
      { what: 'endpoint changes: bytes to an agent', goal: 0, measured: bytes.identity, unit: 'bytes' },
    ];
  } finally {
    await lab.close();
  }
}
