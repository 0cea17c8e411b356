/**
 * Owns addresses and routes over netlink (rtnetlink), with the program `ip` as a fallback where the channel does not
 * work.
 */
import { parseAddress, printAddress } from '../../policy/address.ts';
import type { LocalAddresses, RoutedInterface, RouteTable, RouteLookup } from '../host/route-table.ts';
import type { NetlinkChannel, Request } from './channel.ts';
import { withFallback } from './fallback.ts';
import {
  addressBytes,
  addressValue,
  attribute,
  concat,
  eachAttribute,
  readLe32,
  text,
  type Message,
} from './message.ts';

/** The protocol of netlink. */
const route = 0;
const get = { link: 18, address: 22, route: 26 } as const;
const answer = { link: 16, address: 20, route: 24 } as const;
/** Sizes of the heads of these messages, and what is needed of their attributes. */
const linkHead = 16;
const addressHead = 8;
const routeHead = 12;
const interfaceName = 3;
const addressOf = { peer: 1, local: 2 } as const;
const way = { destination: 1, source: 2, interface: 4 } as const;

const printed = (bytes: Uint8Array): string => printAddress(bytes.length === 4 ? 4 : 6, addressValue(bytes));

export const netlinkRouteTable = (channel: NetlinkChannel, otherwise: RouteTable): RouteTable => ({
  readLocal: (name) =>
    withFallback(
      () => readLocal(channel, name),
      () => otherwise.readLocal(name),
    ),
  over: (routed, ways) =>
    withFallback(
      () => over(channel, routed, ways),
      () => otherwise.over(routed, ways),
    ),
});

async function readLocal(channel: NetlinkChannel, name: string): Promise<LocalAddresses> {
  const asked = { type: get.link, payload: concat([new Uint8Array(linkHead), attribute(interfaceName, text(name))]) };
  let index = 0;
  // An error number says that there is none of this name.
  await channel.send(route, [asked], (_, { type, payload }) => {
    if (type === answer.link) index = readLe32(payload, 4);
  });
  const addresses = new Map<string, boolean>();
  const everything = { type: get.address, payload: new Uint8Array(addressHead) };
  const see = ({ type, payload }: Message): void => {
    if (type !== answer.address) return;
    let [local, peer]: [string | undefined, string | undefined] = [undefined, undefined];
    eachAttribute(payload.subarray(addressHead), (which, bytes) => {
      // Where both ends of a link have their addresses, this one's is the local one.
      if (which === addressOf.local) local = printed(bytes);
      else if (which === addressOf.peer) peer = printed(bytes);
    });
    const own = local ?? peer;
    if (own !== undefined) addresses.set(own, addresses.get(own) === true || readLe32(payload, 4) === index);
  };
  await channel.dump(route, everything, (part) => part.forEach(see));
  return { addresses, interface: { name, index } };
}

/** Asks for the route of a way; nothing where it is none between two addresses of one family. */
function routeRequest({ remote, local }: RouteLookup): Request | undefined {
  const [to, from] = [parseAddress(remote), local === undefined ? undefined : parseAddress(local)];
  if ('fault' in to || (from !== undefined && ('fault' in from || from.family !== to.family))) return undefined;
  const head = new Uint8Array(routeHead);
  const bits = to.family === 4 ? 32 : 128;
  head.set([to.family === 4 ? 2 : 10, bits, from === undefined ? 0 : bits]);
  const ends = [attribute(way.destination, addressBytes(to.family, to.value))];
  if (from !== undefined) ends.push(attribute(way.source, addressBytes(from.family, from.value)));
  return { type: get.route, payload: concat([head, ...ends]) };
}

async function over(
  channel: NetlinkChannel,
  { index }: RoutedInterface,
  ways: readonly RouteLookup[],
): Promise<Set<RouteLookup>> {
  const found = new Set<RouteLookup>();
  const asked = ways.flatMap((each) => {
    const request = routeRequest(each);
    return request === undefined ? [] : [{ each, request }];
  });
  // An error number says that no route leads there.
  await channel.send(
    route,
    asked.map(({ request }) => request),
    (at, { type, payload }) => {
      const each = asked[at]?.each;
      if (type !== answer.route || each === undefined) return;
      eachAttribute(payload.subarray(routeHead), (which, bytes) => {
        if (which === way.interface && index !== 0 && readLe32(bytes, 0) === index) found.add(each);
      });
    },
  );
  return found;
}
