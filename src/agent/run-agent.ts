/** Owns the running agent: it assembles the parts and follows the server until it is asked to stop. */
import { fstatSync } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { DeviceReport } from '../api/device.ts';
import { sleep, systemClock } from '../client/clock.ts';
import { openFileWarning } from '../node/open-file.ts';
import { isPlainRemote } from '../node/plain-http.ts';
import { WrongOptions, type AgentConfig } from './config.ts';
import { readForwarding } from './host/forwarding.ts';
import { LinkMonitor } from './host/link-monitor.ts';
import { lineLog, type Log } from './host/log.ts';
import { readMachineId } from './host/machine-id.ts';
import { listOpenFlows } from './host/open-flows.ts';
import { rememberingAddresses } from './host/remembered-addresses.ts';
import { revokeFlows } from './host/revoke-flows.ts';
import { commandFlowTable } from './host/command-flow-table.ts';
import { commandRouteTable } from './host/command-route-table.ts';
import { commandRunner } from './host/run-command.ts';
import { TrackingAdvice } from './host/tracking-advice.ts';
import { FilterMonitor } from './kernel/filter-monitor.ts';
import { RealNft } from './kernel/real-nft.ts';
import { lockState } from './locks.ts';
import { Agent } from './loop/agent.ts';
import { PolicyClock } from './loop/policy-clock.ts';
import { connectionLog } from './report/connection-log.ts';
import { FlowReports } from './report/flow-reports.ts';
import { printMetrics } from './report/metrics.ts';
import { MetricsFile } from './report/metrics-file.ts';
import { Reporter } from './report/reporter.ts';
import { statusDocument, type StatusDocument } from './report/status-document.ts';
import { openStatusSocket } from './report/status-socket.ts';
import { NetlinkChannel } from './netlink/channel.ts';
import { netlinkFlowTable } from './netlink/flow-table.ts';
import { netlinkRouteTable } from './netlink/route-table.ts';
import { createServerSource } from './server-source.ts';
import { BadIdentity, IdentityFolder } from './source/identity.ts';
import { claimIdentity, refuseForeignIdentity, type MachineCheck } from './source/machine-check.ts';
import { serverProbe } from './source/server-probe.ts';
import { openServerAccess } from './source/open-server-access.ts';
import { defaultSettings, SettingsAnswers } from './source/settings.ts';
import { StateFolder } from './state/state-folder.ts';
import { untilAllEnd } from './until-all-end.ts';

export async function runAgent(
  config: AgentConfig,
  { version, signal: stop }: { version: string; signal: AbortSignal },
) {
  const { state, selector, untilFirstPolicy, keepEstablished, metricsFile } = config;
  const [clock, random, monotonic] = [systemClock, Math.random, () => performance.now()];
  const log = lineLog({ write: (line) => process.stderr.write(line), journal: isJournal(), least: config.logLevel });
  const folder = new IdentityFolder(state);
  const check: MachineCheck = { folder, machine: await readMachineId(), adopt: config.adopt };
  await refuseWrongIdentity(config, check);
  // Nothing that the agent makes is for others, unless it says so.
  process.umask(0o077);
  const warnings: string[] = [];
  const refused = new AbortController();
  const signal = AbortSignal.any([stop, refused.signal]);
  const lock = await lockState(state, {
    timeoutMs: lockTimeoutMs,
    onLost: (why) => log('error', why),
    // A device without rules is worse than a second agent, which stops as soon as it is found.
    onSilence: {
      unlocked: (why) => {
        warnings.push(`${why}; the agent continues without its locks`);
        log('error', warnings.join());
      },
      taken: (error) => refused.abort(error),
    },
  });
  if (config.proof.kind !== 'token') await claimIdentity(check, log);
  const run = commandRunner([]);
  const netlink = new NetlinkChannel({ clock });
  const table = netlinkFlowTable(netlink, commandFlowTable(run));
  const routes = netlinkRouteTable(netlink, commandRouteTable(run));
  const addresses = rememberingAddresses(routes, monotonic);
  const nft = new RealNft({ clock, scratch: await scratchFolder(state), netlink });
  const stateFolder = new StateFolder({ folder: state });
  await Promise.all([stateFolder.removeUnfinished(), folder.removeUnfinished()]);
  const serverAccess = config.serverAccess
    ? await openServerAccess(config.servers, { state: stateFolder, clock, monotonic, random, log })
    : undefined;
  const time = new PolicyClock({ clock, monotonic });
  const driver = (): string | undefined => agent.status.driver?.name;
  const { source, devices } = createServerSource({
    config,
    folder,
    log,
    version,
    machine: check.machine,
    driver,
    onAwaited: (revision) => reporter.expect(revision),
    serverAccess,
    onServerTime: (shown) => time.serverTime(shown),
  });
  let { observe } = defaultSettings;
  /** Every answer to a report carries the settings of the organization. */
  const answers = new SettingsAnswers((settings) => {
    ({ observe } = settings);
    agent.follow(settings);
  });
  const reporter = new Reporter({
    send: async (report, within) => {
      const { device, client, renewal } = source.who ?? {};
      if (device === undefined || client === undefined) return;
      const tell = (one: DeviceReport): Promise<unknown> =>
        client.statuses.report(config.organization, device, one, { signal: within });
      await answers.of(() => renewal?.report(report, tell) ?? tell(report));
    },
    count: async () => {
      if (observe === 'off') return { ...agent.status, counts: {} };
      await atMost(agent.count());
      return agent.status;
    },
    version,
    clock,
    monotonic,
    random,
    log,
    devices,
  });
  const flows = new FlowReports({
    take: () => agent.takeRecorded(),
    listOpen: () => agent.openFlows(),
    send: async (report, within) => {
      const { device, reports } = source.who ?? {};
      if (device === undefined || reports === undefined) return;
      await answers.of(() => reports.statuses.reportFlows(config.organization, device, report, { signal: within }));
    },
    isLive: () => source.connection.phase === 'live',
    clock,
    monotonic,
    random,
    log,
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
    time,
    state: stateFolder,
    ...(serverAccess && { serverAccess }),
    ...(config.checkedApply && { checkedApply: { probe: serverProbe(config.servers, serverAccess), devices } }),
    ...(config.containers === 'guard' && { forwarding: () => readForwarding() }),
    ...(!keepEstablished && {
      revoke: (revocation, block) => revokeFlows({ routes: addresses, table, block }, revocation),
    }),
    listOpen: (question) => listOpenFlows({ routes, table }, question),
    monitor: (onEvent) => new FilterMonitor({ clock, onEvent }),
    links: (onChange, onMoved) => new LinkMonitor({ clock, onChange, onMoved, onLost: (why) => log('debug', why) }),
    onStatus: (status) => {
      reporter.see(status);
      file?.touch();
    },
  });
  warnings.push(...warningsOf(config, log));
  const trackingAdvice = new TrackingAdvice({ run, monotonic });
  let ofTracking: readonly string[] = [];
  const adviseOnTracking = async (): Promise<void> => {
    ofTracking = await trackingAdvice.warnings();
  };
  const status = async (): Promise<StatusDocument> => {
    await atMost(Promise.all([agent.count(), adviseOnTracking()]));
    const device = source.who?.device;
    const known = { config, device, version, pid: process.pid, warnings: [...warnings, ...ofTracking] };
    return statusDocument(agent.status, known);
  };
  const metrics = async (): Promise<string> =>
    printMetrics(await status(), { residentBytes: process.memoryUsage.rss() });
  const file =
    metricsFile === undefined ? undefined : new MetricsFile({ path: metricsFile, print: metrics, clock, log });
  const socket = await openStatusSocket(state, { status, metrics }).catch((error: unknown) => {
    log('warn', `\`ringfence agent status\` will not work: ${error instanceof Error ? error.message : String(error)}`);
  });
  try {
    log('info', 'starting the agent', { version, pid: process.pid, state });
    for (const notice of config.notices) log('info', notice);
    // While the helpers start, the agent reads the interfaces. If a helper does not start, the first request to it
    // fails.
    netlink.start();
    nft.start().catch(() => {});
    await untilAllEnd(
      [
        agent.run({ signal }),
        reporter.run({ signal }),
        flows.run({ signal }),
        ...(serverAccess ? [serverAccess.run({ signal })] : []),
      ],
      refused,
    );
    await flows.finish();
    log('info', 'stopping the agent; its rules stay in force');
  } finally {
    await Promise.all([file?.stop(), socket?.close()]);
    await Promise.all([nft.close(), netlink.close()]);
    await lock.release();
  }
}

