/** Owns the audit log: one process of all servers writes what was committed, in the background, and no request waits for it (docs/decisions/audit-and-evidence.md). */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { innermost, StartError } from '../lifecycle/start-error.ts';
import type { ServerConfig } from '../options/config.ts';
import type { AuditExport } from '../store/contract/change/audit-export.ts';
import { auditLines } from './lines.ts';
import { sinkOf, type Sink } from './sink.ts';

export interface AuditLogOptions {
  readonly waiting: AuditExport;
  /** A path, `-`, `journald` or `syslog`. */
  readonly where: string;
  readonly refused: boolean;
  readonly clock: () => number;
  readonly onWarning: (message: string, cause: unknown) => void;
  readonly sink?: Sink;
  /** Milliseconds after which another process may write in the place of one that hangs. */
  readonly leaseMs?: number;
  readonly restMs?: number;
}

interface AuditLog {
  close(): Promise<void>;
}

/** Entries that are read at a time: few until it is known that they are small. */
const [fewest, most] = [16, 256];
const [smallBytes, largeBytes] = [128 * 1024, 1024 * 1024];
const forgetEveryMs = 300_000;
/** Milliseconds that a stop waits for a sink that takes nothing. */
const closeWithinMs = 1_000;

/** Starts it where the operator asks for it. Gives what ends it. */
export async function openAuditLog(
  { auditLog, auditLogRefused }: Pick<ServerConfig, 'auditLog' | 'auditLogRefused'>,
  options: Omit<AuditLogOptions, 'where' | 'refused'>,
): Promise<() => Promise<void>> {
  if (auditLog === undefined) return async () => {};
  const started = await startAuditLog({ ...options, where: auditLog, refused: auditLogRefused });
  return () => started.close();
}

/** The sink is tried at once, so that a wrong path shows at the start. */
export async function startAuditLog(options: AuditLogOptions): Promise<AuditLog> {
  const { waiting, where, refused, clock, onWarning, leaseMs = 30_000, restMs = 1_000 } = options;
  const sink = options.sink ?? sinkOf(where);
  const holder = randomUUID();
  const stopped = new AbortController();
  await sink.write('').catch((error: unknown) => {
    throw new StartError([`cannot write the audit log to ${where}: ${innermost(error)}`]);
  });
  await waiting.enable({ refused });
  let limit: number = fewest;

  /** Answers whether there was something to write. */
  async function writeSome(): Promise<boolean> {
    if (!(await waiting.claim(holder, leaseMs))) return false;
    const found = await waiting.next(limit);
    if (found.places.length === 0 && found.lost === 0) return false;
    const text = auditLines(found, new Date(clock()).toISOString(), sink.longestLine);
    await sink.write(text);
    await waiting.written(found);
    if (found.lost > 0)
      onWarning(`${found.lost} entries of the audit log were lost: they waited for too long`, undefined);
    limit = text.length > largeBytes ? fewest : text.length < smallBytes ? Math.min(2 * limit, most) : limit;
    return true;
  }

  const rest = (): Promise<void> => sleep(restMs, undefined, { signal: stopped.signal, ref: false }).catch(() => {});

  async function run(): Promise<void> {
    // One warning for each time that it fails.
    let isFailing = false;
    while (!stopped.signal.aborted) {
      let isBusy = false;
      try {
        isBusy = await writeSome();
        isFailing = false;
      } catch (cause) {
        if (!isFailing && !stopped.signal.aborted) onWarning('cannot write the audit log; trying again', cause);
        isFailing = true;
      }
      if (!isBusy) await rest();
    }
  }

  const forgetting = setInterval(() => void waiting.forget().catch(() => {}), forgetEveryMs).unref();
  const running = run();
  return {
    async close() {
      clearInterval(forgetting);
      stopped.abort();
      await Promise.race([running, sleep(closeWithinMs, undefined, { ref: false })]);
      await sink.close();
      await waiting.release(holder).catch(() => {});
    },
  };
}
