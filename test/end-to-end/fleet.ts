/** Owns a fleet for tests: the lab with a real server on a real PostgreSQL, what its kernels enforce, and what its packets meet. */
import { readdir, readFile, readlink } from 'node:fs/promises';
import type { SecurityGroup } from '../../src/api/group.ts';
import type { LabDevice } from '../../dev/lab/device.ts';
import { Lab } from '../../dev/lab/lab.ts';
import type { Client } from '../../src/client/http.ts';
import { decompile, type Decompiled } from '../../src/nft/read/decompile.ts';
import { parseListing } from '../../src/nft/read/parse-listing.fixture.ts';
import type { CanonicalPolicy } from '../../src/policy/canonical.ts';
import { canonicalize } from '../../src/policy/canonicalize.ts';
import { effectivePolicy } from '../../src/policy/effective.ts';
import { Fleet as PeerFleet } from '../../src/policy/fleet/fleet.ts';
import { readGroupRecord } from '../../src/policy/fleet/group-record.ts';
import { deviceIdentity } from '../../src/policy/fleet/identity.ts';
import { resolvePolicy } from '../../src/policy/fleet/resolve.ts';
import { parseGroupId } from '../../src/policy/ids.ts';
import { policyIsolation } from '../../src/policy/isolation/isolation.ts';
import { samePolicy } from '../../src/policy/same-policy.ts';
import { attemptQuickly } from '../lib/batch-runner.ts';
import { eventually } from '../lib/eventually.ts';
import { startPostgres, type TestPostgres } from '../lib/postgres.ts';
import { Program } from '../lib/run.ts';
import { echoKey, portsKey, readNotes, startRecorder, type Notes } from './recorder.ts';

export interface Probe {
  readonly from: number;
  readonly to: number;
  readonly protocol: 'tcp' | 'udp' | 'icmp';
  readonly port?: number;
  readonly family?: 4 | 6;
}

/** `open`: answered. Otherwise where the packet was dropped: on its way out of the one or into the other. */
export type Verdict = 'open' | 'stopped going out' | 'stopped coming in';

export class Fleet {
  readonly lab: Lab;
  readonly program: Program;
  readonly #postgres: Pick<TestPostgres, 'freshUrl' | 'stop'>;
  readonly #serving = new Map<string, Promise<string>>();
  #count = 0;
  /** What the last probe without a verdict was answered. */
  #last = '';

  private constructor(lab: Lab, program: Program, postgres: Pick<TestPostgres, 'freshUrl' | 'stop'>) {
    this.lab = lab;
    this.program = program;
    this.#postgres = postgres;
  }

  /** On a database of its own, or on the one at `databaseUrl`. */
  static async open(options: {
    readonly devices: number;
    readonly phase: 1 | 2 | 3;
    readonly databaseUrl?: string;
  }): Promise<Fleet> {
    const { databaseUrl } = options;
    const given = databaseUrl && { freshUrl: () => Promise.resolve(databaseUrl), stop: () => Promise.resolve() };
    const [program, postgres] = await Promise.all([Program.build(), given || startPostgres()]);
    try {
      const url = await postgres.freshUrl();
      const serverArguments = `--database-url ${url} --rate-limit 0 --phase ${options.phase}`;
      const lab = await Lab.open({
        devices: options.devices,
        tunnel: 'veth',
        program: [process.execPath, program.file],
        serverArguments: serverArguments.split(' '),
      });
      await Promise.all(lab.devices.map(startRecorder));
      return new Fleet(lab, program, postgres);
    } catch (error) {
      await Promise.all([program.close(), postgres.stop()]);
      throw error;
    }
  }

  get owner(): Client {
    return this.lab.client(this.lab.place.token);
  }
  get org(): string {
    return this.lab.place.organization;
  }
  device(number: number): LabDevice {
    return this.lab.device(number);
  }

