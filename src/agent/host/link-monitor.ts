/** Owns the monitoring of network interfaces: the current list, and a signal for every change, also of addresses and routes. */
import { execFile } from 'node:child_process';
import type { Clock } from '../../client/clock.ts';
import { field, isObject } from '../../policy/json.ts';
import type { Link } from './driver-interface.ts';
import { helperEnvironment } from '../../node/helper-environment.ts';
import { SupervisedProcess } from './supervised-process.ts';

export interface LinkMonitorOptions {
  readonly clock: Clock;
  /** The command line that ip is started through, such as one that enters a network namespace. */
  readonly prefix?: readonly string[];
  readonly program?: string;
  /** Something may have changed: read again. */
  readonly onChange: () => void;
  /** Connections may use other interfaces from now on: an interface, an address, a route or a rule for routes has changed. */
  readonly onMoved: () => void;
  readonly onLost: (why: string) => void;
}

/** The parts of `ip -d -j link` that are read. */
interface IpLink {
  readonly ifindex: number;
  readonly ifname: string;
  readonly flags: readonly string[];
  readonly master?: unknown;
  /** The interface below, where it is in this namespace. */
  readonly link?: unknown;
  readonly linkinfo?: unknown;
}

const isIpLink = (value: unknown): value is IpLink =>
  typeof value === 'object' &&
  value !== null &&
  'ifindex' in value &&
  typeof value.ifindex === 'number' &&
  'ifname' in value &&
  typeof value.ifname === 'string' &&
  'flags' in value &&
  Array.isArray(value.flags);

/** Whether it takes everything that arrives at the interface below: a macvlan or macvtap in its mode `passthru`. */
function takesAll({ linkinfo }: IpLink): boolean {
  if (!isObject(linkinfo)) return false;
  const [kind, data] = [field(linkinfo, 'info_kind'), field(linkinfo, 'info_data')];
  return (kind === 'macvlan' || kind === 'macvtap') && isObject(data) && field(data, 'mode') === 'passthru';
}

/** The links in a listing of `ip -d -j link`. Throws where the text is none. */
export function parseLinks(text: string): readonly Link[] {
  const listing: unknown = text.trim() === '' ? [] : JSON.parse(text);
  if (!Array.isArray(listing)) throw new TypeError('the output of ip is not a list of links');
  const links = listing.filter(isIpLink);
  const takers = new Map(links.filter(takesAll).map(({ link, ifname }) => [link, ifname]));
  return links.map(({ ifindex, ifname, flags, master = takers.get(ifname) }) => ({
    index: ifindex,
    name: ifname,
    discovers: !flags.includes('POINTOPOINT') && !flags.includes('NOARP'),
    ...(typeof master === 'string' && { master }),
  }));
}

/** Milliseconds for a listing. Until the first one the agent has no rules: then it goes by the given name sooner. */
const timeout = 30_000;
const firstTimeout = 1_000;

export class LinkMonitor {
  readonly #argv: readonly string[];
  readonly #program: SupervisedProcess;
  readonly #clock: Clock;
  #timeout = firstTimeout;

  constructor({ clock, prefix = [], program = 'ip', onChange, onMoved, onLost }: LinkMonitorOptions) {
    this.#clock = clock;
    this.#argv = [...prefix, program];
    const changed = (): void => {
      onMoved();
      onChange();
    };
    this.#program = new SupervisedProcess({
      clock,
      // `netconf` reports when forwarding is switched on or off.
      argv: [...this.#argv, '-o', 'monitor', 'label', 'link', 'netconf', 'address', 'route', 'rule'],
      longestLine: 100,
      // A line is only a hint: some speak of bridges, and a deletion may be of a membership. Of routes there may be very many.
      onLine: (line) => {
        onMoved();
        if (!/^\[(?:ADDR|ROUTE|RULE)\]/.test(line)) onChange();
      },
      onStart: changed,
      onComplaint: changed,
      onEnd: (why) => {
        onLost(why);
        changed();
      },
    });
  }

  start(): void {
    this.#program.start();
  }

  stop(): Promise<void> {
    return this.#program.stop();
  }

  /** Every link there is now. Fails where `ip` gives no answer in time, whatever becomes of the program and of what it started. */
  read(): Promise<readonly Link[]> {
    const [command = '', ...args] = this.#argv;
    const within = this.#timeout;
    this.#timeout = timeout;
    return new Promise((resolve, reject) => {
      const child = execFile(
        command,
        [...args, '-d', '-j', 'link', 'show'],
        { env: helperEnvironment, maxBuffer: 64 * 1024 * 1024 },
        (error, stdout) => {
          cancel();
          if (error !== null) {
            reject(error);
            return;
          }
          try {
            resolve(parseLinks(stdout));
          } catch (fault) {
            reject(fault);
          }
        },
      );
      const cancel = this.#clock.after(within, () => {
        child.kill('SIGKILL');
        child.stdout?.destroy();
        child.stderr?.destroy();
        reject(new Error('`ip link show` does not answer'));
      });
    });
  }
}
