/** Owns the JSON schema of policy files: their structure, for editors. What rules and names mean is judged by whoever reads the file. */
import { limits } from '../../api/limits.ts';
import { groupModes, protocols } from '../../policy/rule.ts';
import { testExpectations, testLimits, testProtocols } from '../../policy/policy-test/policy-test.ts';

const uuid = { type: 'string', format: 'uuid' } as const;
const texts = { type: 'array', items: { type: 'string' } } as const;
const port = { type: 'integer', minimum: 0, maximum: 65_535 } as const;
const labels = { ...texts, minItems: 1, maxItems: limits.selectorLabels, uniqueItems: true } as const;
const named = (properties: object) =>
  ({ type: 'object', properties, minProperties: 1, maxProperties: 1, additionalProperties: false }) as const;
const selectorFields = { labels, all_devices: { const: true } } as const;
const peerFields = { ...selectorFields, device_id: uuid } as const;

const rule = {
  anyOf: [
    {
      type: 'string',
      description: 'A rule in words: `tcp 443 from label:app`.',
      examples: ['tcp 5432 from label:app', 'icmp', 'udp 53 to 10.0.0.53'],
    },
    {
      type: 'object',
      description: 'A rule as the API has it.',
      properties: {
        ip_protocol: { enum: [...protocols] },
        from_port: port,
        to_port: port,
        ip_ranges: texts,
        peers: { type: 'array', items: named(peerFields), minItems: 1, maxItems: limits.peersPerRule },
        expires_at: { type: 'string', format: 'date-time' },
        description: { type: 'string' },
      },
      required: ['ip_protocol', 'from_port', 'to_port'],
      additionalProperties: false,
    },
  ],
} as const;
const rules = { type: ['array', 'null'], items: rule, maxItems: limits.rulesPerDirection } as const;

const group = {
  type: 'object',
  properties: {
    name: { type: 'string', minLength: 1, maxLength: limits.name },
    default: { type: 'boolean', description: 'The default group of the organization.' },
    owner: { enum: ['organization', 'me'] },
    id: { type: 'string', description: 'Only where several groups have the name.' },
    description: { type: ['string', 'null'], maxLength: limits.description },
    guardrail: { enum: ['forbid', 'require'] },
    mode: { enum: [...groupModes], description: '`observe`: watch only, it decides nothing.' },
    applies_to: {
      type: ['array', 'null'],
      maxItems: limits.selectorsPerGroup,
      items: { anyOf: [{ type: 'string', examples: ['label:app+prod', 'all-devices'] }, named(selectorFields)] },
    },
    inbound: { ...rules, description: 'Without rules, only replies come in.' },
    outbound: { ...rules, description: 'Without rules, everything may leave.' },
  },
  anyOf: [{ required: ['name'] }, { properties: { default: { const: true } }, required: ['default'] }],
  additionalProperties: false,
} as const;

const device = {
  type: 'object',
  properties: {
    device: { type: 'string', minLength: 1, description: 'Host name or id.' },
    id: { ...uuid, description: 'Selects the device with this id, regardless of its name.' },
    labels: texts,
    groups: { ...texts, description: 'Names or ids. An empty list means the default group.' },
  },
  anyOf: [{ required: ['device'] }, { required: ['id'] }],
  additionalProperties: false,
} as const;

const end = {
  anyOf: [
    { type: 'string', examples: ['label:app', 'device:web-1', 'all-devices', '192.0.2.1'] },
    named({ ...peerFields, address: { type: 'string' } }),
  ],
} as const;

const test = {
  type: 'object',
  properties: {
    name: { type: 'string', minLength: 1, maxLength: testLimits.nameLength },
    from: end,
    to: end,
    protocol: { enum: [...testProtocols] },
    port: {
      anyOf: [
        { type: 'string', minLength: 1 },
        { type: 'integer', minimum: 1, maximum: 65_535 },
      ],
    },
    expect: { enum: [...testExpectations] },
    note: { type: 'string', maxLength: testLimits.noteLength },
  },
  required: ['name', 'from', 'to', 'protocol', 'expect'],
  additionalProperties: false,
} as const;

const listOf = (items: object) => ({ type: ['array', 'null'], items }) as const;

export const policySchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  $id: 'urn:ringfence:policy-file',
  title: 'Ringfence policy file',
  type: 'object',
  properties: {
    groups: listOf(group),
    devices: listOf(device),
    tests: { ...listOf(test), maxItems: testLimits.tests },
  },
  additionalProperties: false,
} as const;
