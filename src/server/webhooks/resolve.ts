/**
 * Owns the addresses of a receiver's name. The system's own lookup runs on the few threads that the whole process
 * shares, and a hostile name server can hold each for half a minute. So the server asks DNS first, which takes no
 * thread. It asks the system, a few names at a time, only for names that DNS does not know, such as those in
 * `/etc/hosts`.
 */
import { lookup, Resolver } from 'node:dns/promises';

export interface Address {
  readonly address: string;
  readonly family: number;
}

export interface NameSources {
  /** Over DNS, of one family. */
  readonly dns: (host: string, family: 4 | 6) => Promise<readonly string[]>;
  readonly system: (host: string) => Promise<readonly Address[]>;
}

/** Half of Node's default number of threads: files and everything else use the others. */
const mostAtOnce = 2;

const sources: NameSources = {
  // A new one each time, because it reads once which name servers there are.
  dns: (host, family) => {
    const resolver = new Resolver({ timeout: 2_000, tries: 2 });
    return family === 4 ? resolver.resolve4(host) : resolver.resolve6(host);
  },
  system: (host) => lookup(host, { all: true }),
};

/** A name server that does not answer would not answer the system either, and would take a thread for that. */
const isSilence = (error: unknown): boolean => error instanceof Error && 'code' in error && error.code === 'ETIMEOUT';

/** Finds all addresses of names. */
export function addressFinder({ dns, system }: NameSources = sources): (host: string) => Promise<readonly Address[]> {
  let asking = 0;
  const waiting: (() => void)[] = [];
  const askSystem = async (host: string): Promise<readonly Address[]> => {
    if (asking === mostAtOnce) await new Promise<void>((resolve) => waiting.push(resolve));
    else asking += 1;
    try {
      return await system(host);
    } finally {
      const next = waiting.shift();
      if (next === undefined) asking -= 1;
      else next();
    }
  };
  return async (host) => {
    const families = [4, 6] as const;
    const answers = await Promise.allSettled(families.map((family) => dns(host, family)));
    const failures = answers.flatMap((answer) => (answer.status === 'rejected' ? [answer.reason as unknown] : []));
    const found = answers.flatMap((answer, i) =>
      answer.status === 'fulfilled' ? answer.value.map((address) => ({ address, family: families[i] ?? 4 })) : [],
    );
    const silence = failures.find(isSilence);
    if (found.length > 0) return found;
    if (silence !== undefined) throw silence;
    return askSystem(host);
  };
}
