/** Owns tracked connections over netlink, with the programs as a fallback where the channel does not work. */
import type { FlowTable } from '../host/flow-table.ts';
import type { Flow } from '../host/flows.ts';
import type { NetlinkChannel } from './channel.ts';
import { forgetConnections, kernelFlow, visitConnections, type KernelFlow } from './connections.ts';
import { withFallback } from './fallback.ts';
import { visitSockets } from './sockets.ts';

const isKernelFlow = (flow: Flow): flow is KernelFlow => 'key' in flow;
/** Above this many far ends one listing of all is less work than one for each. */
const mostRemotes = 8;

/** Connections by netlink. What the channel cannot do, `otherwise` does. */
export const netlinkFlowTable = (channel: NetlinkChannel, otherwise: FlowTable): FlowTable => ({
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
