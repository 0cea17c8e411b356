/** Owns the wire text of a device, as a whole and as the view `identity` shows it: every field in wire order, what is empty left out. */

import type { DeviceContent } from '../../../../organization/decide/records.ts';
import { keepable, keepableList } from './keepable.ts';

const textsIn = ({ addresses = [], labels = [], security_groups = [], isolated, trial }: DeviceContent) => ({
  ...(addresses.length > 0 && { addresses: keepableList(addresses) }),
  ...(labels.length > 0 && { labels: keepableList(labels) }),
  ...(security_groups.length > 0 && { security_groups }),
  ...(isolated !== undefined && { isolated }),
  ...(trial !== undefined && { trial }),
});

export const deviceContent = (device: DeviceContent): DeviceContent => ({
  id: device.id,
  user_id: device.user_id,
  organization_id: device.organization_id,
  public_key: keepable(device.public_key),
  local_ip: keepable(device.local_ip),
  tunnel_ip: keepable(device.tunnel_ip),
  child_prefix: device.child_prefix && keepableList(device.child_prefix),
  relay: device.relay,
  discovery: device.discovery,
  reflexive_ip4: keepable(device.reflexive_ip4),
  endpoint_local_address_ip4: keepable(device.endpoint_local_address_ip4),
  symmetric_nat: device.symmetric_nat,
  hostname: keepable(device.hostname),
  ...textsIn(device),
  created_at: device.created_at,
  updated_at: device.updated_at,
});

/** What a device is and which groups it has. */
export const identityContent = (device: DeviceContent): object => ({
  id: device.id,
  hostname: device.hostname,
  tunnel_ip: device.tunnel_ip,
  ...textsIn(device),
});
