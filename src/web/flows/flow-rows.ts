/** Owns the rows of observed traffic: the sums of many minutes of the same traffic are one row. */
import type { Flow } from '../../api/flows/flow.ts';

export interface FlowRow {
  readonly key: string;
  /** The newest sum: its decision and its names. */
  readonly flow: Flow;
  /** Packets of all sums. */
  readonly packets: number;
  /** The beginning of the oldest sum. */
  readonly since: string;
}

const keyOf = ({ device_id, direction, verdict, far, protocol, port }: Flow): string =>
  [device_id, direction, verdict, far, protocol, port].join(' ');

/** From sums with the newest first, rows in the same order. */
export function flowRows(flows: readonly Flow[]): readonly FlowRow[] {
  const rows = new Map<string, FlowRow>();
  for (const flow of flows) {
    const key = keyOf(flow);
    const known = rows.get(key);
    rows.set(
      key,
      known === undefined
        ? { key, flow, packets: flow.packets, since: flow.since }
        : {
            ...known,
            packets: known.packets + flow.packets,
            since: flow.since < known.since ? flow.since : known.since,
          },
    );
  }
  return [...rows.values()];
}
