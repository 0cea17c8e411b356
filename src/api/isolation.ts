/** Owns the wire form of a device's isolation (reference 1.5), and the validation of the request that isolates one. */
import { Type } from 'typebox';
import { parseAddress, printAddress, type Address } from '../policy/address.ts';
import { readPeers } from '../policy/fleet/read-peers.ts';
import type { DeviceId, UserId } from '../policy/ids.ts';
import { field, isObject } from '../policy/json.ts';
import { at, join, Problems, show, type Found } from '../policy/problem.ts';
import { parseTimestamp } from '../policy/time/timestamp.ts';
import type { RequestProblem } from './codes.ts';
import { Peer } from './group.ts';
import { limits } from './limits.ts';
import { id, ShortText, strict, Timestamp, type Wire } from './scalar.ts';
import { check } from './validate.ts';

const allowDescription =
  'Devices that still exchange traffic with it. On the isolated device they are admitted whatever its groups say, in both directions; their own groups decide on their side.';

export const Isolation = Type.Object(
  {
    since: Timestamp,
    until: Type.Optional(
      Type.String({ format: 'date-time', description: 'Every agent ends the isolation then, by its own clock.' }),
    ),
    by: id<UserId>('The owner who isolated it.'),
    reason: ShortText('Why.'),
    allow: Type.Optional(Type.Array(Peer, { description: allowDescription })),
    not_refused: Type.Optional(
      Type.Array(Type.String(), {
        description: 'Addresses of the device that the owner left out: the other devices do not refuse them.',
      }),
    ),
  },
  { ...strict, $id: 'Isolation', title: 'Isolation' },
);
export type Isolation = Wire<typeof Isolation>;

export const IsolateDevice = Type.Object(
  {
    reason: Type.String({
      minLength: 1,
      maxLength: limits.isolationReason,
      description: 'Why. Every member of the organization can read it.',
    }),
    until: Type.Optional(
      Type.String({
        format: 'date-time',
        description: 'When the isolation ends by itself. Without it, it ends when an owner lifts it.',
      }),
    ),
    allow: Type.Optional(
      Type.Array(Peer, { minItems: 1, maxItems: limits.peersPerRule, description: allowDescription }),
    ),
    addresses: Type.Optional(
      Type.Array(ShortText('An address of the device.'), {
        maxItems: limits.deviceAddresses + 1,
        uniqueItems: true,
        description:
          'The addresses of the device that the other devices refuse; without it, all. It leaves out addresses that others need, such as that of a DNS server. Addresses that the device gets later are refused.',
      }),
    ),
  },
  {
    ...strict,
    $id: 'IsolateDevice',
    title: 'IsolateDevice',
    examples: [{ reason: 'Suspicious logins', allow: [{ labels: ['forensics'] }] }],
  },
);
export type IsolateDevice = Wire<typeof IsolateDevice>;

/** An address that the other devices refuse because of an isolation, and where it comes from. */
export const RefusedAddress = Type.Object(
  {
    address: Type.String(),
    set_by: Type.Optional(
      Type.Object(
        {
          user_id: id<UserId>('The user who added the address to the device.'),
          username: Type.Optional(Type.String({ description: 'Absent of a user who is gone.' })),
          at: Timestamp,
        },
        { ...strict, description: 'Absent where the history does not show it.' },
      ),
    ),
    devices: Type.Optional(Type.Array(id<DeviceId>('A device.'), { description: 'Other devices that have it.' })),
    more_devices: Type.Optional(Type.Integer({ minimum: 1, description: 'How many devices there are besides.' })),
  },
  { ...strict, $id: 'RefusedAddress', title: 'RefusedAddress' },
);
export type RefusedAddress = Wire<typeof RefusedAddress>;

export const RefusedAddresses = Type.Array(RefusedAddress, {
  description:
    'What the other devices refuse. An address that others need, such as that of a DNS server, can be left out.',
});

export const IsolationPreview = Type.Object(
  { refused_addresses: RefusedAddresses },
  { ...strict, $id: 'IsolationPreview', title: 'IsolationPreview' },
);
export type IsolationPreview = Wire<typeof IsolationPreview>;

