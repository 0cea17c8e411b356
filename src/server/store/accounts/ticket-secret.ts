/** Owns the secret behind TLS session tickets: one per period, shared by all servers of the database, and deleted after the period. */
import { statement } from '../postgres/sql.ts';
import type { Context } from '../write/context.ts';

interface TicketSecret {
  readonly secret: Buffer;
  readonly endsInMs: number;
}

/** Values: seconds of a period, a fresh secret. The database's clock counts, so that the clocks of servers may differ. */
const takeTicketSecret = statement<{ secret: Buffer; ends_in_ms: number }>(
  'take_ticket_secret',
  `WITH now AS (SELECT floor(extract(epoch FROM clock_timestamp()) / $1::double precision)::bigint AS period),
   past AS (DELETE FROM tls_ticket_secrets t USING now WHERE t.period <> now.period)
   INSERT INTO tls_ticket_secrets AS t (period, secret) SELECT period, $2 FROM now
   ON CONFLICT (period) DO UPDATE SET period = excluded.period
   RETURNING secret, ((t.period + 1) * $1::double precision - extract(epoch FROM clock_timestamp())) * 1000 AS ends_in_ms`,
);

export const ticketSecretIn =
  ({ writes }: Pick<Context, 'writes'>, random: (bytes: Uint8Array) => void) =>
  async (periodMs: number): Promise<TicketSecret> => {
    const fresh = Buffer.alloc(32);
    random(fresh);
    const [row] = await writes.run(takeTicketSecret, [periodMs / 1_000, fresh]);
    if (row === undefined) throw new Error('the database returned no secret for session tickets');
    return { secret: row.secret, endsInMs: row.ends_in_ms };
  };
