/** Proves that a digest is never worked out from a fleet that is on its way from one state to another. */
import { expect, test } from 'vitest';
import { Fleet } from '../../policy/fleet/fleet.ts';
import { parseGroupId, parseOrganizationId } from '../../policy/ids.ts';
import type { GroupRecord, Stored } from '../store/contract/records.ts';
import { processSlices } from '../time-slices.ts';
import { ExpectedDigests } from './expected-digests.ts';
import { groupContent } from './group-content.ts';

const org = parseOrganizationId('00000000-0000-4000-8000-000000000001');
const id = parseGroupId('00000000-0000-4000-8000-000000000002');
const record = {
  id,
  group_name: 'web',
  inbound_rules: [{ ip_protocol: 'tcp', from_port: 80, to_port: 80, peers: [{ all_devices: true }] }],
};
const effect = [groupContent(id, record, 1)];

function digests(whileReading: () => void): ExpectedDigests {
  const findGroups = (): Promise<readonly Stored<GroupRecord>[]> => {
    whileReading();
    return Promise.resolve([{ id, revision: 1, record } as unknown as Stored<GroupRecord>]);
  };
  return new ExpectedDigests({ org, findGroups, slices: processSlices() });
}

test('a digest is known once its groups were read', async () => {
  const expected = digests(() => {});
  await expected.workOut(new Map([['key', effect]]), { version: 1, fleet: new Fleet() });
  expect(expected.get('key')).toMatch(/^[0-9a-f]{64}$/);
});

test('while a change is being taken in, which is before the head moves, nothing is worked out of what was asked before', async () => {
  const model = { version: 1, fleet: new Fleet() };
  const expected = digests(() => (model.version = 2));
  await expected.workOut(new Map([['key', effect]]), model);
  expect(expected.get('key')).toBeUndefined();
});
