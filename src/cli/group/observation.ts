/** Owns the command that shows what a watch-only group would have done with the observed traffic. */
import type { Flow } from '../../api/flows/flow.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { RingfenceError } from '../../client/error.ts';
import { flowFarEnd, flowTraffic } from '../../client/words/flow.ts';
import { observationSummary, reasonWords, wouldWords } from '../../client/words/observation.ts';
import { deviceName } from '../lookup/device.ts';
import { findGroup } from '../lookup/group.ts';
import type { Session } from '../session/session.ts';
import { renderTable } from '../terminal/table.ts';
import { agoWords, readPastTime, shortTime } from '../terminal/time.ts';

export interface ObservationOptions {
  readonly since?: string;
}

/** A sum, and what the group would have done with it. */
type WouldBe = Flow & { readonly would: 'refuse' | 'admit' };

export async function observation(session: Session, text: string, { since = '7d' }: ObservationOptions): Promise<void> {
  const group = await findGroup(session, text);
  const client = await session.client();
  const from = new Date(readPastTime(since, Date.now())).toISOString();
  const found = await client.groups.observation(group.org_id, group.id, { since: from });
  const rows: readonly WouldBe[] = [
    ...found.would_refuse.flows.map((flow) => ({ ...flow, would: 'refuse' as const })),
    ...found.would_admit.flows.map((flow) => ({ ...flow, would: 'admit' as const })),
  ];
  await session.print({
    data: found,
    ids: [found.group_id],
    table: (layout) =>
      [
        rows.length === 0 ? '' : `${renderTable(columns, rows, layout)}\n`,
        `Since ${shortTime(found.since)}: ${wouldWords(found)}\n`,
        `${observationSummary(found)}\n`,
      ].join(''),
  });
}

const columns = [
  { head: 'WOULD', text: ({ would }: WouldBe) => would },
  {
    head: 'DEVICE',
    text: ({ hostname, device_id }: WouldBe) => deviceName({ hostname: hostname ?? '', id: device_id }),
  },
  { head: 'DIRECTION', text: ({ direction }: WouldBe) => direction },
  { head: 'FAR END', text: flowFarEnd },
  { head: 'TRAFFIC', text: flowTraffic },
  { head: 'PACKETS', text: ({ packets }: WouldBe) => String(packets), align: 'right' as const },
  { head: 'LAST', text: ({ until }: WouldBe) => agoWords(until, Date.now()) },
  { head: 'WHY', text: reasonWords },
];

/** What is worth lines beside a watch-only group. Nothing for those who may not read its observation. */
export async function observationLines(
  session: Session,
  group: SecurityGroup,
): Promise<readonly (readonly [string, string | readonly string[]])[]> {
  if (group.mode !== 'observe') return [];
  const line = ['mode', 'watch only: it decides nothing on any device'] as const;
  try {
    const found = await (await session.client()).groups.observation(group.org_id, group.id);
    return [line, ['would have', [wouldWords(found), observationSummary(found)]]];
  } catch (error) {
    if (error instanceof RingfenceError && (error.status === 403 || error.status === 404)) return [line];
    throw error;
  }
}
