/** Proves that formatting keeps what a policy file says, and that the schema for editors agrees with the reader of the files. */
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import { describe, expect, it } from 'vitest';
import { noNames } from '../group/peer-text.ts';
import { formatYaml } from '../terminal/format-yaml.ts';
import { readAllYaml } from '../terminal/read-yaml.ts';
import { fieldOrder } from './policy-files.ts';
import { readPolicy } from './policy-file.ts';
import { policySchema } from './schema.ts';

describe('the form of a file', () => {
  const written = `# Our policy.
devices:
    - {device: edge-1,   groups: [web]}
groups:
    # The front.
    - inbound:
          - tcp 80    # for everybody
          - tcp 443
      name:   web
---
tests: []
`;
  const formatted = formatYaml(written, fieldOrder);

  it('has one order of fields and one indentation, and keeps comments and the order of entries', () => {
    expect(formatted).toContain('# Our policy.');
    expect(formatted).toMatch(
      /# The front\.\n {2}- name: web\n {4}inbound:\n {6}- tcp 80 # for everybody\n {6}- tcp 443\n/,
    );
    expect(formatted.indexOf('groups:\n')).toBeLessThan(formatted.indexOf('devices:\n'));
    expect(formatted).toMatch(/---\ntests: \[\]\n$/);
  });

  it('is stable, and says the same', () => {
    expect(formatYaml(formatted, fieldOrder)).toBe(formatted);
    const values = (text: string): unknown => readAllYaml(text).map(({ value }) => value);
    expect(values(formatted)).toEqual(values(written));
    expect(() => formatYaml('a: [1', fieldOrder)).toThrow(/sequence|\]/);
  });
});

describe('a comment on the line of a rule', () => {
  const rulesIn = (...lines: string[]): unknown => {
    const [document] = readAllYaml(
      ['groups:', '  - name: web', '    inbound:', ...lines.map((line) => `      ${line}`)].join('\n'),
    );
    const { groups } = readPolicy(
      { documents: [{ file: 'x', value: document?.value, place: () => 'x' }], faults: [] },
      noNames,
    );
    return groups[0]?.inbound.map(({ from_port, description }) => [from_port, description]);
  };

  it('is its description, with quotes around the rule or without, and other comments are none', () => {
    expect(
      rulesIn("- 'tcp 80 # quoted'", '- tcp 81 # plain', "- 'tcp 82' # behind", '- tcp 83', '# between', '- tcp 84 #'),
    ).toEqual([
      [80, 'quoted'],
      [81, 'plain'],
      [82, 'behind'],
      [83, undefined],
      [84, undefined],
    ]);
    expect(rulesIn("- 'tcp 80 # first' # second", '- tcp 81 from 10.0.0.0/8   # the office #1')).toEqual([
      [80, 'first'],
      [81, 'the office #1'],
    ]);
  });
});

describe('the schema', () => {
  const ajv = new Ajv2020({ allowUnionTypes: true });
  formats.default(ajv);
  const fits = ajv.compile(policySchema);
  const isRead = (value: unknown): boolean => {
    try {
      readPolicy({ documents: [{ file: 'x', value, place: () => 'x' }], faults: [] }, noNames);
      return true;
    } catch {
      return false;
    }
  };
  const id = '018f9c3e-5b7a-7c1d-9e2f-3a4b5c6d7e8f';
  const rule = { ip_protocol: 'tcp', from_port: 1, to_port: 2 };
  const test = { name: 't', from: 'label:a', to: { labels: ['b'] }, protocol: 'tcp', port: 1, expect: 'allow' };
  it.each<[boolean, unknown]>([
    [true, {}],
    [true, { groups: null, devices: [], tests: [] }],
    [
      true,
      { groups: [{ name: 'a', inbound: ['tcp 1', rule], outbound: null, applies_to: ['label:a', { labels: ['b'] }] }] },
    ],
    [true, { groups: [{ default: true }, { name: 'b', owner: 'me', description: null }] }],
    [true, { groups: [{ name: 'a', guardrail: 'forbid', applies_to: ['all-devices'], inbound: ['tcp 23'] }] }],
    [true, { groups: [{ name: 'a', inbound: [{ ...rule, peers: [{ device_id: id }], description: 'x' }] }] }],
    [true, { devices: [{ device: 'a' }, { id, labels: ['a'], groups: ['b'] }] }],
    [true, { tests: [test, { ...test, name: 'u', port: 'ssh', note: 'why', to: '192.0.2.1' }] }],
    [false, []],
    [false, { things: [] }],
    [false, { groups: {} }],
    [false, { groups: [{}] }],
    [false, { groups: [{ name: 7 }] }],
    [false, { groups: [{ name: '' }] }],
    [false, { groups: [{ name: 'a', colour: 'red' }] }],
    [false, { groups: [{ name: 'a', owner: 'you' }] }],
    [false, { groups: [{ name: 'a', default: 'yes' }] }],
    [false, { groups: [{ name: 'a', inbound: 'tcp 1' }] }],
    [false, { groups: [{ name: 'a', inbound: [{ ip_protocol: 'tcp' }] }] }],
    [false, { groups: [{ name: 'a', inbound: [{ ...rule, to_port: 70_000 }] }] }],
    [false, { groups: [{ name: 'a', inbound: [{ ...rule, peers: [{ labels: ['a'], all_devices: true }] }] }] }],
    [false, { groups: [{ name: 'a', guardrail: 'deny', applies_to: ['label:a'] }] }],
    [false, { devices: [{ device: 7 }] }],
    [false, { devices: [{ groups: [] }] }],
    [false, { devices: [{ device: 'a', groups: 'web' }] }],
    [false, { devices: [{ device: 'a', id: 'short' }] }],
    [false, { tests: [{ ...test, expect: 'deny' }] }],
    [false, { tests: [{ ...test, protocol: 'sctp' }] }],
    [false, { tests: [{ ...test, port: 0 }] }],
    [false, { tests: [{ ...test, colour: 'red' }] }],
    [false, { tests: [{ name: 't' }] }],
  ])('and the reader agree: %s %j', (isGood, value) => {
    expect({ schema: fits(value), reader: isRead(value) }).toEqual({ schema: isGood, reader: isGood });
  });
});
