/**
 * Owns the simulation of a large fleet: what it needs of servers and of the database on a normal day, when everyone reconnects, and at a failover. It adds up
 * unit costs that were measured one by one; it does not know what only a fleet of that size would show.
 */
import { table, type Cell } from '../lib/table.ts';

interface UnitCost {
  readonly what: string;
  readonly value: number;
  readonly unit: string;
  /** Where it was measured. */
  readonly from: string;
}

const capacity = 'findings/stream.md, 100,000 streams';
const receipts = 'findings/server.md, receipts';

/** What one of each costs, measured on 2 × Neoverse-N1 (arm64) or 2 × Xeon at 2.5 GHz, Node 20. */
export const unitCosts = {
  stream: { what: 'memory of an idle stream over TLS', value: 35.1, unit: 'KB', from: capacity },
  process: {
    what: 'memory of a process without streams, one for each processor',
    value: 150,
    unit: 'MB',
    from: 'assumed: 95 when new',
  },
  opening: { what: 'a stream that opens with a full handshake', value: 4_150, unit: 'µs', from: capacity },
  resumption: { what: 'a stream that resumes its TLS session', value: 3_380, unit: 'µs', from: capacity },
  delivery: { what: 'a change on one stream', value: 43.6, unit: 'µs', from: capacity },
  heartbeat: { what: 'a heartbeat on one stream', value: 43.6, unit: 'µs', from: 'assumed: as much as a change' },
  sign: {
    what: 'a sign of life',
    value: 7.8,
    unit: 'µs',
    from: 'README.md: 0.39 % of a core for 10,000 devices, each every 20 s',
  },
  report: { what: 'a report of a device, in the server', value: 190, unit: 'µs', from: receipts },
  reportInDatabase: { what: '… in the database', value: 45, unit: 'µs', from: receipts },
  change: {
    what: 'a change by the API, server and database together',
    value: 1_199,
    unit: 'µs',
    from: 'findings/writes.md, 64 organizations',
  },
  failover: {
    what: 'writes stop when the primary is lost',
    value: 21,
    unit: 's',
    from: 'test/cluster/patroni.cluster.test.ts',
  },
} as const satisfies Readonly<Record<string, UnitCost>>;

export type UnitCosts = Readonly<Record<keyof typeof unitCosts, UnitCost>>;

export interface Fleet {
  readonly devices: number;
  readonly organizations: number;
  /** Changes of a group that all devices of an organization have, in each organization on one day. */
  readonly changesPerDay: number;
  /** The busiest hour of the day ÷ an average one. */
  readonly peak: number;
  /** How often a device comes back on one day: a laptop that was closed, a network that was changed. */
  readonly returnsPerDay: number;
}

export const millionDevices: Fleet = {
  devices: 1_000_000,
  organizations: 10_000,
  changesPerDay: 20,
  peak: 4,
  returnsPerDay: 2,
};

export interface Machine {
  readonly processors: number;
  readonly memoryGb: number;
}

export const usualMachine: Machine = { processors: 8, memoryGb: 32 };

/** What a server may be used for at most, and how soon a fleet has to be back. */
const most = { memory: 0.6, processorsOnADay: 0.5, processorsOnReturn: 0.8, backWithinSeconds: 300 } as const;
/** As the server and the agent have them. */
const seconds = { heartbeat: 15, sign: 20, report: 300, day: 86_400 } as const;

export interface Simulated {
  readonly memoryGb: number;
  /** Processors that are busy on a normal day, by what they do. */
  readonly day: Readonly<Record<string, number>>;
  readonly dayTotal: number;
  readonly databaseDay: number;
  /** Seconds of processor time for everyone to come back, with their TLS sessions and without. */
  readonly returnSeconds: { readonly resumed: number; readonly full: number };
  /** Servers by what needs them, then with one that may be missing. */
  readonly servers: { readonly memory: number; readonly day: number; readonly mass: number; readonly total: number };
  /** Seconds until everyone is back on all servers, and until the streams of one lost server are back on the others. */
  readonly backSeconds: { readonly resumed: number; readonly full: number; readonly oneServer: number };
  /** Reports that are due when the database is back after a failover, and how long the servers take for them, in seconds. */
  readonly failover: { readonly reports: number; readonly seconds: number; readonly databaseSeconds: number };
}

const sum = (values: Readonly<Record<string, number>>): number => Object.values(values).reduce((a, b) => a + b, 0);

