/** Proves what one change to many devices writes to each, and in which change sets. */
import { describe, expect, it } from 'vitest';
import { device, groupId } from '../../client/records.fixture.ts';
import { changesFor, patchFor, type BulkAction } from './bulk.ts';

const add: BulkAction = { kind: 'add-group', group: groupId(9) };

describe('what is written', () => {
  const one = device(1, 1, { security_groups: [groupId(1), groupId(2)], labels: ['app', 'prod'] });

  it('keeps what the device has besides', () => {
    expect(patchFor({ kind: 'add-group', group: groupId(9) }, one)).toEqual({
      security_groups: [groupId(1), groupId(2), groupId(9)],
    });
    expect(patchFor({ kind: 'remove-group', group: groupId(1) }, one)).toEqual({ security_groups: [groupId(2)] });
    expect(patchFor({ kind: 'add-labels', labels: ['eu', 'app'] }, one)).toEqual({ labels: ['app', 'eu', 'prod'] });
    expect(patchFor({ kind: 'remove-labels', labels: ['prod', 'eu'] }, one)).toEqual({ labels: ['app'] });
  });

  it('is nothing where the device is as wished already', () => {
    expect(patchFor({ kind: 'add-group', group: groupId(1) }, one)).toBeUndefined();
    expect(patchFor({ kind: 'remove-group', group: groupId(9) }, one)).toBeUndefined();
    expect(patchFor({ kind: 'add-labels', labels: ['app'] }, one)).toBeUndefined();
    expect(patchFor({ kind: 'remove-labels', labels: ['eu'] }, one)).toBeUndefined();
  });
});

describe('the change sets', () => {
  const many = Array.from({ length: 2_001 }, (_, index) => device(index, index + 1));

  it('hold a thousand devices each, with the revision that each was read at', () => {
    const sets = changesFor(add, many);
    expect(sets.map(({ devices = [] }) => devices.length)).toEqual([1_000, 1_000, 1]);
    expect(sets[0]?.devices?.[0]).toEqual({ id: many[0]?.id, revision: 1, security_groups: [groupId(9)] });
  });

  it('leave out devices that are as wished already', () => {
    expect(changesFor(add, [device(1, 1, { security_groups: [groupId(9)] })])).toEqual([]);
  });

  it('name the devices that are deleted', () => {
    const [one, two] = [device(1, 1), device(2, 2)];
    expect(changesFor({ kind: 'delete' }, [one, two])).toEqual([{ delete: [one.id, two.id] }]);
  });
});