  /** The id of a device's record. */
  async idOf(number: number): Promise<string> {
    const { name } = this.device(number);
    const record = (await this.owner.devices.list(this.org)).find(({ hostname }) => hostname === name);
    if (record === undefined) throw new Error(`${name} is not registered`);
    return record.id;
  }
  async defaultGroup(): Promise<SecurityGroup> {
    const group = (await this.owner.groups.list(this.org)).find(({ is_default }) => is_default === true);
    if (group === undefined) throw new Error('there is no default group');
    return group;
  }
  async attach(number: number, ...groups: readonly string[]): Promise<void> {
    await this.owner.devices.update(this.org, await this.idOf(number), { security_groups: [...groups] });
  }

  /** What the server's records say that this device enforces. */
  async intended(number: number): Promise<CanonicalPolicy> {
    const id = await this.idOf(number);
    const [devices, records] = [await this.owner.devices.list(this.org), await this.owner.groups.list(this.org)];
    const own = devices.find((device) => device.id === id);
    const { security_groups = [], labels = [] } = own ?? {};
    const fleet = new PeerFleet(devices.map(deviceIdentity));
    const groups = new Map(records.map((group) => [group.id, readGroupRecord(group)]));
    const policy = effectivePolicy({
      list: security_groups.map(parseGroupId),
      find: (group) => groups.get(group),
      defaultGroup: readGroupRecord(await this.defaultGroup()),
      labels,
      byLabel: groups.values(),
      isolation: own && policyIsolation(deviceIdentity(own), fleet.isolated),
    });
    if ('missing' in policy) throw new Error('a group of the device is missing');
    return canonicalize(resolvePolicy(policy, fleet));
  }

  async kernel(number: number): Promise<Decompiled | undefined> {
    const listing = ['nft', '-j', 'list', 'table', 'inet', 'service'];
    const { code, stdout } = await attemptQuickly(this.device(number).namespace, listing);
    const installed = code === 0 ? parseListing(JSON.parse(stdout)) : undefined;
    return installed && decompile(installed);
  }

  /** Waits until these devices' kernels hold what the server's records say, and nothing else. */
  async converged(...numbers: readonly number[]): Promise<void> {
    await Promise.all(numbers.map(async (number) => this.enforces(number, await this.intended(number))));
  }
  async enforces(number: number, policy: CanonicalPolicy): Promise<void> {
    await this.eventually(number, 'the kernel enforces the policy', async () => {
      const kernel = await this.kernel(number);
      const found = kernel?.enforced?.policy;
      return found !== undefined && kernel?.findings.length === 0 && samePolicy(found, policy);
    });
  }

  /** Waits for it; a failure shows what the device's agent did and what its kernel holds. */
  async eventually(number: number, what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
    await eventually(async () => {
      const device = this.device(number);
      const log = (await readFile(device.agentLog, 'utf8')).split('\n').slice(-15);
      const { stdout } = await device.nft('list', 'table', 'inet', 'service');
      return [`${what} on ${device.name}`, ...log, stdout].join('\n');
    }, condition);
  }