export function simulate(fleet: Fleet, machine: Machine = usualMachine, costs: UnitCosts = unitCosts): Simulated {
  const us = (name: keyof UnitCosts): number => costs[name].value / 1e6;
  const { devices, organizations } = fleet;
  const changes = ((organizations * fleet.changesPerDay) / seconds.day) * fleet.peak;
  const touched = changes * (devices / organizations);
  const reports = devices / seconds.report + touched;
  const day = {
    heartbeats: (devices / seconds.heartbeat) * us('heartbeat'),
    'signs of life': (devices / seconds.sign) * us('sign'),
    reports: reports * us('report'),
    changes: changes * us('change'),
    deliveries: touched * us('delivery'),
    'devices that come back': ((devices * fleet.returnsPerDay) / seconds.day) * fleet.peak * us('opening'),
  };
  const dayTotal = sum(day);
  const streamsGb = (devices * costs.stream.value) / 1024 / 1024;
  const memoryOf = (servers: number): number => streamsGb + (servers * machine.processors * costs.process.value) / 1024;
  const returnSeconds = { resumed: devices * us('resumption'), full: devices * us('opening') };
  const needed = {
    memory: Math.max(
      1,
      Math.ceil(streamsGb / (machine.memoryGb * most.memory - (machine.processors * costs.process.value) / 1024)),
    ),
    day: Math.max(1, Math.ceil(dayTotal / (machine.processors * most.processorsOnADay))),
    mass: Math.max(
      1,
      Math.ceil(returnSeconds.full / (machine.processors * most.processorsOnReturn) / most.backWithinSeconds),
    ),
  };
  const total = Math.max(needed.memory, needed.day, needed.mass) + 1;
  const power = (servers: number): number => servers * machine.processors * most.processorsOnReturn;
  const due = Math.round(reports * costs.failover.value);
  return {
    memoryGb: memoryOf(total),
    day,
    dayTotal,
    // A change is counted here completely, too: how it divides between the two was not measured.
    databaseDay: reports * us('reportInDatabase') + changes * us('change'),
    returnSeconds,
    servers: { ...needed, total },
    backSeconds: {
      resumed: returnSeconds.resumed / power(total),
      full: returnSeconds.full / power(total),
      oneServer: returnSeconds.resumed / total / power(total - 1),
    },
    failover: {
      reports: due,
      seconds: (due * us('report')) / power(total),
      databaseSeconds: due * us('reportInDatabase'),
    },
  };
}

/** Two significant figures: what sums of measured costs can vouch for. */
const rounded = (value: number): string => Number(value.toPrecision(2)).toLocaleString('en-US');

/** Fleets of several sizes, each with 100 devices in an organization. */
export const sizes: readonly number[] = [1_000, 10_000, 100_000, 1_000_000];

const serverRow = (devices: number): Cell[] => {
  const found = simulate({ ...millionDevices, devices, organizations: devices / 100 });
  return [
    devices.toLocaleString('en-US'),
    String(found.servers.total),
    rounded(found.memoryGb),
    rounded(found.dayTotal),
    rounded(found.databaseDay),
    rounded(found.backSeconds.resumed),
  ];
};

/** What the page quotes. */
export function report(): string {
  const fleet = millionDevices;
  const found = simulate(fleet);
  const { servers, backSeconds, failover } = found;
  const line = (what: string, value: number, unit: string): Cell[] => [what, `${rounded(value)} ${unit}`.trim()];
  return [
    table(
      ['devices', 'servers', 'memory of all, GB', 'busy processors on a day', '… of the database', 'all back after, s'],
      sizes.map(serverRow),
    ),
    `${fleet.devices.toLocaleString('en-US')} devices in ${fleet.organizations.toLocaleString('en-US')} organizations, servers with ${usualMachine.processors} processors and ${usualMachine.memoryGb} GB:`,
    table(
      ['', ''],
      [
        line('servers: for memory', servers.memory, ''),
        line('… for a normal day', servers.day, ''),
        line(`… so that all are back within ${most.backWithinSeconds} s`, servers.mass, ''),
        line('… and one that may be missing', servers.total, 'in all'),
        line('memory of all servers', found.memoryGb, 'GB'),
        ...Object.entries(found.day).map(([what, busy]) =>
          line(`normal day, busiest hour: ${what}`, busy, 'processors'),
        ),
        line('normal day, busiest hour: the database', found.databaseDay, 'processors'),
        line('everyone reconnects, with TLS sessions', backSeconds.resumed, 's'),
        line('everyone reconnects, without', backSeconds.full, 's'),
        line('one server is lost: its devices are back', backSeconds.oneServer, 's'),
        line('the primary is lost: writes stop', unitCosts.failover.value, 's'),
        line('… reports that are due then', failover.reports, ''),
        line('… which take all servers', failover.seconds, 's'),
        line('… and one processor of the database', failover.databaseSeconds, 's'),
      ],
    ),
    'From these unit costs:',
    table(
      ['', 'measured', 'where'],
      Object.values(unitCosts).map(({ what, value, unit, from }) => [
        what,
        `${value.toLocaleString('en-US')} ${unit}`,
        from,
      ]),
    ),
  ].join('\n\n');
}
