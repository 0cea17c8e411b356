/**
 * Owns network namespaces for the lab and for tests: private to the process that made them, and removed when that
 * process ends in any way.
 */
import { spawn, type ChildProcess, type SpawnOptions } from 'node:child_process';
import { accessSync, constants, mkdirSync, symlinkSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** Debian keeps half of these in sbin, which is not on everybody's path. */
const path = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin', '/sbin', '/usr/bin', '/bin'].filter(
  (part) => part !== '',
);

const tools = {
  ip: 'iproute2',
  nft: 'nftables',
  nsenter: 'util-linux',
  unshare: 'util-linux',
  setpriv: 'util-linux',
  taskset: 'util-linux',
  mount: 'mount',
} as const;

/** Says everything that is missing at once. A lab that cannot be built is a failure, never a skipped test. */
function requireLab(): void {
  const missing = Object.entries(tools).filter(([tool]) => !onPath(tool));
  const problems: string[] = [];
  if (missing.length > 0) {
    const packages = [...new Set(missing.map(([, name]) => name))].join(' ');
    problems.push(`missing: ${missing.map(([tool]) => tool).join(', ')} (as root: apt-get install -y ${packages})`);
  }
  if (process.getuid?.() !== 0)
    problems.push('not root: making network namespaces needs CAP_SYS_ADMIN and CAP_NET_ADMIN');
  if (problems.length > 0) throw new Error(`the network lab cannot be built: ${problems.join('; ')}`);
}

