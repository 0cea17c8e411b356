/** Owns the audit log: one process of all servers writes what was committed, in the background, and no request waits for it (docs/decisions/audit-and-evidence.md). */
import { innermost, StartError } from '../lifecycle/start-error.ts';
import type { ServerConfig } from '../options/config.ts';
import type { DueWork } from '../scheduling/due-work.ts';
import type { AuditExport } from '../store/log/audit-export.ts';
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

/** Entries that are read at a time: few until it is known that they are small. */
const [fewest, most] = [16, 256];
const [smallBytes, largeBytes] = [128 * 1024, 1024 * 1024];

/** Where the operator asks for it. */
export async function openAuditLog(
  { auditLog, auditLogRefused }: Pick<ServerConfig, 'auditLog' | 'auditLogRefused'>,
  options: Omit<AuditLogOptions, 'where' | 'refused'>,
): Promise<readonly DueWork[]> {
  return auditLog === undefined ? [] : [await auditLogWork({ ...options, where: auditLog, refused: auditLogRefused })];
}

/** The sink is tried at once, so that a wrong path shows at the start. */
export async function auditLogWork(options: AuditLogOptions): Promise<DueWork> {
  const { waiting, where, refused, clock, onWarning, leaseMs = 30_000, restMs = 1_000 } = options;
  const sink = options.sink ?? sinkOf(where);
  await sink.write('').catch((error: unknown) => {
    throw new StartError([`cannot write the audit log to ${where}: ${innermost(error)}`]);
  });
  await waiting.enable({ refused });
  let limit: number = fewest;
  return {
    task: 'write the audit log',
    lease: { work: 'audit_log', forMs: leaseMs },
    async run() {
      const found = await waiting.next(limit);
      if (found.places.length === 0 && found.lost === 0) return restMs;
      const text = auditLines(found, new Date(clock()).toISOString(), sink.longestLine);
      await sink.write(text);
      await waiting.written(found);
      if (found.lost > 0)
        onWarning(`${found.lost} entries of the audit log were lost: they waited for too long`, undefined);
      limit = text.length > largeBytes ? fewest : text.length < smallBytes ? Math.min(2 * limit, most) : limit;
      return 0;
    },
    settle: () => sink.close(),
  };
}
