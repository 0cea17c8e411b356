/** Proves that a record of the server is understood whole or not used at all. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readGroupRecord } from './group-record.ts';
import { NotUnderstood } from './not-understood.ts';

const record = {
  id: '00000000-0000-4000-8000-000000000001',
  group_name: 'databases',
  group_description: '',
  org_id: '00000000-0000-4000-8000-000000000002',
  inbound_rules: [{ ip_protocol: 'tcp', from_port: 5432, to_port: 5432, peers: [{ labels: ['web'] }] }],
  applies_to: [{ labels: ['db'] }],
  guardrail: 'require',
  revision: 7,
  created_at: '2026-01-01T00:00:00Z',
  updated_at: '2026-01-01T00:00:00Z',
};

describe('a group of the server', () => {
  it('is read with whom it names, whom it applies to and what it is', () => {
    expect(readGroupRecord(record)).toEqual({
      id: record.id,
      name: 'databases',
      inbound: record.inbound_rules,
      outbound: [],
      appliesTo: [{ labels: ['db'] }],
      guardrail: 'require',
    });
  });

  it('has no application and is no guardrail where the record does not say so', () => {
    const { applies_to: _, guardrail: __, ...plain } = record;
    expect(Object.keys(readGroupRecord(plain))).toEqual(['id', 'name', 'inbound', 'outbound']);
  });

  it.each<[string, object]>([
    ['the group', { priority: 10 }],
    ['the modes', { mode: 'alert' }],
    ['a rule', { inbound_rules: [{ ...record.inbound_rules[0], hours: '09:00-17:00' }] }],
    ['a peer', { inbound_rules: [{ ...record.inbound_rules[0], peers: [{ labels: ['web'], not: true }] }] }],
    ['a selector', { applies_to: [{ labels: ['db'], zone: 'eu' }] }],
    ['the kinds of guardrail', { guardrail: 'observe' }],
    ['the kinds of peers', { inbound_rules: [{ ...record.inbound_rules[0], peers: [{ zone: 'eu' }] }] }],
    ['the protocols', { inbound_rules: [{ ...record.inbound_rules[0], ip_protocol: 'sctp' }] }],
  ])('is not understood where a newer server has added to %s', (_, more) => {
    expect(() => readGroupRecord({ ...record, ...more })).toThrow(NotUnderstood);
    try {
      readGroupRecord({ ...record, ...more });
    } catch (error) {
      expect(error).toMatchObject({ code: 'not_understood', message: expect.stringContaining(record.id) as string });
    }
  });

  it('is understood or refused, and never anything else, whatever it is', () => {
    const anything = fc.oneof(fc.jsonValue(), fc.dictionary(fc.constantFrom(...Object.keys(record)), fc.jsonValue()));
    fc.assert(
      fc.property(anything, (value) => {
        try {
          readGroupRecord(value);
        } catch (error) {
          expect(error).toBeInstanceOf(NotUnderstood);
        }
      }),
    );
  });
});
