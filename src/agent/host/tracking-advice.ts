/**
 * Owns what an operator should know of connection tracking on this device, by which rules know answers: other programs that exempt packets from it, and
 * a table that is nearly full.
 */
import { readFile } from 'node:fs/promises';
import type { Run } from './run-command.ts';

/** Milliseconds between two readings of all rules, of which there may be very many. */
const readEvery = 10 * 60_000;
/** The part of the table from which on it is nearly full. */
const nearlyFull = 0.9;

interface TrackingAdviceOptions {
  readonly run: Run;
  /** Reads a setting of the kernel. */
  readonly read?: (name: string) => Promise<string>;
  readonly monotonic: () => number;
}

const readSetting = (name: string): Promise<string> => readFile(`/proc/sys/net/netfilter/${name}`, 'utf8');

/** The tables in a listing of `nft list ruleset` with a rule that exempts packets from tracking. */
function exemptingTables(listing: string): readonly string[] {
  const tables = new Set<string>();
  let table = '';
  for (const line of listing.split('\n')) {
    table = /^table (\S+ \S+) \{/.exec(line)?.[1] ?? table;
    // A comment may say anything.
    if (/\bnotrack\b/.test(line.replaceAll(/"[^"]*"/g, ''))) tables.add(table);
  }
  return [...tables];
}

export class TrackingAdvice {
  readonly #options: TrackingAdviceOptions;
  #read: { readonly at: number; readonly tables: Promise<readonly string[]> } | undefined;

  constructor(options: TrackingAdviceOptions) {
    this.#options = options;
  }

  /** In sentences; nothing where all is well, or cannot be known. */
  async warnings(): Promise<readonly string[]> {
    const [tables, used] = await Promise.all([this.#exempting(), this.#used()]);
    const names = tables.join(', ');
    return [
      ...(tables.length === 0
        ? []
        : [
            `another program exempts packets from connection tracking (\`notrack\` in ${names}): where inbound is closed, answers to such packets of this device are refused`,
          ]),
      ...(used < nearlyFull
        ? []
        : [
            `the kernel's table of connections is ${Math.floor(used * 100)} % full: a full one drops new connections on every interface; raise net.netfilter.nf_conntrack_max`,
          ]),
    ];
  }

  #exempting(): Promise<readonly string[]> {
    const { run, monotonic } = this.#options;
    const now = monotonic();
    if (this.#read === undefined || now - this.#read.at > readEvery) {
      // `-t`: without what sets hold.
      const tables = run(['nft', '-t', 'list', 'ruleset']).then(
        ({ code, stdout }) => (code === 0 ? exemptingTables(stdout) : []),
        () => [],
      );
      this.#read = { at: now, tables };
    }
    return this.#read.tables;
  }

  async #used(): Promise<number> {
    const { read = readSetting } = this.#options;
    try {
      const [count, most] = await Promise.all([read('nf_conntrack_count'), read('nf_conntrack_max')]);
      return Number(most) > 0 ? Number(count) / Number(most) : 0;
    } catch {
      return 0; // A kernel that tracks nothing yet has no such settings.
    }
  }
}
