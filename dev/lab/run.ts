/** Owns the implementation of the lab's commands: up, down, status, try, run. */
import { spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { outliveReaders } from '../../src/node/lost-output.ts';
import { CliError, commandExitOf, usageError } from '../../src/cli/terminal/exit.ts';
import { readPort } from '../../src/cli/terminal/port.ts';
import { Terminal } from '../../src/cli/terminal/terminal.ts';
import { TrafficHelper } from './device.ts';
import { Lab, removeFolder, type Tunnel } from './lab.ts';
import { Namespace } from './namespace.ts';
import {
  isAlive,
  listRecords,
  readRecord,
  removeRecord,
  startOf,
  writeRecord,
  type LabDeviceRecord,
  type LabRecord,
} from './record.ts';
import { relayAddress, driverName, mostDevices } from './topology.ts';

const terminal = new Terminal({ env: process.env, colour: false });

export interface UpOptions {
  readonly name: string;
  readonly devices: string;
  readonly tunnel: Tunnel;
  readonly listen?: string;
  readonly phase?: string;
  readonly bare?: boolean;
  readonly detach?: boolean;
  /** The file of `ringfence` that the lab runs. */
  readonly program: string;
}

/** The top of the checkout. */
const top = fileURLToPath(new URL('../..', import.meta.url));

const deviceLines = ({ name, devices }: LabRecord): string =>
  devices
    .map(
      ({ name: device, driver4, driver6 }) =>
        `  ${device.padEnd(11)} ${driver4.padEnd(15)} ${driver6.padEnd(10)} ip netns exec ${name}-${device} sh\n`,
    )
    .join('');

/** What a person needs for the first look around. */
function introduction(record: LabRecord): string {
  const { name, url, place, adminToken, devices } = record;
  const [from = 'device-1', to = 'device-2'] = devices.map((each) => each.name);
  const way = name === 'lab' ? '' : ` --name ${name}`;
  const opening = `The lab is up: a server and ${devices.length} devices. The devices reach each other over their driver interface rf0.

  web UI      ${url}/ui/
${deviceLines(record)}
In another terminal, for the commands:

  PATH=${top}bin:${top}dev/lab:$PATH
  export RINGFENCE_SERVER=${url}
  export RINGFENCE_TOKEN=${place?.token ?? adminToken}
`;
  if (place === undefined) {
    return `${opening}
The devices have no agents yet. \`lab run${way} ${from} -- COMMAND\` runs a command on a device.
`;
  }
  return `${opening}  export RINGFENCE_ORG=${place.organization}

Then close a device, and open one port of it again:

  lab try${way} ${from} ${to} tcp 22
  ringfence group create ssh
  ringfence group allow ssh in tcp 22
  ringfence device groups set ${to} ssh
  lab try${way} ${from} ${to} tcp 22
  lab try${way} ${from} ${to} tcp 80
`;
}

function requireRoot(): void {
  if (process.getuid?.() !== 0) {
    throw new CliError('notAllowed', 'the lab creates network namespaces and needs root: run it with sudo');
  }
}

function readName(text: string): string {
  if (!/^[a-z0-9][a-z0-9-]{0,30}$/.test(text))
    throw usageError('a lab name contains only lowercase letters, digits and dashes');
  return text;
}

function readCount(text: string): number {
  const count = Number(text);
  if (!Number.isInteger(count) || count < 1 || count > mostDevices) {
    throw usageError(`--devices must be a number from 1 to ${mostDevices}`);
  }
  return count;
}

export async function up(options: UpOptions): Promise<void> {
  requireRoot();
  const name = readName(options.name);
  const devices = readCount(options.devices);
  const old = readRecord(name);
  if (old !== undefined && isAlive(old)) {
    throw new CliError('conflict', `the lab ${name} is already running; see \`lab status\``);
  }
  if (old !== undefined) await clean(old);
  if (options.detach === true) await upDetached({ ...options, name });
  else await upHere({ ...options, name, count: devices });
}

async function upHere(
  options: Omit<UpOptions, 'devices'> & { readonly name: string; readonly count: number },
): Promise<void> {
  const { name, tunnel, listen, phase, bare = false, program } = options;
  const ended = new AbortController();
  outliveReaders();
  const onSignal = (): void => ended.abort();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, onSignal);
  terminal.note(`Building the lab: a server and ${options.count} devices …`);
  const lab = await Lab.open({
    name,
    devices: options.count,
    tunnel,
    bare,
    program: [process.execPath, program],
    ...(listen === undefined ? {} : { listen }),
    ...(phase === undefined ? {} : { serverArguments: ['--phase', phase] }),
    onAgentEnd: (device, { code, signal }) => {
      terminal.note(`The agent of ${device.name} stopped (${signal ?? `exit code ${code}`}). The lab restarts it.`);
      setTimeout(() => {
        if (!ended.signal.aborted) lab.startAgent(device).catch(() => {});
      }, 1_000);
    },
  });
  try {
    const record = recordOf(lab, { name, tunnel, bare });
    writeRecord(record);
    terminal.out(introduction(record));
    if (!ended.signal.aborted) await new Promise((resolve) => ended.signal.addEventListener('abort', resolve));
  } finally {
    terminal.note('Taking the lab down …');
    await lab.close();
    removeRecord(name);
  }
}

