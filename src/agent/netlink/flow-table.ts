/** Owns tracked connections over netlink, with the programs as a fallback where the channel does not work. */
import type { FlowTable } from '../host/flow-table.ts';
import type { Flow } from '../host/flows.ts';
import type { NetlinkChannel } from './channel.ts';
import { forgetConnections, kernelFlow, visitConnections, type KernelFlow } from './connections.ts';
import { withFallback } from './fallback.ts';
import { abortSockets, visitSockets } from './sockets.ts';

const isKernelFlow = (flow: Flow): flow is KernelFlow => 'key' in flow;
/** Above this many far ends one listing of all is less work than one for each. */
const mostRemotes = 8;

export interface NetlinkFlowTableOptions {
  /** From how many sockets with one far end on they are listed, not asked for one by one. */
  readonly manySockets?: number;
}

/** Connections by netlink. What the channel cannot do, `otherwise` does. */
export const netlinkFlowTable = (
  channel: NetlinkChannel,
  otherwise: FlowTable,
  { manySockets }: NetlinkFlowTableOptions = {},
): FlowTable => ({
  list: (remotes, visit) =>
    withFallback(
      () =>
        visitConnections(channel, remotes !== undefined && remotes.length <= mostRemotes ? remotes : undefined, visit),
      () => otherwise.list(remotes, visit),
    ),
  listSockets: (visit) =>
    withFallback(
      () => visitSockets(channel, visit),
      () => otherwise.listSockets(visit),
    ),
  abort: (flows, index) =>
    withFallback(
      async () => {
        const errno = await abortSockets(channel, flows, index, manySockets);
        // A kernel that does not end sockets: the program says so in its words.
        return errno === undefined ? undefined : otherwise.abort(flows, index);
      },
      () => otherwise.abort(flows, index),
    ),
  forget: (flows) =>
    withFallback(
      async () => {
        const known = flows.map((flow) => (isKernelFlow(flow) ? flow : kernelFlow(flow)));
        const errno = await forgetConnections(channel, known);
        if (errno !== undefined) await otherwise.forget(flows);
      },
      () => otherwise.forget(flows),
    ),
});
