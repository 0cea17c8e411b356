/** Proves that the examples of the API are valid requests, by their schemas and by the rules of the policy core. */
import { Value } from 'typebox/value';
import { describe, expect, test } from 'vitest';
import { readGroup } from '../policy/group.ts';
import { AddDevice } from './device.ts';
import { AddSecurityGroup, Peer, Selector } from './group.ts';
import { UpdateMember } from './organization.ts';

interface Described {
  readonly examples?: readonly unknown[];
}

describe('the examples', () => {
  test.each(Object.entries({ AddSecurityGroup, Peer, Selector, UpdateMember }))('of %s fit its schema', (_, schema) => {
    const { examples = [] } = schema as Described;
    expect(examples.length).toBeGreaterThan(0);
    expect(examples.filter((example) => !Value.Check(schema, example))).toEqual([]);
  });

  test.each(['labels', 'addresses'] as const)('of %s of a device fit its schema', (field) => {
    const { examples = [] } = AddDevice.properties[field] as Described;
    expect(examples.length).toBeGreaterThan(0);
    for (const example of examples) expect(Value.Check(AddDevice, { public_key: 'k', [field]: example })).toBe(true);
  });

  test('of groups are taken as they are', () => {
    const org_id = '018f9c3e-5b7a-7c1d-9e2f-3a4b5c6d7e8f';
    for (const example of (AddSecurityGroup as Described).examples ?? []) {
      expect(readGroup(example, { mode: 'create', org_id })).toMatchObject({ problems: [], group: example });
    }
  });
});
