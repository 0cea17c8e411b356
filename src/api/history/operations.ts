/** Owns the operations on the history, as rows of the table of operations (reference 4.8). */
import { WrittenGroup } from '../group.ts';
import { DevicePolicyState, GroupState, RestoreSecurityGroup } from './states.ts';
import { HistoryQuery, UpdateGroupQuery } from '../list.ts';
import type { Row } from '../operation-row.ts';

export const historyRows = {
  listDeviceHistory: {
    effect: 'read',
    cost: 'fixed',
    tag: 'devices',
    summary: 'What decided the policy of a device, newest first; of a deleted device too',
    query: HistoryQuery,
    answer: DevicePolicyState,
  },
  listDeviceNamesakes: {
    effect: 'read',
    cost: 'fixed',
    subject: 'device',
    tag: 'devices',
    summary:
      'The other devices that have, or had, the host name of a device: of each its newest state under that name, newest first',
    query: HistoryQuery,
    answer: DevicePolicyState,
  },
  listSecurityGroupHistory: {
    effect: 'read',
    cost: 'fixed',
    tag: 'security groups',
    summary: 'The states of a group, newest first; of a deleted group too',
    query: HistoryQuery,
    answer: GroupState,
  },
  restoreSecurityGroup: {
    effect: 'write',
    cost: 'fixed',
    subject: 'current or deleted group',
    tag: 'security groups',
    summary: 'Restore a group to its state at a revision, also after it was deleted',
    query: UpdateGroupQuery,
    body: RestoreSecurityGroup,
    answer: WrittenGroup,
    etag: true,
    conditional: true,
    fails: [
      'revision_gone',
      'conflict',
      'newer_record',
      'would_open',
      'group_in_use',
      'trial_pending',
      'phase_limit',
      'limit_reached',
      'policy_test_failed',
      'tests_too_costly',
    ],
  },
} as const satisfies Readonly<Record<string, Row>>;