const recordOf = (
  lab: Lab,
  { name, tunnel, bare }: { readonly name: string; readonly tunnel: Tunnel; readonly bare: boolean },
): LabRecord => ({
  name,
  tunnel,
  pid: process.pid,
  started: startOf(process.pid) ?? '',
  folder: lab.folder,
  url: lab.url,
  adminToken: lab.adminToken,
  ...(bare ? {} : { place: lab.place }),
  devices: lab.devices.map(({ name: device, namespace, addresses, stateFolder }) => ({
    name: device,
    holder: namespace.pid,
    driver4: addresses.driver4,
    driver6: addresses.driver6,
    state: stateFolder,
  })),
});

/** The same lab in a process of its own, until its record is there. That process is told everything by arguments, and `--detach` is not one of them. */
async function upDetached(options: UpOptions): Promise<void> {
  const { name } = options;
  const log = join(tmpdir(), `ringfence-lab-${name}-${process.pid}.log`);
  // Exclusive: in a folder that every user can write to, another user may have put a link there.
  const output = openSync(log, 'ax', 0o600);
  const args = (['name', 'devices', 'tunnel', 'listen', 'phase', 'program'] as const).flatMap((option) => {
    const value = options[option];
    return value === undefined ? [] : [`--${option}`, value];
  });
  const argv = [join(top, 'dev/lab/lab'), 'up', ...args, ...(options.bare === true ? ['--bare'] : [])];
  const child = spawn(process.execPath, argv, { detached: true, stdio: ['ignore', output, output] });
  closeSync(output);
  try {
    for (let attempt = 0; attempt < 15_000; attempt++) {
      const record = readRecord(name);
      if (record !== undefined && isAlive(record)) {
        terminal.out(introduction(record));
        child.unref();
        return;
      }
      if (child.exitCode !== null || child.signalCode !== null) break;
      await sleep(20);
    }
    child.kill('SIGTERM');
    throw new CliError('failed', 'the lab did not come up', readFileSync(log, 'utf8').trim().split('\n').slice(-5));
  } finally {
    await rm(log, { force: true });
  }
}

/** Those that are named, by word or by environment; or else all. */
export async function down(given: readonly string[]): Promise<void> {
  requireRoot();
  const named = process.env['RINGFENCE_LAB_NAME'];
  const names = given.length === 0 && named !== undefined ? [named] : given;
  const records = names.length === 0 ? listRecords() : names.map((name) => found(name));
  const running = records.filter(isAlive);
  if (names.length === 0 && running.length > 1)
    throw usageError(
      'several labs are running; say which to stop:',
      running.map(({ name }) => `lab down ${name}`),
    );
  for (const record of records) {
    if (isAlive(record)) {
      process.kill(record.pid, 'SIGTERM');
      for (let attempt = 0; attempt < 3_000 && isAlive(record); attempt++) await sleep(10);
      if (isAlive(record)) process.kill(record.pid, 'SIGKILL');
    }
    await clean(record);
    terminal.out(`The lab ${record.name} is down.\n`);
  }
  if (records.length === 0) terminal.out('No lab is running.\n');
}

/** What is left of a lab that was killed: namespaces and programs ended with it, files did not. */
async function clean(record: LabRecord): Promise<void> {
  if (/\/ringfence-lab-[^/]+$/.test(record.folder)) await removeFolder(record.folder);
  removeRecord(record.name);
}

export async function showLabs(): Promise<void> {
  requireRoot();
  const records = listRecords();
  if (records.length === 0) terminal.out('No lab is running. Start one with `lab up`.\n');
  for (const record of records) {
    const state = isAlive(record) ? `up, ${record.url}/ui/` : 'died; run `lab down` to clean up';
    terminal.out(`${record.name}: ${state}\n`);
    if (isAlive(record)) terminal.out(deviceLines(record));
  }
}

