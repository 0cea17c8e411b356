/** Owns the lines of the audit log: one JSON object each, with a type and an id that stays the same when a line comes again. */
import { printableJson } from '../../policy/names/printable.ts';
import { isObject } from '../../policy/json.ts';
import { printAddress } from '../../policy/address.ts';
import { hasPort, protocolName } from '../../policy/flow/protocol.ts';
import type { RefusedReport, WaitingEntries } from '../store/data/audit.ts';
import type { AuditRecord } from '../store/data/records.ts';

/** The path of a webhook's URL often is its password. */
function withoutPath(state: object | undefined): object | undefined {
  const url = isObject(state) ? state['url'] : undefined;
  if (typeof url !== 'string') return state;
  return { ...state, url: URL.canParse(url) ? `${new URL(url).origin}/…` : '…' };
}

/** People read these lines on terminals: no name of a device or a group contains a command for one, or reverses a line. */
const jsonLine = (value: object): string => printableJson(JSON.stringify(value));

function auditLine({ before, after, ...entry }: AuditRecord, longest: number): string {
  const states = {
    ...(before && { before: withoutPath(before) }),
    ...(after && { after: withoutPath(after) }),
  };
  const line = jsonLine({ type: 'audit', ...entry, ...states });
  if (Buffer.byteLength(line) <= longest) return line;
  // The API has them in full.
  return jsonLine({ type: 'audit', ...entry, truncated: true });
}

const refusedLines = ({ sums, part, ...report }: RefusedReport): readonly string[] =>
  sums.map(({ place, sum: { direction, family, far, protocol, port, packets } }) =>
    jsonLine({
      type: 'refused',
      id: `${report.device_id}.${Date.parse(report.until)}.${part}.${place}`,
      ...report,
      direction,
      far: printAddress(family, far),
      protocol: protocolName(protocol),
      ...(hasPort(protocol) && { port }),
      packets,
    }),
  );

export function auditLines({ entries, refused, lost }: WaitingEntries, at: string, longest = Infinity): string {
  const lines = [
    ...(lost > 0 ? [jsonLine({ type: 'lost', at, entries: lost })] : []),
    ...entries.map((entry) => auditLine(entry, longest)),
    ...refused.flatMap(refusedLines),
  ];
  return lines.map((line) => `${line}\n`).join('');
}
