/** Owns the live view of observed traffic: earlier sums, then each new one once, until Ctrl-C. */
import type { Flow } from '../../api/flows/flow.ts';
import { sleep, systemClock } from '../../client/clock.ts';
import { RingfenceError } from '../../client/error.ts';
import type { Client } from '../../client/http.ts';
import { printable } from '../../policy/names/printable.ts';
import { flowLine } from '../lookup/flow-words.ts';
import type { Session } from '../session/session.ts';
import { toJson, toYaml } from '../terminal/output.ts';

type FlowQuery = NonNullable<Parameters<Client['flows']['list']>[1]> & {
  readonly since: string;
  readonly limit: number;
};

/** Agents report once a minute, each at its own second. */
const pollMs = 2_000;
/** A report may come so much later than the time that it is of: an agent tries again for up to a minute. What a device reports later, when it was away, is not shown. */
const lateMs = 120_000;
/** Sums that one poll reads at most, and in one request. */
const mostNew = 10_000;
const pageSize = 1_000;

const keyOf = ({ device_id, since, until, direction, verdict, far, protocol, port }: Flow): string =>
  [device_id, since, until, direction, verdict, far, protocol, port].join(' ');

/** The sums that were shown, as long as a poll can find them again. */
class ShownFlows {
  readonly #until = new Map<string, number>();

  /** Those of these that were not shown before. */
  take(flows: readonly Flow[]): readonly Flow[] {
    return flows.filter((flow) => {
      const key = keyOf(flow);
      if (this.#until.has(key)) return false;
      this.#until.set(key, Date.parse(flow.until));
      return true;
    });
  }

  forgetBefore(time: number): void {
    for (const [key, until] of this.#until) if (until < time) this.#until.delete(key);
  }
}

async function render(session: Session, flow: Flow): Promise<string> {
  switch (session.values.output) {
    case 'json':
      return toJson(flow);
    case 'yaml':
      return `---\n${await toYaml(flow)}`;
    case 'table':
    case 'wide':
      return `${session.values.quiet === true ? flow.device_id : printable(flowLine(flow))}\n`;
    default:
      return session.values.output satisfies never;
  }
}

export async function follow(session: Session, query: FlowQuery): Promise<void> {
  const { signal, terminal } = session;
  const [client, org_id] = [await session.client(), await session.organization()];
  const shown = new ShownFlows();
  /** The server's clock and ours may differ, and the times of sums are the server's. */
  let aheadMs = 0;
  const read = async (since: number, most: number): Promise<readonly Flow[]> => {
    const found: Flow[] = [];
    for (let after: string | undefined; ;) {
      const page = { ...query, since: new Date(since).toISOString(), limit: Math.min(most, pageSize) };
      const { value, next, serverTime } = await client.request('listFlows', {
        params: { org_id },
        query: after === undefined ? page : { ...page, after },
      });
      if (serverTime !== undefined) aheadMs = serverTime - Date.now();
      found.push(...value);
      if (next === undefined || found.length >= most) return found.slice(0, most);
      after = next;
    }
  };
  const first = Date.parse(query.since);
  const recent = (): number => Math.max(first, Date.now() + aheadMs - lateMs);
  const show = async (flows: readonly Flow[]): Promise<void> => {
    for (const flow of flows.toReversed()) terminal.out(await render(session, flow));
  };
  // What is there already is not new, also where it is more than the limit.
  shown.take(await read(recent(), mostNew));
  const earlier = await read(first, query.limit);
  shown.take(earlier);
  await show(earlier);
  session.say('Waiting for new traffic. Press Ctrl-C to stop.');
  let isAway = false;
  try {
    for (;;) {
      await sleep(systemClock, pollMs, signal);
      const since = recent();
      try {
        const flows = await read(since, mostNew);
        await show(shown.take(flows));
        if (flows.length === mostNew)
          terminal.note(`ringfence: more than ${mostNew} sums are new, and not all are shown; use filters`);
        isAway = false;
      } catch (error) {
        if (!(error instanceof RingfenceError) || !error.retryable) throw error;
        if (!isAway) terminal.note(`ringfence: ${error.message}; trying again`);
        isAway = true;
      }
      shown.forgetBefore(since);
    }
  } catch (error) {
    // Ctrl-C is the way to end it.
    if (!signal.aborted) throw error;
  }
}
