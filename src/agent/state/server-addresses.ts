/** Owns the server's addresses as they are kept for the next start: under closed rules, the way there must be known before anybody can be asked. */
import { parseAddress, printAddress, type Address } from '../../policy/address.ts';
import { field, isObject } from '../../policy/json.ts';

const format = 1;

/** The server that the addresses are of. */
export interface ServerName {
  readonly host: string;
  readonly port: number;
}

export function printServerAddresses({ host, port }: ServerName, addresses: readonly Address[]): string {
  const texts = addresses.map(({ family, value }) => printAddress(family, value));
  return `${JSON.stringify({ format, host, port, addresses: texts })}\n`;
}

/** The addresses that were kept for this endpoint; none where the text is of another one, or not to be trusted. */
export function parseServerAddresses(text: string, { host, port }: ServerName): readonly Address[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return [];
  }
  if (!isObject(value) || field(value, 'format') !== format) return [];
  if (field(value, 'host') !== host || field(value, 'port') !== port) return [];
  const texts = field(value, 'addresses');
  const addresses = (Array.isArray(texts) ? (texts as readonly unknown[]) : []).map((each) =>
    parseAddress(typeof each === 'string' ? each : ''),
  );
  return addresses.every((address): address is Address => !('fault' in address)) ? addresses : [];
}