function found(name: string): LabRecord {
  const record = readRecord(name);
  if (record === undefined) throw new CliError('notFound', `lab ${name} does not exist`);
  return record;
}

/** The one lab that is up, or the one that was named. */
function theLab(name: string | undefined): LabRecord {
  const alive = (name === undefined ? listRecords() : [found(name)]).filter(isAlive);
  const [record, ...others] = alive;
  if (record === undefined) throw new CliError('notFound', 'no lab is running; start one with `lab up`');
  if (others.length > 0) {
    throw usageError(`several labs are running; choose one: ${alive.map((each) => `--name ${each.name}`).join(', ')}`);
  }
  return record;
}

function theDevice(record: LabRecord, text: string): LabDeviceRecord {
  const device = record.devices.find(({ name }) => name === text || name === `device-${text}`);
  if (device === undefined) {
    const names = record.devices.map(({ name }) => name).join(', ');
    throw new CliError('notFound', `the lab has no device ${text}; its devices are ${names}`);
  }
  return device;
}

export interface TryOptions {
  readonly name?: string;
  readonly ipv6?: boolean;
}

/** Long enough for a busy machine, short enough for a person. */
const timeoutMs = 2_000;

export interface PacketTry {
  readonly from: string;
  readonly to: string;
  readonly protocol: string;
  readonly port: string | undefined;
}

export async function tryPackets(texts: PacketTry, options: TryOptions): Promise<void> {
  requireRoot();
  const { from: fromText, to: toText, protocol, port: portText } = texts;
  const record = theLab(options.name);
  const [from, to] = [theDevice(record, fromText), theDevice(record, toText)];
  const address = options.ipv6 === true ? to.driver6 : to.driver4;
  const answer = await tryOnce({ from, to, address, protocol, portText });
  const what = portText === undefined ? protocol : `${protocol} ${portText}`;
  terminal.out(`${from.name} → ${to.name} (${address}) ${what}: ${answer}\n`);
  if (answer !== 'open') process.exitCode = 1;
}

interface TrafficTrial {
  readonly from: LabDeviceRecord;
  readonly to: LabDeviceRecord;
  readonly address: string;
  readonly protocol: string;
  readonly portText: string | undefined;
}

async function tryOnce({ from, to, address, protocol, portText }: TrafficTrial): Promise<string> {
  const asker = Namespace.heldBy(from.holder);
  if (protocol === 'icmp') {
    const { code } = await asker.attempt(['ping', '-n', '-c', '1', '-W', String(timeoutMs / 1_000), address]);
    return code === 0 ? 'open' : 'closed';
  }
  if (protocol !== 'tcp' && protocol !== 'udp') throw usageError('try tcp, udp or icmp');
  const port = readPort(portText, protocol);
  if (port === undefined) throw usageError('a port is needed: a number from 1 to 65535, or a service like ssh');
  const [there, here] = [new TrafficHelper(Namespace.heldBy(to.holder)), new TrafficHelper(asker)];
  try {
    // Where somebody listens already, that will do.
    await there.perform({ do: 'serve', protocol, port });
    return await here.perform({ do: 'probe', protocol, address, port, timeoutMs });
  } finally {
    here.close();
    there.close();
  }
}

/** Runs a command inside a device, as if it were typed there. */
export async function run(args: readonly string[], options: TryOptions): Promise<void> {
  requireRoot();
  const [deviceText = '', ...argv] = args;
  const device = theDevice(theLab(options.name), deviceText);
  const [command = '', ...rest] = Namespace.heldBy(device.holder).inside(argv);
  const env = {
    ...process.env,
    RINGFENCE_SERVER: `http://${relayAddress.address}:${relayAddress.port}`,
    RINGFENCE_INTERFACE: driverName,
    RINGFENCE_STATE: device.state,
  };
  const child = spawn(command, rest, { stdio: 'inherit', env });
  const pass = (signal: NodeJS.Signals): void => void child.kill(signal);
  process.on('SIGINT', pass);
  process.on('SIGTERM', pass);
  const code = await new Promise<number>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (status, signal) => resolve(status ?? (signal === 'SIGINT' ? 130 : 1)));
  });
  process.exitCode = code;
}

/** Runs, says what went wrong, and sets the exit code. */
export async function perform(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    const { code, lines } = commandExitOf(error, { debug: (process.env['RINGFENCE_DEBUG'] ?? '') !== '' });
    const [first = '', ...rest] = lines;
    for (const line of [`lab: ${first}`, ...rest]) terminal.note(line);
    process.exitCode = code;
  }
}
