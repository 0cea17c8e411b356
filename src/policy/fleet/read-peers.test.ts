/**
 * Proves that every problem in peers, selectors, labels and addresses is reported with its path and code, and that no
 * input throws.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readGroup, type ReadGroupOptions } from '../group.ts';
import { defaultLimits, namingLimits } from '../limits.ts';
import { Problems, type ProblemCode } from '../problem.ts';
import { validateRules } from '../validate.fixture.ts';
import { peer } from './fleet.fixture.ts';
import { readLabels } from './read-labels.ts';

const limits = { ...defaultLimits, ...namingLimits };
const tcp = { ip_protocol: 'tcp', from_port: 22, to_port: 22 };
const id = '00000000-0000-4000-8000-000000000001';
const other = '00000000-0000-4000-8000-000000000002';
const found = (rules: unknown, checks = {}): [string, string][] =>
  validateRules(rules, '', { ...limits, ...checks }).map(({ pointer, code }) => [pointer, code]);
const many = (count: number): { labels: string[] }[] =>
  Array.from({ length: count }, (_, i) => ({ labels: [`l${i}`] }));

describe('peers', () => {
  it.each([
    [{ labels: ['db'] }],
    [{ labels: ['db', 'prod'] }, { device_id: id.toUpperCase() }, { all_devices: true }],
    many(64),
    [{ labels: ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'] }],
  ])('%j are valid', (...peers) => {
    expect(found([{ ...tcp, peers }])).toEqual([]);
  });

  it.each<[string, unknown, string, ProblemCode]>([
    ['no entry', [], '/0/peers', 'too_few_items'],
    ['too many entries', many(65), '/0/peers', 'too_many_items'],
    ['null', null, '/0/peers', 'null_not_allowed'],
    ['an object', { labels: ['db'] }, '/0/peers', 'not_an_array'],
    ['an entry that is no object', ['db'], '/0/peers/0', 'not_an_object'],
    ['an entry without a key', [{}], '/0/peers/0', 'one_key_only'],
    ['two keys in one entry', [{ labels: ['db'], all_devices: true }], '/0/peers/0', 'one_key_only'],
    ['an unknown key', [{ label: ['db'] }], '/0/peers/0/label', 'unknown_field'],
    ['an unknown key beside a known one', [{ labels: ['db'], not: true }], '/0/peers/0/not', 'unknown_field'],
    ['labels that are no list', [{ labels: 'db' }], '/0/peers/0/labels', 'not_an_array'],
    ['no label', [{ labels: [] }], '/0/peers/0/labels', 'too_few_items'],
    ['nine labels', [{ labels: [...'abcdefghi'] }], '/0/peers/0/labels', 'too_many_items'],
    ['a label of wrong form', [{ labels: ['db', 'Prod'] }], '/0/peers/0/labels/1', 'label_invalid'],
    ['a label that is no string', [{ labels: [7] }], '/0/peers/0/labels/0', 'not_a_string'],
    ['a label twice', [{ labels: ['db', 'db'] }], '/0/peers/0/labels/1', 'duplicate'],
    ['no device id', [{ device_id: 'web-1' }], '/0/peers/0/device_id', 'not_an_id'],
    ['a device of nobody', [{ device_id: other }], '/0/peers/0/device_id', 'device_unknown'],
    ['all_devices that is not true', [{ all_devices: false }], '/0/peers/0/all_devices', 'not_one_of'],
    ['the same labels in another order', [{ labels: ['a', 'b'] }, { labels: ['b', 'a'] }], '/0/peers/1', 'duplicate'],
    ['the same device twice', [{ device_id: id }, { device_id: id.toUpperCase() }], '/0/peers/1', 'duplicate'],
  ])('with %s are refused', (_, peers, pointer, code) => {
    expect(found([{ ...tcp, peers }], { knowsDevice: (each: string) => each === id })).toEqual([[pointer, code]]);
  });

  it('are an unknown field where rules have none', () => {
    const problems = validateRules([{ ...tcp, peers: [{ labels: ['db'] }] }], '', defaultLimits);
    if (defaultLimits.peersPerRule === undefined) expect(problems.map(({ code }) => code)).toEqual(['unknown_field']);
    else expect(problems).toEqual([]);
    const { peersPerRule: _, ...without } = limits;
    expect(validateRules([{ ...tcp, peers: [] }], '', without).map(({ code }) => code)).toEqual(['unknown_field']);
  });

  it('never make reading throw, whatever they are', () => {
    const anything = fc.array(fc.oneof(peer, fc.jsonValue()), { maxLength: 4 });
    fc.assert(
      fc.property(fc.oneof(anything, fc.jsonValue()), (peers) => {
        expect(() => found([{ ...tcp, peers }])).not.toThrow();
      }),
    );
  });
});

describe('a group', () => {
  const read = (body: object, options: Partial<ReadGroupOptions> = {}) => {
    const { problems, group } = readGroup({ group_name: 'g', ...body }, { mode: 'create', limits, ...options });
    return { problems: problems.map(({ pointer, code }) => `${pointer} ${code}`), group };
  };
  const labels = [{ labels: ['db'] }];

  it('says which devices it applies to, and whether it is a guardrail', () => {
    const body = { applies_to: [{ labels: ['db', 'prod'] }, { all_devices: true }], guardrail: 'forbid' };
    expect(read(body).problems).toEqual([]);
    expect(read(body).group).toMatchObject(body);
    expect(read({ applies_to: [] }).problems).toEqual([]);
  });

  it.each<[string, object, string]>([
    ['a device as a selector', { applies_to: [{ device_id: id }] }, '/applies_to/0/device_id unknown_field'],
    ['too many selectors', { applies_to: many(65) }, '/applies_to too_many_items'],
    ['a selector twice', { applies_to: [...labels, ...labels] }, '/applies_to/1 duplicate'],
    ['a guardrail of no kind', { applies_to: labels, guardrail: 'deny' }, '/guardrail not_one_of'],
    ['a null guardrail', { applies_to: labels, guardrail: null }, '/guardrail null_not_allowed'],
    ['a guardrail for nobody', { guardrail: 'require' }, '/applies_to too_few_items'],
    ['a guardrail for an empty list', { guardrail: 'require', applies_to: [] }, '/applies_to too_few_items'],
  ])('with %s is refused', (_, body, problem) => {
    expect(read(body).problems).toEqual([problem]);
  });

  it('stays what it is: a guardrail of one kind, or none', () => {
    const standing = { inbound_rules: [], outbound_rules: [], applies_to: labels };
    const change = (guardrail: 'forbid' | undefined, body: object): string[] =>
      read(body, { mode: 'update', stored: { ...standing, guardrail } }).problems;
    expect(change('forbid', { guardrail: 'require' })).toEqual(['/guardrail guardrail_fixed']);
    expect(change(undefined, { guardrail: 'forbid' })).toEqual(['/guardrail guardrail_fixed']);
    expect(change('forbid', { guardrail: 'forbid' })).toEqual([]);
    expect(change('forbid', { applies_to: [] })).toEqual(['/applies_to too_few_items']);
    expect(change('forbid', { group_name: 'other' })).toEqual([]);
  });

  it('has neither field where groups have none', () => {
    const { selectorsPerGroup: _, ...without } = limits;
    expect(read({ applies_to: labels, guardrail: 'forbid' }, { limits: without }).problems).toEqual([
      '/applies_to unknown_field',
      '/guardrail unknown_field',
    ]);
  });
});

describe('a device', () => {
  const problemsOf = (read: (problems: Problems) => unknown): string[] => {
    const problems = new Problems();
    read(problems);
    return problems.problems.map(({ pointer, code }) => `${pointer} ${code}`);
  };

  it('has sorted labels, each once, and not too many', () => {
    expect(readLabels(['web', 'db'], '/labels', new Problems())).toEqual(['db', 'web']);
    expect(problemsOf((problems) => readLabels(['a', 'a', 'B', 7], '/labels', problems))).toEqual([
      '/labels/1 duplicate',
      '/labels/2 label_invalid',
      '/labels/3 not_a_string',
    ]);
    const tooMany = Array.from({ length: 33 }, (_, i) => `l${i}`);
    expect(problemsOf((problems) => readLabels(tooMany, '/labels', problems))).toEqual(['/labels too_many_items']);
    expect(problemsOf((problems) => readLabels(null, '/labels', problems))).toEqual(['/labels null_not_allowed']);
  });
});
