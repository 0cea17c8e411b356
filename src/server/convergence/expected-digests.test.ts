/** Proves that a digest is never computed from a fleet that is halfway between two states. */
import { expect, test } from 'vitest';
import { emptyOrganization, type Organization } from '../../organization/organization.ts';
import { GroupRules, type RuleFields } from '../../organization/group-rules.ts';
import { parseGroupId, parseOrganizationId } from '../../policy/ids.ts';
import type { GroupRecord, Stored } from '../store/data/records.ts';
import { processSlices } from '../scheduling/time-slices.ts';
import { DigestThread } from './digest-thread.ts';
import { ExpectedDigests } from './expected-digests.ts';

const org = parseOrganizationId('00000000-0000-4000-8000-000000000001');
const id = parseGroupId('00000000-0000-4000-8000-000000000002');
const record = {
  id,
  group_name: 'web',
  inbound_rules: [{ ip_protocol: 'tcp', from_port: 80, to_port: 80, peers: [{ all_devices: true }] }],
};
const groups = [{ id, name: '', rules: new GroupRules(record as RuleFields) }];

let now = 0;

function digests(whileReading: () => void): ExpectedDigests {
  const findGroups = (): Promise<readonly Stored<GroupRecord>[]> => {
    whileReading();
    return Promise.resolve([
      { id, revision: 1, json: JSON.stringify(record), record } as unknown as Stored<GroupRecord>,
    ]);
  };
  const slices = processSlices();
  return new ExpectedDigests({ org, findGroups, slices, digester: new DigestThread(slices), monotonic: () => now });
}

test('a digest is known once its groups were read', async () => {
  const expected = digests(() => {});
  await expected.workOut(new Map([['key', { groups, at: 0 }]]), { organization: emptyOrganization });
  expect(expected.get('key')).toMatch(/^[0-9a-f]{64}$/);
});

test('while a change is being taken in, which is before the head moves, nothing is worked out of what was asked before', async () => {
  const model = { organization: emptyOrganization as Organization | undefined };
  const expected = digests(() => (model.organization = undefined));
  await expected.workOut(new Map([['key', { groups, at: 0 }]]), model);
  expect(expected.get('key')).toBeUndefined();
});

test('what takes longer than its time stays unknown, and is there for the next who asks', async () => {
  const expected = digests(() => (now += 15_000));
  const wanted = new Map(['a', 'b', 'c', 'd'].map((key) => [key, { groups, at: 0 }]));
  const model = { organization: emptyOrganization };
  const known = (): string[] => [...wanted.keys()].filter((key) => expected.get(key) !== undefined);
  await expected.workOut(wanted, model);
  expect(known()).toEqual(['a', 'b']);
  await expected.workOut(wanted, model);
  expect(known()).toEqual(['a', 'b', 'c', 'd']);
});
