/** Owns the operation that explains a connection (reference 4.10 (10)). */
import type { RequestProblem, RequestProblemCode } from '../../../api/codes.ts';
import type { Explanation } from '../../../api/enforcement/explanation.ts';
import type { Flow } from '../../../api/flows/flow.ts';
import { parseAddress, parseRange } from '../../../policy/address.ts';
import { isUuid, parseDeviceId } from '../../../policy/ids.ts';
import type { Transport } from '../../../policy/packet.ts';
import { explain, type ExplainedEndpoint, type Unexplained } from '../../explain/explain.ts';
import { newestFlows } from '../../explain/newest-flows.ts';
import { record, type Call, type Handler, type OrganizationServices } from '../call.ts';
import { invalid } from '../../problems.ts';
import { readableTraffic } from './convergence.ts';
import { shownFlows } from './flows.ts';

const problem = (pointer: string, code: RequestProblemCode, detail: string): RequestProblem => ({
  pointer,
  code,
  detail,
});

function readEndpoint(name: 'from' | 'to', text: string): ExplainedEndpoint {
  if (isUuid(text)) return { device: parseDeviceId(text) };
  const address = parseAddress(text);
  if (!('fault' in address)) return { address };
  throw invalid([problem(`/${name}`, 'address_invalid', 'Give the id of a device, or an address.')]);
}

const echoRequest = { 4: { kind: 'icmp', type: 8 }, 6: { kind: 'icmpv6', type: 128 } } as const;

function readTransport(protocol: string, port: number | undefined): (family: 4 | 6) => Transport {
  if (protocol === 'tcp' || protocol === 'udp') {
    if (port === undefined) throw invalid([problem('/port', 'missing_field', `With ${protocol} a port is needed.`)]);
    return () => ({ kind: protocol, dport: port });
  }
  if (port !== undefined) throw invalid([problem('/port', 'contradiction', 'Only tcp and udp have ports.')]);
  if (protocol === 'icmp') return (family) => echoRequest[family];
  const number = /^\d{1,3}$/.test(protocol) ? Number(protocol) : Number.NaN;
  if (number <= 255) return () => ({ kind: 'other', protocol: number });
  throw invalid([problem('/protocol', 'unknown_protocol', 'One of tcp, udp, icmp, or a number from 0 to 255.')]);
}

const refusals: { readonly [Why in Unexplained]: RequestProblem } = {
  from_unknown: problem('/from', 'device_unknown', 'This device does not exist in the organization.'),
  to_unknown: problem('/to', 'device_unknown', 'This device does not exist in the organization.'),
  from_has_no_address: problem('/from', 'address_invalid', 'The device has no address yet: give an address instead.'),
  to_has_no_address: problem('/to', 'address_invalid', 'The device has no address yet: give an address instead.'),
  families_differ: problem(
    '/to',
    'family_contradiction',
    'One end is IPv4 and the other is IPv6: no traffic is possible between them.',
  ),
  no_device: problem('/to', 'device_unknown', 'Neither end is a device of the organization.'),
};

/** Refusals of the last day, of each device so many. */
const recentMs = 86_400_000;
const mostRecent = 5;

/** What devices have refused of each other lately, on any port: only what the caller may read (reference 4.17 (6)). */
async function recentlyRefused(
  { from, to, sides }: Explanation,
  call: Call<'explainConnection'>,
  services: OrganizationServices,
): Promise<readonly Flow[]> {
  const { org_id } = call.params;
  const mayRead = await readableTraffic(call, services);
  const since = new Date(services.clock() - recentMs).toISOString();
  const found = await Promise.all(
    sides
      .filter(({ device_id }) => mayRead(device_id))
      .map(async ({ device_id, direction }) => {
        const far = parseRange(direction === 'outbound' ? to.address : from.address);
        if ('fault' in far) return [];
        const { flows } = await newestFlows(services.store, org_id, {
          devices: [device_id],
          direction: direction === 'outbound' ? 'out' : 'in',
          verdict: 'refused',
          far: [far],
          since,
          limit: mostRecent,
        });
        return flows;
      }),
  );
  const flows = found.flat().toSorted((a, b) => (a.until < b.until ? 1 : a.until > b.until ? -1 : 0));
  return flows.length === 0 ? [] : shownFlows(org_id, flows, services, call.work);
}

const explainConnection: Handler<'explainConnection'> = async (call, services) => {
  const { store, convergence, clock } = services;
  const { from, to, protocol = 'tcp', port } = call.query;
  const asked = {
    from: readEndpoint('from', from),
    to: readEndpoint('to', to),
    transport: readTransport(protocol, port),
  };
  call.work.onEnd(await services.enterOnce(call.params.org_id));
  const answer = await explain(call.params.org_id, asked, {
    convergence,
    groups: store.groups,
    now: clock,
    work: call.work,
  });
  if (typeof answer === 'string') throw invalid([refusals[answer]]);
  const recently_refused = await recentlyRefused(answer, call, services);
  return record({ ...answer, ...(recently_refused.length > 0 && { recently_refused }) });
};

export const explainHandlers = { explainConnection } as const;