function onPath(tool: string): boolean {
  return path.some((folder) => {
    try {
      accessSync(join(folder, tool), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

export interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A command that ended with a code other than 0; the message holds what it said and the input it was given. */
export class CommandFailed extends Error {
  readonly outcome: Outcome;
  constructor(argv: readonly string[], outcome: Outcome, input: string | undefined) {
    const given =
      input === undefined ? '' : `\n--- input\n${input.length > 20_000 ? `${input.slice(0, 20_000)}\n…` : input}`;
    super(`${argv.join(' ')} ended with ${outcome.code}\n${outcome.stderr}${outcome.stdout}${given}`);
    this.outcome = outcome;
  }
}

/** Runs a command to its end; throws `CommandFailed` unless it succeeds. */
async function run(argv: readonly string[], input?: string): Promise<Outcome> {
  const outcome = await attempt(argv, input);
  if (outcome.code !== 0) throw new CommandFailed(argv, outcome, input);
  return outcome;
}

async function attempt(argv: readonly string[], input?: string): Promise<Outcome> {
  const child = start(argv, { stdio: ['pipe', 'pipe', 'pipe'] });
  let stdout = '';
  let stderr = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  child.stdin?.on('error', () => {}); // A command may end without reading its input; its exit code tells the story.
  child.stdin?.end(input ?? '');
  const code = await new Promise<number>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (status, signal) => {
      if (signal !== null) stderr += `killed by ${signal}\n`;
      resolve(status ?? 128);
    });
  });
  return { code, stdout, stderr };
}

function start(argv: readonly string[], options: SpawnOptions): ChildProcess {
  const [command = '', ...args] = argv;
  return spawn(command, args, { ...options, env: { ...process.env, ...options.env, PATH: path.join(delimiter) } });
}

/**
 * Holds the namespace until its input ends, which happens however its maker ends; then whatever still runs inside goes.
 * Tunnel daemons keep their sockets under /run/wireguard, where another device's must not be.
 */
const holderScript = `
mount -t sysfs sysfs /sys && mkdir -p /run/wireguard && mount -t tmpfs tmpfs /run/wireguard &&
ip link set lo up && { [ -z "$1" ] || hostname "$1"; } && echo ready || exit 1
cat > /dev/null
own=$(readlink /proc/self/ns/net | sed 's/[][]/\\\\&/g')
for entry in $(find /proc/[0-9]*/ns/net -lname "$own" 2> /dev/null); do
  pid=\${entry#/proc/}; pid=\${pid%%/*}
  [ "$pid" = "$$" ] || kill -9 "$pid" 2> /dev/null
done
[ -z "$2" ] || rm -f "$2"
`;

/** Where `ip netns` looks for names. */
const nameFolder = '/run/netns';

export interface NamespaceOptions {
  /** For `ip netns exec`; must be unique on the machine. */
  readonly name?: string;
  /** What programs inside hold for the machine's name. */
  readonly hostname?: string;
}

/**
 * One network namespace (with a /sys of its own, so that /sys/class/net is true inside).
 * It lives as long as a holder process, and the holder lives as long as this process keeps its stdin open; what runs
 * inside is ended with it. So nothing is left behind, not even by kill -9.
 */
export class Namespace {
  readonly pid: number;
  readonly #holder: ChildProcess | undefined;
  readonly #children = new Set<ChildProcess>();

  private constructor(holder: ChildProcess | undefined, pid: number) {
    this.#holder = holder;
    this.pid = pid;
  }

  /** A namespace whose loopback is up. */
  static async create({ name, hostname = '' }: NamespaceOptions = {}): Promise<Namespace> {
    requireLab();
    const link = name === undefined ? '' : join(nameFolder, name);
    const argv = ['unshare', '--net', '--mount', '--uts', 'sh', '-c', holderScript, 'holder', hostname, link];
    // Ctrl-C in a terminal goes to everybody of the session: the holder must outlive what it holds.
    const holder = start(argv, { stdio: ['pipe', 'pipe', 'pipe'], detached: true });
    await new Promise<void>((resolve, reject) => {
      let said = '';
      holder.stderr?.setEncoding('utf8').on('data', (text: string) => (said += text));
      holder.stdout?.once('data', () => resolve());
      holder.once('error', reject);
      holder.once('close', (code) =>
        reject(new Error(`the network lab cannot be built: unshare ended with ${code}: ${said.trim()}`)),
      );
    });
    if (holder.pid === undefined) throw new Error('the network lab cannot be built: the holder has no process id');
    if (name !== undefined) {
      mkdirSync(nameFolder, { recursive: true });
      try {
        symlinkSync(`/proc/${holder.pid}/ns/net`, link);
      } catch (error) {
        holder.stdin?.end();
        throw new Error(`the network lab cannot be built: the namespace ${name} cannot be named`, { cause: error });
      }
    }
    return new Namespace(holder, holder.pid);
  }

  /** A namespace that another process holds. */
  static heldBy(pid: number): Namespace {
    return new Namespace(undefined, pid);
  }

  /** The full command line that runs `argv` inside. */
  inside(argv: readonly string[]): readonly string[] {
    return ['nsenter', '--target', String(this.pid), '--net', '--mount', '--uts', ...argv];
  }

  /** Runs a command inside to its end; throws `CommandFailed` unless it succeeds. */
  run(argv: readonly string[], input?: string): Promise<Outcome> {
    return run(this.inside(argv), input);
  }

  /** Like `run`, for a command that may fail. */
  attempt(argv: readonly string[], input?: string): Promise<Outcome> {
    return attempt(this.inside(argv), input);
  }

  /** Starts a long-lived command inside; it is ended with the namespace, and with this process. */
  spawn(argv: readonly string[], options: SpawnOptions = {}): ChildProcess {
    const child = start(['setpriv', '--pdeathsig', 'KILL', ...this.inside(argv)], options);
    this.#children.add(child);
    child.once('close', () => this.#children.delete(child));
    return child;
  }

  /** Sets kernel settings of this namespace: `{'net/ipv4/ip_forward': 1}`. */
  async sysctl(settings: Readonly<Record<string, number | string>>): Promise<void> {
    const lines = Object.entries(settings).map(([name, value]) => `echo ${value} > /proc/sys/${name}`);
    await this.run(['sh', '-e', '-c', lines.join('\n')]);
  }

  /** Ends every process started here, then the namespace with its interfaces and rules. */
  async close(): Promise<void> {
    const running = [...this.#children, ...(this.#holder === undefined ? [] : [this.#holder])].filter(
      (child) => child.exitCode === null && child.signalCode === null,
    );
    const ended = running.map((child) => new Promise((resolve) => child.once('close', resolve)));
    for (const child of this.#children) child.kill('SIGKILL');
    this.#holder?.stdin?.end();
    await Promise.all(ended);
  }
}

export interface VethEnd {
  readonly namespace: Namespace;
  readonly name: string;
  readonly addresses: readonly string[];
}

export async function bringUp({ namespace, name, addresses }: VethEnd): Promise<void> {
  await namespace.sysctl({ [`net/ipv6/conf/${name}/accept_dad`]: 0, [`net/ipv6/conf/${name}/accept_ra`]: 0 });
  const lines = addresses.map(
    (address) => `address add ${address} dev ${name}${address.includes(':') ? ' nodad' : ''}`,
  );
  await namespace.run(['ip', '-batch', '-'], [...lines, `link set ${name} up`, ''].join('\n'));
}

/** An end is ready when all its addresses are in use, the link-local one among them, and it listens to whoever looks for their hardware address. */
const isReady = `
$2 == name { joined[$3] = 1 }
$6 == name { flags[$1] = $5; if ($4 == "20") hasLinkLocal = 1 }
END {
  if (!hasLinkLocal) exit 1
  for (address in flags) {
    isTentative = flags[address] ~ /^[4-7c-f]/
    if (isTentative || !(("ff0200000000000000000001ff" substr(address, 27)) in joined)) exit 1
  }
}`;

/** The kernel does some of it later, from a work queue. */
export async function untilReady({ namespace, name }: VethEnd): Promise<void> {
  const look = `awk -v name="$1" "$2" /proc/net/igmp6 /proc/net/if_inet6`;
  const script = `for look in $(seq 3000); do ${look} && exit 0; sleep 0.02; done; ip address show >&2; exit 1`;
  await namespace.run(['sh', '-c', script, 'ready', name, isReady]);
}
