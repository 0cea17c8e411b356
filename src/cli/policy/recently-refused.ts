/** Owns what devices refused lately, beside an explanation: the newest sums, each with the nearest rule. */
import type { Flow } from '../../api/flows/flow.ts';
import { RingfenceError } from '../../client/error.ts';
import type { Client } from '../../client/http.ts';
import { printable } from '../../policy/names/printable.ts';
import type { Transport } from '../../policy/packet.ts';
import { flowLine } from '../lookup/flow-words.ts';
import type { Session } from '../session/session.ts';

export type RefusalQuery = Pick<
  NonNullable<Parameters<Client['flows']['list']>[1]>,
  'device_id' | 'direction' | 'far' | 'protocol' | 'port'
>;

const recentMs = 86_400_000;
const mostRecent = 5;

/** The protocol and port by which sums of such traffic are found. */
export function flowTraffic(transport: Transport): { readonly protocol: string; readonly port?: number } {
  const protocol = transport.kind === 'other' ? String(transport.protocol) : transport.kind;
  return 'dport' in transport ? { protocol, port: transport.dport } : { protocol };
}

/** Refusals of the last day, newest first. The server shows those of devices whose traffic the person may read. */
export async function recentlyRefused(session: Session, queries: readonly RefusalQuery[]): Promise<readonly Flow[]> {
  const [client, organization] = [await session.client(), await session.organization()];
  const since = new Date(Date.now() - recentMs).toISOString();
  const read = async (query: RefusalQuery): Promise<readonly Flow[]> => {
    const found: Flow[] = [];
    try {
      for await (const flow of client.flows.each(organization, {
        ...query,
        verdict: 'refused',
        since,
        limit: mostRecent,
      })) {
        found.push(flow);
        if (found.length === mostRecent) break;
      }
      return found;
    } catch (error) {
      // A server of an earlier version. The explanation does not depend on it.
      if (error instanceof RingfenceError && error.status === 404) return [];
      throw error;
    }
  };
  const found = (await Promise.all(queries.map(read))).flat();
  return found.toSorted((a, b) => Date.parse(b.until) - Date.parse(a.until));
}

export const refusalLines = (flows: readonly Flow[]): readonly string[] =>
  flows.length === 0 ? [] : ['Recently refused:', ...flows.map((flow) => `  ${printable(flowLine(flow))}`)];
