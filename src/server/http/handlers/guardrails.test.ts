/** Proves that the answer to a group write says when its rules were not completely compared with the guardrails. */
import { describe, expect, test } from 'vitest';
import type { WrittenGroup } from '../../../api/group.ts';
import { readGroupRecord } from '../../../policy/fleet/group-record.ts';
import { parseGroupId, parseOrganizationId } from '../../../policy/ids.ts';
import type { StoredRule } from '../../../policy/rule.ts';
import type { GroupRecord, Stored } from '../../store/data/records.ts';
import type { Store } from '../../store/open.ts';
import { withWarnings } from './guardrails.ts';

const org = parseOrganizationId('00000000-0000-4000-8000-0000000000aa');
const idOf = (n: number) => parseGroupId(`00000000-0000-4000-8000-${n.toString().padStart(12, '0')}`);
const tcp = (port: number, ip_ranges: readonly string[] = []): StoredRule => ({
  ip_protocol: 'tcp',
  from_port: port,
  to_port: port,
  ip_ranges,
});

function group(n: number, inbound_rules: readonly StoredRule[]): Stored<GroupRecord> {
  const at = '2026-01-01T00:00:00Z' as GroupRecord['created_at'];
  const record: GroupRecord = {
    id: idOf(n),
    group_name: `group ${n}`,
    group_description: '',
    org_id: org,
    inbound_rules,
    created_at: at,
    updated_at: at,
    revision: 1,
  };
  return { id: record.id, revision: 1, json: JSON.stringify(record), record };
}

/** The warnings of the answer to a write of the group, where these guardrails forbid something to one device that has it. */
async function warningsOf(written: Stored<GroupRecord>, ...guardrails: Stored<GroupRecord>[]) {
  const forbids = guardrails.map(({ record }) => readGroupRecord(record));
  const groups = { forbidsOn: () => Promise.resolve([{ guardrails: forbids, devices: 1 }]) };
  const answer = await withWarnings({ groups } as unknown as Store, org, { ...written, mayBeVoid: true });
  if (typeof answer.json !== 'string') throw new Error('the answer to a write is one text');
  const { warnings = [] } = JSON.parse(answer.json) as WrittenGroup;
  return warnings.map(({ pointer, code, guardrail_ids }) => [pointer, code, ...guardrail_ids]);
}

const ranges = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, i) => `10.${i >> 8}.${i & 255}.1`);

describe('the warnings of a write', () => {
  test('name each void rule, and nothing else where everything was compared', async () => {
    expect(await warningsOf(group(1, [tcp(22), tcp(23)]), group(9, [tcp(23)]))).toEqual([
      ['/inbound_rules/1', 'void_by_guardrail', idOf(9)],
    ]);
    expect(await warningsOf(group(1, [tcp(22)]), group(9, [tcp(23)]))).toEqual([]);
  });

  test('say that rules and guardrails were not compared where they are too many', async () => {
    const large = group(1, [tcp(23, ranges(2_000))]);
    expect(await warningsOf(large, group(9, [tcp(23)]))).toEqual([['', 'not_compared', idOf(9)]]);
    const wide = group(9, [tcp(23, ranges(2_000))]);
    expect(await warningsOf(group(1, [tcp(23)]), wide)).toEqual([['', 'not_compared', idOf(9)]]);
  });

  test('say that there are more void rules than are told of', async () => {
    const many = group(
      1,
      Array.from({ length: 101 }, (_, i) => tcp(i + 1)),
    );
    const warnings = await warningsOf(many, group(9, [{ ...tcp(1), to_port: 200 }]));
    expect(warnings).toHaveLength(101);
    expect(warnings.at(-1)).toEqual(['', 'not_compared', idOf(9)]);
  });
});
