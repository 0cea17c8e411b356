/**
 * Owns tracked connections through the programs `conntrack` and `ss`. This works everywhere, but is slow for many
 * connections.
 */
import { parseFlows, socketFlow, type Flow } from './flows.ts';
import type { FlowTable } from './flow-table.ts';
import { CannotRun, type Run } from './run-command.ts';

/** conntrack ends so when there was nothing to delete: a connection may have ended by itself meanwhile. */
const nothingDeleted = 1;

export const commandFlowTable = (run: Run): FlowTable => ({
  async list(_, visit) {
    visit(await everyFlow(run));
  },
  async listSockets(visit) {
    const { code, stdout, stderr } = await run(['ss', '--all', '--tcp', '--numeric', '--no-header']);
    if (code !== 0) throw new CannotRun(`ss cannot list sockets: ${firstLine(stderr)}`);
    visit(parseSockets(stdout));
  },
  async forget(flows) {
    const ended = new Set(flows.map(nameOf));
    const kept = (await everyFlow(run)).filter((flow) => !ended.has(nameOf(flow)));
    const lines = deletions(flows, kept);
    // conntrack opens its input anew, which only a true pipe allows.
    const { code, stderr } = await run(
      ['sh', '-c', 'cat | conntrack --load-file -'],
      lines.map((line) => `${line}\n`).join(''),
    );
    if (code !== 0 && code !== nothingDeleted)
      throw new CannotRun(`conntrack cannot delete connections: ${firstLine(stderr)}`);
  },
});

async function everyFlow(run: Run): Promise<readonly Flow[]> {
  const { code, stdout, stderr } = await run(['conntrack', '-L']);
  if (code !== 0) throw new CannotRun(`conntrack cannot list connections: ${firstLine(stderr)}`);
  return parseFlows(stdout);
}

/** A key that is unique among the connections of a zone. */
const nameOf = (flow: Flow): string => `${wayOf(flow)} ${flow.original.sport}`;

/** The connection without the port that its beginner chose. */
const wayOf = ({ family, protocol, original: { src, dst, dport }, icmp }: Flow): string =>
  `-D -f ipv${family} -p ${protocol} -s ${src} -d ${dst}${protocol === 6 || protocol === 17 ? ` --dport ${dport}` : ''}` +
  (icmp === undefined ? '' : ` --icmp${family === 6 ? 'v6' : ''}-id ${icmp.id}`);

/**
 * The conntrack lines that delete exactly these connections. conntrack walks all connections once per line, so one line
 * covers all connections to the same port between the same two addresses, unless one of them must be kept.
 */
function deletions(flows: readonly Flow[], kept: readonly Flow[]): readonly string[] {
  const mixed = new Set(kept.map(wayOf));
  const lines = flows.map((flow) => {
    const way = wayOf(flow);
    const { protocol, original } = flow;
    return mixed.has(way) && (protocol === 6 || protocol === 17) ? `${way} --sport ${original.sport}` : way;
  });
  return [...new Set(lines)];
}

/** States in which data may pass, as ss calls them. */
const openStates: ReadonlySet<string> = new Set([
  'ESTAB',
  'FIN-WAIT-1',
  'FIN-WAIT-2',
  'CLOSE-WAIT',
  'LAST-ACK',
  'CLOSING',
]);

/** The connections in a listing of `ss --all --tcp --numeric`. */
function parseSockets(text: string): readonly Flow[] {
  const lines = text.split('\n').map((line) => line.trim().split(/\s+/));
  const listens = new Set(lines.flatMap(([state, , , near = '']) => (state === 'LISTEN' ? endOf(near).port : [])));
  return lines.flatMap(([state = '', , , near = '', far = '']) => {
    if (!openStates.has(state)) return [];
    const [here, there] = [endOf(near), endOf(far)];
    const isServer = listens.has(here.port);
    return [socketFlow({ near: here.address, far: there.address, here: here.port, there: there.port, isServer })];
  });
}

/** An end as ss writes it: `10.0.0.1:22`, `[fd00::1]:22`, `[::ffff:10.0.0.1]:22`, perhaps with `%` and an interface. */
function endOf(text: string): { readonly address: string; readonly port: number } {
  const at = text.lastIndexOf(':');
  const [address = ''] = text.slice(0, at).replaceAll(/[[\]]/g, '').split('%');
  return { address: address.replace(/^::ffff:(?=\d+\.)/, ''), port: Number(text.slice(at + 1)) };
}

const firstLine = (text: string): string => text.trim().split('\n')[0]?.slice(0, 200) ?? '';