/** A warning about an isolation that was written as requested. */
export const IsolationWarning = Type.Object(
  {
    code: Type.Enum(['shared_address', 'no_address', 'no_address_of_family', 'earlier_address'], {
      description:
        '`shared_address`: other devices have this address, too, and the fleet refuses it. `no_address`, `no_address_of_family`: the record of the device has no address, or none of a family that other devices have, so the fleet refuses none. `earlier_address`: the device had this address, no record has it now, and the fleet does not refuse it.',
    }),
    detail: Type.String({ description: 'A sentence for a person.' }),
    address: Type.Optional(Type.String({ description: 'The address; absent where none is meant.' })),
    devices: Type.Optional(Type.Array(id<DeviceId>('A device.'), { description: 'The other devices that have it.' })),
    more_devices: Type.Optional(Type.Integer({ minimum: 1, description: 'How many devices there are besides.' })),
  },
  { ...strict, $id: 'IsolationWarning', title: 'IsolationWarning' },
);
export type IsolationWarning = Wire<typeof IsolationWarning>;

/** What is checked besides `allow`, for which the policy core has better words. */
const withoutAllow = Type.Object({ ...IsolateDevice.properties, allow: Type.Optional(Type.Unknown()) }, strict);

export interface ReadIsolateOptions {
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** Whether the organization has this device. */
  readonly knowsDevice: (id: string) => boolean;
  /** The device's own addresses. */
  readonly own: readonly Address[];
}

/** Every entry must be an address that the device has. */
function unknownAddresses(given: unknown, own: readonly Address[]): RequestProblem[] {
  const texts: readonly unknown[] = Array.isArray(given) ? given : [];
  return texts.flatMap((text, index) => {
    if (typeof text !== 'string' || own.some((address) => isSameAddress(address, text))) return [];
    return [
      { pointer: at('/addresses', index), code: 'address_unknown', detail: `The device has no address ${show(text)}.` },
    ];
  });
}

function isSameAddress({ family, value }: Address, text: string): boolean {
  const other = parseAddress(text);
  return !('fault' in other) && other.family === family && other.value === value;
}

/** The device's addresses that a valid body leaves out, as they are stored. */
export const leftOutAddresses = (own: readonly Address[], named: readonly string[]): readonly string[] =>
  own
    .filter((address) => !named.some((text) => isSameAddress(address, text)))
    .map(({ family, value }) => printAddress(family, value));

/** Every problem of a body; none means that it is an `IsolateDevice`. */
export function isolateProblems(body: unknown, { now, knowsDevice, own }: ReadIsolateOptions): Found<RequestProblem> {
  const found = check(withoutAllow, body);
  if (!isObject(body)) return found;
  const further: RequestProblem[] = [];
  const [until, allow] = [field(body, 'until'), field(body, 'allow')];
  const ends = typeof until === 'string' ? parseTimestamp(until) : undefined;
  if (ends !== undefined && ends <= now) {
    further.push({
      pointer: '/until',
      code: 'expiry_past',
      detail: `until must be in the future, got ${String(until)}.`,
    });
  }
  if (allow !== undefined) {
    const problems = new Problems();
    readPeers(allow, '/allow', problems, { most: limits.peersPerRule, knowsDevice });
    further.push(...problems.problems);
  }
  further.push(...unknownAddresses(field(body, 'addresses'), own));
  const pointers = new Set(found.problems.map(({ pointer }) => pointer));
  return join(
    found,
    further.filter(({ pointer }) => !pointers.has(pointer)),
  );
}

/** The devices that `allow` names by id, as far as it can be read. */
export function devicesAllowed(body: unknown): readonly string[] {
  const allow = isObject(body) ? field(body, 'allow') : undefined;
  const entries: readonly unknown[] = Array.isArray(allow) ? allow.slice(0, limits.peersPerRule) : [];
  return entries.flatMap((entry) => {
    const named = isObject(entry) ? field(entry, 'device_id') : undefined;
    return typeof named === 'string' ? [named.toLowerCase()] : [];
  });
}
