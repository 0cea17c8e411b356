/** Proves that no server takes the memory of a device, whatever it sends: the real agent, in a control group, keeps its last good policy and says why. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Writable } from 'node:stream';
import { once } from 'node:events';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { device, deviceId, group, organization } from '../../src/client/records.fixture.ts';
import { eventually } from '../lib/eventually.ts';
import { kernelMemoryWhile } from '../lib/kernel-memory.ts';
import { MemoryGroup } from '../lib/memory-group.ts';
import { comesTrue, Device, driver, installProgram, removeFolder, statusOf, type RunningAgent } from './device.ts';

const megabyte = 1024 * 1024;
/** What a small device has, and what the agent may take of it. */
const deviceMemory = 512 * megabyte;

type Pieces = Iterable<string | Uint8Array>;
const line = (document: object): string => `${JSON.stringify(document)}\n`;
const change = (kind: 'device' | 'security-groups', value: object) => line({ type: 'change', kind, value });
const tails = (revision: number): string =>
  (['device', 'security-groups'] as const).map((kind) => line({ type: 'tail', kind, revision })).join('');
const rule = (ip_ranges?: readonly string[]) =>
  ({ ip_protocol: 'tcp', from_port: 22, to_port: 22, ...(ip_ranges && { ip_ranges }) }) as const;
/** A policy that is none too large. */
const goodAt = (revision: number): string =>
  [
    change('device', device(1, revision - 1)),
    change('security-groups', group(1, revision, { is_default: true, inbound_rules: [rule()] })),
    tails(revision),
  ].join('');

async function drained(sink: Writable): Promise<void> {
  const end = new AbortController();
  const { signal } = end;
  await Promise.race(['drain', 'close'].map((event) => once(sink, event, { signal }))).catch(() => {});
  end.abort();
}

/** A server of our own making: it answers everything, and says on streams what it is given. */
class HostileServer {
  readonly #server: Server;
  readonly #streams = new Set<ServerResponse>();
  /** What every stream gets, until it is taken away. */
  says: () => Pieces = () => [goodAt(2)];
  /** What every request gets in the place of an answer. */
  refusal: string | undefined;
  /** Whether readers must begin anew: what they have of a listing that was cut off would stay. */
  forgets = false;
  /** Reports of the agent, the last one last. */
  readonly reports: { readonly state?: string; readonly code?: string }[] = [];

  private constructor(server: Server) {
    this.#server = server;
  }