/** Milliseconds for `flock`: until then there are no rules after a boot. */
const lockTimeoutMs = 2_000;

/** What works, and should not stay so: logged once, and shown in the status. */
function warningsOf({ servers, proof }: AgentConfig, log: Log): readonly string[] {
  const secret = proof.kind === 'token' ? proof.token : proof.kind === 'enroll' ? proof.key : undefined;
  const open = secret !== undefined && 'file' in secret ? openFileWarning(secret.file) : undefined;
  const warnings = [
    ...servers
      .filter(isPlainRemote)
      .map(
        (server) =>
          `${server} is not encrypted: anyone on the network path can read the device's token and change its policy; use https://`,
      ),
    ...(open === undefined ? [] : [open]),
  ];
  for (const warning of warnings) log('warn', warning);
  return warnings;
}

/** Milliseconds for the counters and for what else is read: an operator gets an answer also where nft gives none. */
const timeout = 2_000;

async function atMost(work: Promise<unknown>): Promise<void> {
  const end = new AbortController();
  await Promise.race([work, sleep(systemClock, timeout, end.signal).catch(() => {})]);
  end.abort();
}

/** Where nothing says which device this is, or the saved identity is another machine's, waiting does not help. */
async function refuseWrongIdentity({ proof, state, organization }: AgentConfig, check: MachineCheck): Promise<void> {
  if (proof.kind === 'token') return;
  try {
    const identity = await check.folder.identity();
    refuseForeignIdentity(identity, check);
    if (proof.kind === 'enroll' || identity?.organization === organization) return;
    const found = identity === undefined ? 'has no device yet' : 'has a device of another organization';
    throw new WrongOptions(
      `no device identity: ${state} ${found}. Use --enroll with a key, or --device with --token-file`,
    );
  } catch (error) {
    // What is damaged is logged and tried again while the rules are in force.
    if (!(error instanceof BadIdentity)) throw error;
  }
}

/** Where large batches pass to nft: in memory where the system gives us a place, else beside the state. */
async function scratchFolder(state: string): Promise<string> {
  const folder = process.env['RUNTIME_DIRECTORY']?.split(':')[0] ?? state;
  // What an agent left that was killed; the lock says that it is gone.
  const left = (await readdir(folder).catch(() => [])).filter((name) =>
    /^batch-\d+\.nft(?:\.[0-9a-f]{16}\.new)?$/.test(name),
  );
  await Promise.all(left.map((name) => rm(join(folder, name), { force: true }).catch(() => {})));
  return folder;
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
