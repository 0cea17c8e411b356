/** Owns the command `ringfence server`. It runs one serving process, or a primary process with several workers, until a signal stops it. */
import { setFlagsFromString } from 'node:v8';
import { createLog, type Log } from './http/observe/log.ts';
import { terminalLog } from './http/observe/terminal-log.ts';
import { serverConfig, type ServerConfig } from './options/config.ts';
import { describeConfig } from './options/describe.ts';
import type { ServerValues } from './options/server-options.ts';
import { prepare, startServer, streamLimitsOf, type RunningServer, type Surroundings } from './serve.ts';
import { StartError } from './lifecycle/start-error.ts';
import { Cleanup } from './lifecycle/cleanup.ts';
import { stopSignals } from './lifecycle/stop-signals.ts';
import { WorkerPool } from './workers/pool.ts';
import { notifyReady } from './workers/systemd-notify.ts';
import { WorkerProcess } from './workers/worker.ts';

type Running = Pick<RunningServer, 'url' | 'firstAdmin' | 'close'> & { readonly issuer?: string };

interface Announcement {
  readonly say: (line: string) => void;
  /** Whether a person reads the output. */
  readonly terminal: boolean;
}

/** Prints what the operator sees after a successful start. */
function announce(server: Running, config: ServerConfig, { say, terminal }: Announcement): void {
  say(config.phase === 3 ? 'Ringfence is ready.' : `Ringfence is ready, in phase ${config.phase}.`);
  say(`  UI    ${server.url}/ui/`);
  say(`  API   ${server.url}/api   (docs: ${server.url}/api/docs)`);
  say(`  Data  ${config.databaseUrl === undefined ? config.data : 'in the PostgreSQL of --database-url'}`);
  if (server.firstAdmin !== undefined) {
    const { file, token } = server.firstAdmin;
    const admin = '  The first administrator is "admin". Its token';
    // Without a terminal, the output may go to a journal that many people can read and that stores it.
    say(terminal ? `${admin} (shown only once, and saved in ${file}):\n  ${token}` : `${admin} is in ${file}.`);
  }
  if (server.issuer === undefined) return;
  say(
    `  Demo  an identity provider at ${server.issuer} where anyone can sign in as "ada" or "bob". Do not use it in production.`,
  );
  say(`        In a browser: ${server.url}/ui/, then "Sign in with the demo provider".`);
  say(`        In a terminal: ringfence login ${server.url}`);
}

/** Extra time for a worker to notice the stop. */
const graceMs = 1_000;
/** Extra shutdown time for a supervised PostgreSQL, which writes its data. */
const databaseGraceMs = 30_000;
/** A stop that takes longer than this is announced. */
const slowStopMs = 2_000;
/** How long open handles may keep a stopped process alive. */
const lingerMs = 1_000;
/** Collect garbage when the heap is twice of what was alive. On a machine with much memory V8 waits for four times, and what many requests left counts for the process. */
const moderateGrowth = '--heap-growing-percent=100';

/** JSON lines for programs, or short lines for a person at a terminal. */
const logOf = ({ logLevel, verbose }: ServerConfig): Log =>
  process.stderr.isTTY
    ? createLog(logLevel, terminalLog({ write: (text) => void process.stderr.write(text), verbose }))
    : createLog(logLevel);

/** Ends the process even if something keeps the event loop busy. The kernel then signals a supervised PostgreSQL to stop. */
function exitWithin(ms: number, code: number): void {
  setTimeout(() => process.exit(code), ms).unref();
}

