/** Owns what is removed by its age alone: by table, which rows are older than a border. What more than the age decides is with its table. */
import { statement } from './postgres/sql.ts';
import type { Context } from './write/context.ts';

/** One kind of rows. */
export interface Retention {
  readonly what: string;
  /** Removes what is no longer kept, or adds it up. Several servers may do it at once. */
  forget(): Promise<void>;
}

/** Values: the border. */
const conditions = {
  change_sets: 'at < $1',
  trials: "state <> 'pending' AND ended_at < $1",
  idempotency_keys: 'at <= $1',
  webhook_deliveries: "state <> 'pending' AND next_at < $1",
  sessions: 'expires_at < $1',
  used_tickets: 'until < $1',
  fleet_samples: 'at < $1',
  flows: 'until < $1',
  flow_coverage: "day < ($1::timestamptz AT TIME ZONE 'UTC')::date",
  refusal_levels: 'through < $1 OR NOT EXISTS (SELECT FROM devices d WHERE d.id = refusal_levels.device_id)',
  rule_usage: "day < ($1::timestamptz AT TIME ZONE 'UTC')::date",
} as const;
type AgedTable = keyof typeof conditions;

const removeOld = (table: string, condition: string) =>
  statement<never>(`remove_old_${table}`, `DELETE FROM ${table} WHERE ${condition}`);
const removals = Object.entries(conditions).map(([table, condition]) => ({
  table: table as AgedTable,
  remove: removeOld(table, condition),
}));

/** For so many milliseconds each is kept. */
export const removalsByAge = (
  { writes, clock }: Pick<Context, 'writes' | 'clock'>,
  keepMs: Readonly<Record<AgedTable, number>>,
): readonly Retention[] =>
  removals.map(({ table, remove }) => ({
    what: table.replace('_', ' '),
    async forget() {
      await writes.run(remove, [new Date(clock() - keepMs[table]).toISOString()]);
    },
  }));
