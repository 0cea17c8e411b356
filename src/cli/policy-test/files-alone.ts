/** Owns an organization made of policy files alone: the devices that they name, with stand-ins for what only a server knows. */
import type { Device } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { printAddress } from '../../policy/address.ts';
import { isUuid, parseDeviceId, parseGroupId, parseOrganizationId, parseUserId } from '../../policy/ids.ts';
import { isObject } from '../../policy/json.ts';
import { defaultInboundRules } from '../../policy/rule.ts';
import type { CurrentPolicy } from '../policy/plan.ts';
import type { InputDocument } from '../terminal/input-file.ts';

const nobody = '00000000-0000-4000-8000-000000000000';
const times = { created_at: '1970-01-01T00:00:00.000Z', updated_at: '1970-01-01T00:00:00.000Z' };

/** An address that nobody can have and no sensible rule names: reserved for ever (240.0.0.0/4). */
const standIn = (host: number): string => printAddress(4, (240n << 24n) + BigInt(host));

function standInDevice(id: string, hostname: string, place: number): Device {
  return {
    id: parseDeviceId(id),
    user_id: parseUserId(nobody),
    organization_id: parseOrganizationId(nobody),
    public_key: '',
    local_ip: '',
    tunnel_ip: standIn(place + 1),
    child_prefix: null,
    relay: false,
    discovery: false,
    reflexive_ip4: '',
    endpoint_local_address_ip4: '',
    symmetric_nat: false,
    hostname,
    revision: 1,
    ...times,
  };
}

/** Each device once, however many files name it; what is wrong with an entry is found by whoever reads it. */
function devicesIn(documents: readonly Pick<InputDocument, 'value'>[]): readonly Device[] {
  const named = new Map<string, { readonly id: string; readonly hostname: string }>();
  for (const { value } of documents) {
    const entries = isObject(value) && Array.isArray(value['devices']) ? (value['devices'] as unknown[]) : [];
    for (const entry of entries) {
      if (!isObject(entry)) continue;
      const { id, device = id } = entry;
      if (typeof device !== 'string' || device === '') continue;
      const known = isUuid(id) ? id : isUuid(device) ? device : undefined;
      named.set(known ?? device, { id: (known ?? crypto.randomUUID()).toLowerCase(), hostname: device });
    }
  }
  return [...named.values()].map(({ id, hostname }, place) => standInDevice(id, hostname, place));
}

/** The default group as a new organization has it. */
const newDefaultGroup = (): SecurityGroup => ({
  id: parseGroupId(crypto.randomUUID()),
  org_id: parseOrganizationId(nobody),
  is_default: true,
  group_name: 'default',
  group_description: '',
  inbound_rules: [...defaultInboundRules],
  revision: 1,
  ...times,
});

export const policyInFiles = (documents: readonly Pick<InputDocument, 'value'>[]): CurrentPolicy => ({
  groups: [newDefaultGroup()],
  devices: devicesIn(documents),
  tests: [],
  me: nobody,
});
