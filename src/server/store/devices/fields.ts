/** Owns the columns of a device that people and agents write, with their SQL types. */
export const fields = {
  public_key: 'text',
  local_ip: 'text',
  tunnel_ip: 'text',
  child_prefix: 'text',
  relay: 'boolean',
  discovery: 'boolean',
  reflexive_ip4: 'text',
  endpoint_local_address_ip4: 'text',
  symmetric_nat: 'boolean',
  hostname: 'text',
  addresses: 'text[]',
  labels: 'text[]',
  /** As JSON; empty while the device is not isolated. */
  isolated: 'text',
};

/** The columns that decide who may reach a device, and which rules of others match it. The history keeps each of their states. */
export const policyColumns = ['security_groups', 'tunnel_ip', 'addresses', 'labels', 'isolated'] as const;

export const fieldColumns = Object.keys(fields);

/** The columns of the row under this alias, as a list. */
export const fieldsOf = (row: string): string => fieldColumns.map((column) => `${row}.${column}`).join(', ');
