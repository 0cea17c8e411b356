/** Owns the validation of create and update bodies of devices: it reports all problems at once. */
import { parseAddress, parseRange, printAddress } from '../policy/address.ts';
import { isNetworkBroadcast, sharedAddressKind } from '../policy/fleet/own-address.ts';
import { at, join, show, type Found } from '../policy/problem.ts';
import { field, isObject } from '../policy/json.ts';
import type { RequestProblem } from './codes.ts';
import { AddDevice, UpdateDevice } from './device.ts';
import { check, type TextLengths } from './validate.ts';

export interface ReadDeviceOptions {
  readonly mode: 'create' | 'update';
  /** The organization that the path names. */
  readonly organization_id?: string;
  /** The user that the device is or will be; undefined when the body may name any. */
  readonly user_id?: string | undefined;
  readonly lengths?: TextLengths;
}

const isAddress = (text: string, family?: 4): boolean => {
  const address = parseAddress(text);
  return !('fault' in address) && (family === undefined || address.family === family);
};

/** An address, or an address with a port: `10.0.0.5`, `10.0.0.5:51820`, `fd00::5`, `[fd00::5]:51820`. */
function isEndpoint(text: string): boolean {
  if (isAddress(text)) return true;
  const match = /^(?:\[([^\]]+)\]|([^:[\]]+)):(\d{1,5})$/.exec(text);
  return match !== null && Number(match[3]) <= 65_535 && isAddress(match[1] ?? match[2] ?? '');
}

const isPrefix = (text: string): boolean => text.includes('/') && !('fault' in parseRange(text));

const forms: Readonly<Record<string, { readonly fits: (text: string) => boolean; readonly what: string }>> = {
  local_ip: { fits: isEndpoint, what: 'an address with port, like 10.0.0.5:51820' },
  tunnel_ip: { fits: (text) => isAddress(text) || isPrefix(text), what: 'an address' },
  reflexive_ip4: { fits: (text) => isAddress(text, 4), what: 'an IPv4 address' },
  endpoint_local_address_ip4: { fits: (text) => isAddress(text, 4), what: 'an IPv4 address' },
};

const notOwn = (pointer: string, text: string, kind: string): RequestProblem => ({
  pointer,
  code: 'address_not_own',
  detail: `${show(text)} is a ${kind} address, which no device has for itself.`,
});

/** The tunnel address is one that a device can have for itself. */
function tunnelProblems(given: unknown): RequestProblem[] {
  if (typeof given !== 'string') return [];
  const address = parseAddress(given.split('/')[0] ?? '');
  if ('fault' in address) return [];
  const kind = isNetworkBroadcast(given) ? 'broadcast' : sharedAddressKind(address);
  return kind === undefined ? [] : [notOwn('/tunnel_ip', given, kind)];
}

/** Single addresses that a device can have for itself, none of them twice, however it is written. */
function addressProblems(given: unknown): RequestProblem[] {
  const problems: RequestProblem[] = [];
  const seen = new Set<string>();
  for (const [index, text] of (Array.isArray(given) ? (given as unknown[]) : []).entries()) {
    if (typeof text !== 'string') continue;
    const pointer = at('/addresses', index);
    const address = parseAddress(text);
    if ('fault' in address) {
      const reason = address.fault === 'address_invalid' ? 'is not a single address' : address.reason;
      problems.push({ pointer, code: address.fault, detail: `${show(text)} ${reason}.` });
      continue;
    }
    const printed = printAddress(address.family, address.value);
    if (seen.has(printed)) problems.push({ pointer, code: 'duplicate', detail: `${printed} is already in addresses.` });
    seen.add(printed);
    const kind = sharedAddressKind(address);
    if (kind !== undefined) problems.push(notOwn(pointer, text, kind));
  }
  return problems;
}

/** Addresses as they are stored and answered. For those without problems. */
export const normalAddresses = (texts: readonly string[]): readonly string[] =>
  texts.map((text) => {
    const address = parseAddress(text);
    return 'fault' in address ? text : printAddress(address.family, address.value);
  });

/** Labels as they are stored and answered. */
export const normalLabels = (labels: readonly string[]): readonly string[] => labels.toSorted();

function formProblems(body: Readonly<Record<string, unknown>>): RequestProblem[] {
  const problems: RequestProblem[] = [];
  for (const [name, { fits, what }] of Object.entries(forms)) {
    const text = field(body, name);
    if (typeof text === 'string' && text !== '' && !fits(text)) {
      problems.push({
        pointer: at('', name),
        code: 'not_an_endpoint',
        detail: `${name} must be ${what}, or empty; got ${show(text)}.`,
      });
    }
  }
  problems.push(...tunnelProblems(field(body, 'tunnel_ip')), ...addressProblems(field(body, 'addresses')));
  const prefixes = field(body, 'child_prefix');
  for (const [index, text] of (Array.isArray(prefixes) ? (prefixes as unknown[]) : []).entries()) {
    if (typeof text === 'string' && !isPrefix(text)) {
      problems.push({
        pointer: at('/child_prefix', index),
        code: 'not_a_cidr',
        detail: `${show(text)} is not a CIDR prefix.`,
      });
    }
  }
  return problems;
}

/** Every problem of a body; none means that it is an `AddDevice` or `UpdateDevice`. */
export function deviceProblems(body: unknown, options: ReadDeviceOptions): Found<RequestProblem> {
  const found = check(options.mode === 'create' ? AddDevice : UpdateDevice, body, options.lengths);
  if (!isObject(body)) return found;
  const pointers = new Set(found.problems.map((problem) => problem.pointer));
  const further = formProblems(body);
  for (const name of ['organization_id', 'user_id'] as const) {
    const said = field(body, name);
    const expected = options[name];
    if (typeof said === 'string' && expected !== undefined && said.toLowerCase() !== expected.toLowerCase()) {
      const who = name === 'user_id' ? "the device's user is" : 'the path says';
      further.push({
        pointer: at('', name),
        code: 'contradiction',
        detail: `${name} says ${show(said)}, ${who} ${expected}.`,
      });
    }
  }
  return join(
    found,
    further.filter((problem) => !pointers.has(problem.pointer)),
  );
}