  /** What becomes of each packet; all are sent at once. A packet that vanishes otherwise is sent again. */
  async judge(probes: readonly Probe[]): Promise<readonly Verdict[]> {
    const verdicts = new Map<Probe, Verdict>();
    for (let attempt = 0; attempt < 5 && verdicts.size < probes.length; attempt++) {
      await this.#sendAll(
        probes.filter((probe) => !verdicts.has(probe)),
        verdicts,
      );
    }
    return probes.map((probe) => {
      const verdict = verdicts.get(probe);
      if (verdict === undefined)
        throw new Error(`neither answered nor dropped: ${JSON.stringify(probe)}; ${this.#last}`);
      return verdict;
    });
  }

  async #sendAll(probes: readonly Probe[], verdicts: Map<Probe, Verdict>): Promise<void> {
    const waiting = probes.map((probe) => ({ probe, ...this.#send(probe), seen: undefined as Verdict | undefined }));
    const left = () => waiting.filter(({ probe, state }) => !verdicts.has(probe) && !state.isOver);
    for (;;) {
      for (const { probe, state } of waiting) if (state.answer === 'open') verdicts.set(probe, 'open');
      const open = waiting.filter(({ probe }) => !verdicts.has(probe));
      if (open.length === 0) return;
      const places = [...new Set(open.flatMap(({ probe }) => [probe.from, probe.to]))];
      const notes = new Map(
        await Promise.all(places.map(async (place) => [place, await readNotes(this.device(place))] as const)),
      );
      for (const each of open) {
        const now = verdictBy(each.key, notes.get(each.probe.from), notes.get(each.probe.to));
        // Seen twice, so that a packet on its way from one note to the other is not taken for dropped.
        if (now !== undefined && now === each.seen) verdicts.set(each.probe, now);
        each.seen = now;
      }
      const vanished = open.filter(
        ({ probe, seen, state }) =>
          !verdicts.has(probe) && seen === undefined && state.isOver && state.answer !== 'open',
      );
      if (vanished.length === open.length) {
        this.#last = vanished.map(({ key, state }) => `${key}: ${state.answer}`).join(', ');
        return;
      }
      await Promise.race([...left().map(({ asked }) => asked), new Promise((resolve) => setTimeout(resolve, 30))]);
    }
  }

  #send(probe: Probe) {
    const [from, to] = [this.device(probe.from), this.device(probe.to)];
    const { protocol, port = 0, family = 4 } = probe;
    const address = family === 4 ? to.addresses.driver4 : to.addresses.driver6;
    const number = (this.#count += 1);
    const localPort = 20_000 + number;
    const state: { answer?: string; isOver: boolean } = { isOver: false };
    const sent =
      protocol === 'icmp'
        ? from.ping(address, ['-e', String(number), '-W', '5'])
        : this.#serve(probe.to, protocol, port).then(() =>
            from.perform({ do: 'probe', protocol, address, port, localPort, timeoutMs: 5_000 }),
          );
    const asked = sent
      .catch((error: unknown) => String(error))
      .then((answer) => Object.assign(state, { answer, isOver: true }));
    return {
      key: protocol === 'icmp' ? echoKey(family, number) : portsKey(protocol, localPort, port),
      asked,
      state,
    };
  }

  /** An echo at that port of the device, for as long as it lives. */
  async #serve(number: number, protocol: 'tcp' | 'udp', port: number): Promise<void> {
    const key = `${number} ${protocol} ${port}`;
    const serving = this.#serving.get(key) ?? this.device(number).perform({ do: 'serve', protocol, port });
    this.#serving.set(key, serving);
    const answer = await serving;
    if (answer !== 'open') throw new Error(`device ${number} cannot serve ${protocol} ${port}: ${answer}`);
  }

  /** Process ids of every program of that name inside a device. */
  async processes(number: number, name: string): Promise<readonly number[]> {
    const own = await readlink(`/proc/${this.device(number).namespace.pid}/ns/net`);
    const pids = (await readdir('/proc')).filter((entry) => /^\d+$/.test(entry));
    const looks = pids.map(async (pid) => {
      try {
        const [net, comm] = await Promise.all([readlink(`/proc/${pid}/ns/net`), readFile(`/proc/${pid}/comm`, 'utf8')]);
        return net === own && comm === `${name}\n` ? [Number(pid)] : [];
      } catch {
        return []; // It ended meanwhile.
      }
    });
    return (await Promise.all(looks)).flat();
  }

  async close(): Promise<void> {
    await this.lab.close();
    await Promise.all([this.program.close(), this.#postgres.stop()]);
  }
}

function verdictBy(key: string, from: Notes | undefined, to: Notes | undefined): Verdict | undefined {
  if (from?.get('came-out')?.has(key) === true && from.get('passed-out')?.has(key) !== true) return 'stopped going out';
  if (to?.get('came-in')?.has(key) === true && to.get('passed-in')?.has(key) !== true) return 'stopped coming in';
  return undefined;
}