/** Prepares the database here, serves in workers. The first is started before that: loading the program takes as long as starting PostgreSQL. */
async function startWorkers(config: ServerConfig, around: Surroundings, version: string): Promise<Running> {
  const { log } = around;
  const cleanup = new Cleanup();
  const pool = new WorkerPool({
    count: config.workers,
    log,
    streamLimits: streamLimitsOf(config),
    timeoutMs: (config.shutdownDelay + config.shutdownTimeout) * 1000 + graceMs,
  });
  const close = async (): Promise<void> => {
    await pool.stop();
    await cleanup.run(graceMs);
  };
  try {
    const { databaseUrl, store, firstAdmin } = await prepare(
      config,
      { ...around, processes: config.workers, timeline: pool.timeline },
      cleanup,
    );
    const url = await pool.serve({ databaseUrl, version });
    await store.close();
    return { url, firstAdmin, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** A server with the demo provider beside it, which it signs people in at. One process is enough for trying things out. */
async function startWithDemo(config: ServerConfig, around: Surroundings): Promise<Running> {
  const { demoAudience, demoClients, DemoMissing, startDemoProvider } = await import('./demo/provider.ts');
  const { port } = config.listen;
  const demo = await startDemoProvider({ port: port === 0 ? 0 : port + 1 }).catch((error: unknown) => {
    throw error instanceof DemoMissing ? new StartError([error.message]) : error;
  });
  try {
    const signIn = {
      oidcIssuer: [demo.issuer],
      oidcAudience: [demoAudience],
      oidcName: 'the demo provider',
      oidcClientId: demoClients.web,
      oidcCliClientId: demoClients.commandLine,
    };
    const server = await startServer({ ...config, ...signIn, workers: 1 }, around);
    demo.serve(config.publicUrl ?? server.url);
    const close = async (): Promise<void> => {
      await server.close();
      await demo.stop();
    };
    return { ...server, issuer: demo.issuer, close };
  } catch (error) {
    await demo.stop();
    throw error;
  }
}

/** One of several serving processes. It prints nothing for the operator; the primary process does. */
async function runWorker(config: ServerConfig, worker: WorkerProcess, version: string): Promise<number> {
  // Ctrl-C in a terminal reaches every process of the server. The first one decides when a worker stops.
  const stopped = stopSignals(['SIGTERM']);
  process.on('SIGINT', () => {});
  const log = logOf(config).child({ worker: worker.number });
  try {
    const task = await Promise.race([worker.task, worker.stop]);
    if (task === undefined) return 0;
    // An upgrade may have replaced the files of a running server. Workers of another version would not understand the primary process.
    if (task.version !== version) {
      throw new StartError([
        `version ${version} is installed, but version ${task.version} is running: restart the server`,
      ]);
    }
    const { streams, workerPeers, timeline, failedElsewhere } = worker;
    const databaseDirectory = config.databaseUrl === undefined ? config.data : undefined;
    const around = {
      log,
      databaseDirectory,
      processes: config.workers,
      others: () => worker.measureOthers(),
      streams,
      workerPeers,
      timeline,
      failedElsewhere,
    };
    const server = await startServer({ ...config, databaseUrl: task.databaseUrl }, around);
    worker.measure = () => server.measure();
    const endBalance = worker.balance(server.listener);
    worker.reportReady(server.url);
    await Promise.race([worker.stop, stopped]);
    endBalance();
    exitWithin((config.shutdownDelay + config.shutdownTimeout) * 1000 + graceMs, 1);
    await server.close();
    exitWithin(lingerMs, 0);
    return 0;
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    await worker.reportFailure(error.lines, error.exitCode);
    return error.exitCode;
  } finally {
    worker.disconnect();
  }
}

/** Runs `ringfence server` until a signal stops it, and returns the exit code. */
export async function runServer(values: ServerValues, { version }: { readonly version: string }): Promise<number> {
  const say = (line: string): void => void process.stdout.write(`${line}\n`);
  const complain = (line: string): void => void process.stderr.write(`ringfence: ${line}\n`);
  let config: ServerConfig;
  try {
    config = serverConfig(values, { env: process.env, isRoot: process.geteuid?.() === 0 });
  } catch (error) {
    complain(error instanceof Error ? error.message : String(error));
    return 2;
  }
  if (values.checkConfig === true) {
    for (const line of ['The configuration is valid.', ...describeConfig(config).map((part) => `  ${part}`)]) say(line);
    return 0;
  }
  setFlagsFromString(moderateGrowth);
  const worker = WorkerProcess.current();
  // The server was killed while this process started: there is nothing to serve.
  if (worker === 'orphan') process.exit(1);
  if (worker !== undefined) return runWorker(config, worker, version);
  const stopped = stopSignals(['SIGTERM', 'SIGINT']);
  const log = logOf(config);
  try {
    const start = config.demoIdp ? startWithDemo : config.workers === 1 ? startServer : startWorkers;
    const starting: Promise<Running> = start(config, { log, say }, version);
    const server = await Promise.race([starting, stopped.then(() => undefined)]);
    if (server === undefined) {
      // A start may hang at a point where nothing can be undone. Everything that it started ends with this process.
      complain('stopped before the server was ready');
      process.exit(1);
    }
    announce(server, config, { say, terminal: process.stdout.isTTY });
    await notifyReady(process.env);
    await stopped;
    const slow = setTimeout(() => say('Stopping. The server finishes the requests in flight.'), slowStopMs).unref();
    exitWithin((config.shutdownDelay + config.shutdownTimeout) * 1000 + databaseGraceMs, 1);
    await server.close();
    clearTimeout(slow);
    exitWithin(lingerMs, 0);
    say('Stopped.');
    return 0;
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    const [first = 'cannot start', ...more] = error.lines;
    complain(first);
    for (const line of more) process.stderr.write(`${line}\n`);
    return error.exitCode;
  }
}