  static async open(): Promise<HostileServer> {
    const server = createServer();
    const hostile = new HostileServer(server);
    server.on('request', (request, response) => void hostile.#answer(request, response));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return hostile;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Says this on a new stream, and on all that follow. */
  turnTo(says: () => Pieces): void {
    this.says = says;
    for (const stream of this.#streams) stream.destroy();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    if (this.refusal !== undefined) {
      response.writeHead(422, { 'content-type': 'application/problem+json' }).end(this.refusal);
      return;
    }
    response.setHeader('content-type', 'application/json');
    if (!request.url?.endsWith('/events')) {
      if (request.url?.endsWith('/status') === true)
        this.reports.push(JSON.parse(Buffer.concat(parts).toString()) as object);
      response.end('{}');
      return;
    }
    if (this.forgets && Buffer.concat(parts).includes('gt_revision')) {
      response.writeHead(410, { 'content-type': 'application/problem+json' });
      response.end(JSON.stringify({ status: 410, code: 'revision_gone' }));
      return;
    }
    this.#streams.add(response);
    response.once('close', () => this.#streams.delete(response));
    for (const piece of this.says()) {
      if (response.destroyed) return;
      if (!response.write(piece)) await drained(response);
    }
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

function* hosts(count: number): Iterable<string> {
  for (let i = 0; i < count; i += 1) yield `10.${i >> 15}.${(i >> 7) & 255}.${(2 * i) & 255}`;
}

const isolated = { isolated: { since: '2026-01-01T00:00:00.000Z', by: 'x', reason: 'x' } };
const attacks: readonly (readonly [what: string, says: () => Pieces])[] = [
  [
    'one group of 786,000 ranges',
    () => [
      change('security-groups', group(1, 3, { is_default: true, inbound_rules: [rule([...hosts(786_000)])] })),
      tails(3),
    ],
  ],
  [
    'devices whose host names have ten megabytes',
    function* () {
      const hostname = 'x'.repeat(10_000_000);
      for (let number = 2; ; number += 1) {
        const [before = '', after = ''] = change('device', { ...device(number, number + 1), ...isolated }).split(
          `host-${number}`,
        );
        yield* [before, hostname, after];
      }
    },
  ],
  [
    'one document of empty objects',
    function* () {
      yield `{"type":"change","kind":"device","value":{"x":[${'{},'.repeat(5_000_000)}{}]}}\n`;
    },
  ],
  [
    'a record of empty objects',
    function* () {
      for (let number = 2; ; number += 1)
        yield change('device', { ...device(number, number + 1), x: Array.from({ length: 100_000 }, () => ({})) });
    },
  ],
];

let installed: { readonly folder: string; readonly program: string };
beforeAll(async () => {
  installed = await installProgram();
});
afterAll(async () => {
  if (installed !== undefined) await removeFolder(installed.folder);
});

describe('a hostile server', () => {
  let server: HostileServer;
  let host: Device;
  let state: string;
  let memory: MemoryGroup;
  let agent: RunningAgent;
  beforeEach(async () => {
    server = await HostileServer.open();
    host = await Device.open(installed.program);
    host.door.target = server.url;
    state = await mkdtemp(join(tmpdir(), 'ringfence-state-'));
    memory = await MemoryGroup.open(deviceMemory);
    await writeFile(join(state, 'token'), 'rf_device_x\n', { mode: 0o600 });
  });
  afterEach(async () => {
    await agent?.end('SIGKILL');
    await host?.close();
    server?.close();
    await memory?.close();
    if (state !== undefined) await removeFolder(state);
  });

  const start = async (...args: readonly string[]): Promise<void> => {
    const where = `--server ${host.door.url} --organization ${organization} --interface ${driver} --state ${state}`;
    const who = ['--device', deviceId(1), '--token-file', join(state, 'token')];
    agent = host.start([...where.split(' '), ...who, ...args]);
    await memory.add(agent.child.pid ?? 0);
  };
  /** Fails as soon as the agent ends. */
  const withAgent = async (what: string, condition: () => Promise<boolean>): Promise<void> => {
    const ended = agent.ended.then((code) => Promise.reject(new Error(`the agent ended: ${code}\n${agent.output}`)));
    const report = async (): Promise<string> =>
      `${what}\n${JSON.stringify([await statusOf(state), server.reports.at(-1)])}\n${agent.output}`;
    await Promise.race([ended, eventually(report, condition)]);
  };

  test.each(attacks)('that sends %s takes no more memory than a small device has', async (_, says) => {
    await start();
    await host.untilOpen('22', agent);
    server.turnTo(says);
    await withAgent('it says that it is too large', async () => (await statusOf(state))?.held_code === 'too_large');
    await withAgent('it tells the server', () => Promise.resolve(server.reports.at(-1)?.code === 'too_large'));
    expect(await host.openPorts()).toBe('22');
    await comesTrue(async () =>
      expect(await statusOf(state)).toMatchObject({ in_force: 'failed', policy: { origin: 'server', revision: 2 } }),
    );
    expect((await memory.peak()) / megabyte).toBeLessThan(450);
    // It follows again as soon as there is something to follow.
    server.forgets = true;
    server.turnTo(() => [goodAt(9)]);
    await withAgent('the policy is followed again', async () => (await statusOf(state))?.in_force === 'yes');
    await comesTrue(async () => expect(await statusOf(state)).toMatchObject({ policy: { revision: 9 } }));
    expect(await host.openPorts()).toBe('22');
  });

  test('50,000 single addresses are put in force on a small device, the peak of its kernel included', async () => {
    await start();
    await host.untilOpen('22', agent);
    const inbound_rules = [rule([...hosts(50_000)])];
    const many = `${change('security-groups', group(1, 3, { is_default: true, inbound_rules }))}${tails(3)}`;
    const { before, peak: most } = await kernelMemoryWhile(async () => {
      server.turnTo(() => [many]);
      await withAgent(
        '50,000 addresses are in force',
        async () => (await statusOf(state))?.policy.revision === 3 && (await statusOf(state))?.in_force === 'yes',
      );
    });
    const [peak, kernel] = [(await memory.peak()) / megabyte, most - before];
    // Some of the kernel's memory counts twice here.
    expect(peak + kernel, JSON.stringify({ peak, kernel })).toBeLessThan(400);
  });

  test('that poisons every text commands no terminal, in the log and in the status', async () => {
    const poison = 'POISON\u001b]0;x\u0007\u001b[2J\r\u0085\u009b2J\u202e\u2066\u200b\u{e0041}\u2028<script>';
    // oxlint-disable-next-line no-control-regex -- the line ends of a log, and nothing else
    const invisible = /[^\P{C}\n]|[\u2028\u2029]/u;
    const shown = async (): Promise<string> => {
      const [text, json] = await Promise.all(
        [[], ['--output', 'json']].map((how) => host.run(['status', '--state', state, ...how])),
      );
      return `${text?.stdout}${text?.stderr}${json?.stdout}${agent.output}`;
    };
    await start();
    await host.untilOpen('22', agent);
    const inbound_rules = [rule()];
    server.turnTo(() => [
      change('device', device(1, 3, { hostname: poison, public_key: poison })),
      change(
        'security-groups',
        group(1, 4, { is_default: true, group_name: poison, group_description: poison, inbound_rules }),
      ),
      tails(4),
    ]);
    await withAgent(
      'it shows the name',
      async () => (await statusOf(state))?.policy.groups[0]?.name.startsWith('POISON') === true,
    );
    const named = await shown();
    expect(named).toContain('POISON');
    expect(invisible.exec(named)).toBeNull();
    server.turnTo(() => [
      change('security-groups', { ...group(1, 5, { is_default: true }), [poison]: poison }),
      tails(5),
    ]);
    await withAgent('it names the field', async () => (await statusOf(state))?.held?.includes('POISON') === true);
    expect(invisible.exec(await shown())).toBeNull();
    server.refusal = JSON.stringify({
      title: poison,
      detail: poison,
      code: poison,
      errors: [{ pointer: poison, code: poison, detail: poison }],
    });
    server.turnTo(() => []);
    await withAgent(
      'it is refused',
      async () => (await statusOf(state))?.stream.last_error?.message.includes('POISON') === true,
    );
    const refused = await shown();
    expect(invisible.exec(refused)).toBeNull();
    expect(agent.lines('POISON')).toBeGreaterThan(1);
  });
});
