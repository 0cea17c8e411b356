/** Owns the command `ringfence agent`: puts the parts of the agent together, runs them until asked to stop, and says why it cannot. */
import { randomBytes } from 'node:crypto';
import { fstatSync } from 'node:fs';
import { mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { sleep, systemClock } from '../client/clock.ts';
import { Client } from '../client/http.ts';
import type { DeviceId } from '../policy/ids.ts';
import { createNodeFetch } from '../node/fetch.ts';
import { Agent } from './loop/agent.ts';
import { connectionLog } from './report/connection-log.ts';
import { Enforcer } from './kernel/enforcer.ts';
import { enroll } from './source/enrollment.ts';
import { FilterMonitor } from './kernel/filter-monitor.ts';
import { IdentifiedSource } from './source/identified-policy-source.ts';
import { BadIdentity, IdentityFolder } from './source/identity.ts';
import { InformerSource } from './source/informer-policy-source.ts';
import { LinkMonitor } from './host/link-monitor.ts';
import { Locked, lockFolder, lockNamespace, type FolderLock } from './host/lock.ts';
import { lineLog, type Log } from './host/log.ts';
import { printMetrics } from './report/metrics.ts';
import { MetricsFile } from './report/metrics-file.ts';
import { NftError } from './kernel/nft.ts';
import {
  agentConfig,
  stateOf,
  WrongOptions,
  type AgentConfig,
  type AgentValues,
  type OptionSurroundings,
  type TextSource,
} from './options.ts';
import { RealNft } from './kernel/real-nft.ts';
import { notifyReady } from './host/systemd-notify.ts';
import { Reporter } from './report/reporter.ts';
import { revokeFlows } from './host/revoke-flows.ts';
import { commandRunner } from './host/run-command.ts';
import { readForwarding } from './host/forwarding.ts';
import { connectionsThrough, openServerAccess } from './source/open-server-access.ts';
import type { ServerAddresses } from './source/server-access.ts';
import { StateFolder } from './state/state-folder.ts';
import { openStatusSocket } from './report/status-socket.ts';
import { statusDocument, type StatusDocument } from './report/status-document.ts';
import { tunnelAddress } from './host/tunnel-address.ts';

/** Exit codes (reference 10 (4)). */
const done = 0;
const failed = 1;
const wrongUsage = 2;

/** Failures that the operator can mend: one line, without a stack. */
const isExpected = (error: unknown): error is Error =>
  error instanceof WrongOptions || error instanceof Locked || error instanceof NftError || error instanceof CannotStart;

class CannotStart extends Error {}

/** The command: runs until it is asked to stop; gives the exit code. */
export async function runAgent(values: AgentValues, { version }: { readonly version: string }): Promise<number> {
  const around: OptionSurroundings = { env: process.env, isRoot: process.geteuid?.() === 0 };
  const stop = stopSignal();
  try {
    if (values.remove === true) await removeTable(stateOf(values, around));
    else await follow(agentConfig(values, around), { version, signal: stop.signal });
    return done;
  } catch (error) {
    if (!isExpected(error)) throw error;
    process.stderr.write(`ringfence: ${error.message}\n`);
    return error instanceof WrongOptions ? wrongUsage : failed;
  } finally {
    stop.forget();
  }
}

async function follow(config: AgentConfig, { version, signal }: { version: string; signal: AbortSignal }) {
  const { state, selector, untilFirstPolicy, keepEstablished, metricsFile } = config;
  const [clock, random, monotonic] = [systemClock, Math.random, () => performance.now()];
  const log = lineLog({ write: (line) => process.stderr.write(line), journal: isJournal(), least: config.logLevel });
  const folder = new IdentityFolder(state);
  await refuseUnknownDevice(config, folder);
  // Nothing that the agent makes is for others, unless it says so.
  process.umask(0o077);
  const lock = await lockState(state, (why) => log('error', why));
  const nft = new RealNft({ clock, scratch: await scratchFolder(state) });
  const stateFolder = new StateFolder({ folder: state });
  const serverAccess = config.serverAccess
    ? await openServerAccess(config.server, { state: stateFolder, clock, monotonic, random, log })
    : undefined;
  const driver = (): string | undefined => agent.status.driver?.name;
  const { source, devices } = sourceOf(config, { folder, log, version, driver, serverAccess });
  const reporter = new Reporter({
    send: async (report, within) => {
      const { device, client } = source.who ?? {};
      if (device !== undefined) await client?.statuses.report(config.organization, device, report, { signal: within });
    },
    version,
    clock,
    monotonic,
    random,
    log,
    devices,
  });
  const logConnection = connectionLog(log);
  source.onChange(() => logConnection(source.connection));
  const agent = new Agent({
    nft,
    clock,
    source,
    selector,
    untilFirstPolicy,
    monotonic,
    random,
    log,
    state: stateFolder,
    ...(serverAccess && { serverAccess }),
    ...(config.containers === 'guard' && { forwarding: () => readForwarding() }),
    ...(!keepEstablished && { revoke: (revocation) => revokeFlows(commandRunner([]), revocation) }),
    monitor: (onEvent) => new FilterMonitor({ clock, onEvent }),
    links: (onChange) => new LinkMonitor({ clock, onChange, onLost: (why) => log('debug', why) }),
    onStatus: (status) => {
      reporter.see(status);
      file?.touch();
    },
  });
  const status = async (): Promise<StatusDocument> => {
    await atMost(agent.count());
    return statusDocument(agent.status, { config, device: source.who?.device, version, pid: process.pid });
  };
  const metrics = async (): Promise<string> =>
    printMetrics(await status(), { residentBytes: process.memoryUsage.rss() });
  const file =
    metricsFile === undefined ? undefined : new MetricsFile({ path: metricsFile, print: metrics, clock, log });
  const socket = await openStatusSocket(state, { status, metrics }).catch((error: unknown) => {
    log('warn', `\`ringfence agent status\` will not work: ${error instanceof Error ? error.message : String(error)}`);
  });
  try {
    log('info', 'the agent starts', { version, pid: process.pid, state });
    await Promise.all([agent.run({ signal }), reporter.run({ signal }), serverAccess?.run({ signal })]);
    log('info', 'the agent stops; its rules stay in force');
  } finally {
    await Promise.all([file?.stop(), socket?.close()]);
    await nft.close();
    await lock.release();
  }
}

/** Milliseconds for the counters: an operator gets an answer also where nft gives none. */
const patience = 2_000;

async function atMost(work: Promise<void>): Promise<void> {
  const end = new AbortController();
  await Promise.race([work, sleep(systemClock, patience, end.signal).catch(() => {})]);
  end.abort();
}

/** Where nothing says which device this is, waiting does not help. */
async function refuseUnknownDevice({ proof, state, organization }: AgentConfig, folder: IdentityFolder): Promise<void> {
  if (proof.kind !== 'enrolled') return;
  try {
    const identity = await folder.identity();
    if (identity?.organization === organization) return;
    const found = identity === undefined ? 'has no device yet' : 'has a device of another organization';
    throw new WrongOptions(
      `say which device this is: --device with --token-file, or --enroll with a key (${state} ${found})`,
    );
  } catch (error) {
    // What is damaged is logged and tried again while the rules are in force.
    if (!(error instanceof BadIdentity)) throw error;
  }
}

interface SourceSurroundings {
  readonly folder: IdentityFolder;
  readonly log: Log;
  readonly version: string;
  /** The driver interface, once it is known. */
  readonly driver: () => string | undefined;
  /** Absent: connections find the server by themselves. */
  readonly serverAccess: ServerAddresses | undefined;
}

interface Who {
  readonly device: DeviceId;
  readonly client: Client;
}

function sourceOf(
  config: AgentConfig,
  { folder, log, version, driver, serverAccess }: SourceSurroundings,
): { readonly source: IdentifiedSource<Who>; readonly devices: () => number } {
  const { server, organization, proof, tlsCa } = config;
  const fetch = createNodeFetch({
    ...(tlsCa !== undefined && { authorities: () => readFile(tlsCa, 'utf8') }),
    ...(serverAccess && connectionsThrough(serverAccess)),
  });
  const clientWith = (token: TextSource): Client =>
    new Client({
      url: server,
      token: () => readSecret(token),
      headers: { 'user-agent': `ringfence-agent/${version}` },
      fetch,
    });
  let ready: Promise<void> | undefined;
  const identify = async (signal: AbortSignal): Promise<Who> => {
    // The agent asks for the network when what it knows is in force, or has failed to be.
    await (ready ??= notifyReady(process.env));
    if (proof.kind === 'token') return { device: proof.device, client: clientWith(proof.token) };
    const identity =
      proof.kind === 'enrolled'
        ? await folder.identity()
        : await enroll(
            {
              organization,
              folder,
              publicKey: proof.publicKey,
              // Nobody's tunnel key, only a name that no other device has: its shape is that of a WireGuard key.
              makeKey: () => randomBytes(32).toString('base64'),
              hostname: hostname().slice(0, 255),
              tunnelAddress: () => tunnelAddress(commandRunner([]), driver()),
              register: (body, within) => clientWith(proof.key).devices.create(organization, body, { signal: within }),
              clock: systemClock,
              log,
            },
            signal,
          );
    if (identity === undefined) throw new BadIdentity(`${folder.path('identity')} is gone`);
    return { device: identity.device, client: clientWith({ text: identity.token }) };
  };
  const onFault = (fault: unknown): void => log('error', `a fault in the agent: ${String(fault)}`);
  let informer: InformerSource | undefined;
  const source = new IdentifiedSource({
    identify,
    open: ({ device, client }) => (informer = new InformerSource({ client, organization, device, onFault })),
    clock: systemClock,
    random: Math.random,
  });
  return { source, devices: () => informer?.devices ?? 0 };
}

async function readSecret(source: TextSource): Promise<string> {
  if ('text' in source) return source.text;
  const text = (await readFile(source.file, 'utf8')).trim();
  if (text === '') throw new Error(`${source.file} is empty`);
  return text;
}

async function lockState(state: string, onLost?: (why: string) => void): Promise<FolderLock> {
  try {
    await mkdir(state, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw new CannotStart(
      `the state directory cannot be made: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
  const options = onLost === undefined ? {} : { onLost };
  const mine = await lockFolder(state, options);
  try {
    const place = await lockNamespace(options);
    return { release: async () => void (await Promise.all([mine.release(), place?.release()])) };
  } catch (error) {
    await mine.release();
    throw error;
  }
}

/** Where large batches pass to nft: in memory where the system gives us a place, else beside the state. */
async function scratchFolder(state: string): Promise<string> {
  const folder = process.env['RUNTIME_DIRECTORY']?.split(':')[0] ?? state;
  // What an agent left that was killed; the lock says that it is gone.
  const left = (await readdir(folder).catch(() => [])).filter((name) => /^batch-\d+\.nft$/.test(name));
  await Promise.all(left.map((name) => rm(join(folder, name), { force: true }).catch(() => {})));
  return folder;
}

async function removeTable(state: string): Promise<void> {
  const lock = await lockState(state);
  const nft = new RealNft({ clock: systemClock, scratch: state });
  try {
    await new Enforcer({ nft, random: Math.random }).remove();
    process.stdout.write(
      'The tables inet service and inet service-forward are removed; nothing is enforced here any more.\n',
    );
  } finally {
    await nft.close();
    await lock.release();
  }
}

/** Whether stderr goes to the journal, by what systemd says it handed us. */
function isJournal(): boolean {
  const given = process.env['JOURNAL_STREAM'];
  if (given === undefined) return false;
  try {
    const { dev, ino } = fstatSync(2, { bigint: true });
    return given === `${dev}:${ino}`;
  } catch {
    return false;
  }
}

/** The first signal asks; the second ends at once. */
function stopSignal(): { readonly signal: AbortSignal; forget(): void } {
  const abort = new AbortController();
  const heard = (): void => {
    if (abort.signal.aborted) process.exit(failed);
    abort.abort();
  };
  process.on('SIGTERM', heard);
  process.on('SIGINT', heard);
  return {
    signal: abort.signal,
    forget: () => {
      process.off('SIGTERM', heard);
      process.off('SIGINT', heard);
    },
  };
}
