/**
 * Owns the saved addresses of the server: under closed rules, the agent must know them before it can resolve any name.
 */
import { parseAddress, printAddress, type Address } from '../../policy/address.ts';
import { field, isObject, type JsonObject } from '../../policy/json.ts';

/** One server is written as it always was. Several have a format of their own. */
const singleFormat = 1;
const format = 2;

/** The server that the addresses are of. */
export interface ServerName {
  readonly host: string;
  readonly port: number;
}

export interface KeptServer extends ServerName {
  readonly addresses: readonly Address[];
}

export function printServerAddresses(servers: readonly KeptServer[]): string {
  const texts = servers.map(({ host, port, addresses }) => ({
    host,
    port,
    addresses: addresses.map(({ family, value }) => printAddress(family, value)),
  }));
  const content = texts.length === 1 ? { format: singleFormat, ...texts[0] } : { format, servers: texts };
  return `${JSON.stringify(content)}\n`;
}

function serversIn(value: unknown): readonly JsonObject[] {
  if (!isObject(value)) return [];
  if (field(value, 'format') === singleFormat) return [value];
  const servers = field(value, 'format') === format ? field(value, 'servers') : undefined;
  return Array.isArray(servers) ? (servers as readonly unknown[]).filter((one) => isObject(one)) : [];
}

/** The addresses that were kept for this endpoint; none where the text is of another one, or not to be trusted. */
export function parseServerAddresses(text: string, { host, port }: ServerName): readonly Address[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return [];
  }
  const kept = serversIn(value).find((one) => field(one, 'host') === host && field(one, 'port') === port);
  const texts = kept && field(kept, 'addresses');
  const addresses = (Array.isArray(texts) ? (texts as readonly unknown[]) : []).map((each) =>
    parseAddress(typeof each === 'string' ? each : ''),
  );
  return addresses.every((address): address is Address => !('fault' in address)) ? addresses : [];
}
