/** Owns which outbound traffic the far end refused, as its own agent reported it: nothing is to be learned from such connections (reference 4.23 (2)). */
import type { DeviceId, OrganizationId } from '../../policy/ids.ts';
import type { Organization } from '../../organization/organization.ts';
import type { StoredFlow } from '../store/data/flows.ts';
import { farKey, mostHolders, type FarEnds } from './far-ends.ts';
import { eachFlow, type ObservedFlowsOptions } from './observed-flows.ts';

interface RefusalWindow {
  readonly org: OrganizationId;
  readonly snapshot: Organization;
  readonly since: number;
  readonly until: number;
}

type Reported = Pick<StoredFlow, 'verdict' | 'until'>;

/** Different sums that are held. Older ones are then left out. */
const mostReported = 50_000;

const keyOf = (device: DeviceId, address: string, { protocol, port }: StoredFlow): string =>
  `${device} ${address} ${protocol} ${port}`;

/** Of reports of the same time, the one that something was admitted counts. */
const isNewer = (a: Reported, b: Reported | undefined): boolean =>
  b === undefined || a.until > b.until || (a.until === b.until && a.verdict === 'admitted');

/** Those of the flows that a device with the far address refused when it last reported them, and that no other device with this address admitted. */
export async function refusedAtFarEnd(
  flows: readonly StoredFlow[],
  farEnds: FarEnds,
  { org, snapshot, since, until }: RefusalWindow,
  options: ObservedFlowsOptions,
): Promise<ReadonlySet<StoredFlow>> {
  const { slices } = options;
  const outbound = flows.filter(({ direction }) => direction === 'out');
  const holdersOf = (flow: StoredFlow) => farEnds.holders(flow).slice(0, mostHolders);
  const devices = new Set<DeviceId>();
  const senders = new Map<DeviceId, readonly string[]>();
  await slices.each(outbound, (flow) => {
    for (const { id } of holdersOf(flow)) devices.add(id);
    if (senders.has(flow.device_id)) return;
    const { addresses = [] } = snapshot.devices.get(flow.device_id)?.identity ?? {};
    senders.set(
      flow.device_id,
      addresses.map(({ family, value }) => farKey({ family, far: value })),
    );
  });
  const addresses = new Set([...senders.values()].flat());
  const newest = new Map<string, Reported>();
  await eachFlow(options, { org, devices: [...devices], since, until }, (flow) => {
    const address = farKey(flow);
    if (flow.direction === 'out' || !addresses.has(address)) return true;
    const key = keyOf(flow.device_id, address, flow);
    if (isNewer(flow, newest.get(key))) newest.set(key, flow);
    return newest.size < mostReported;
  });
  const refused = new Set<StoredFlow>();
  await slices.each(outbound, (flow) => {
    const verdicts = new Set(
      holdersOf(flow).map(({ id }) => {
        let last: Reported | undefined;
        for (const address of senders.get(flow.device_id) ?? []) {
          const reported = newest.get(keyOf(id, address, flow));
          if (reported !== undefined && isNewer(reported, last)) last = reported;
        }
        return last?.verdict;
      }),
    );
    if (verdicts.has('refused') && !verdicts.has('admitted')) refused.add(flow);
  });
  return refused;
}
