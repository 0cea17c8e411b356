/** Owns the operations on change sets, as rows of the table of operations (reference 4.13). */
import type { Row } from '../operation-row.ts';
import { ChangeSet, ChangeSetBody, ChangeSetQuery, RevertChangeSetQuery, WrittenChangeSet } from './change-set.ts';

const fails = [
  'would_open',
  'group_in_use',
  'phase_limit',
  'limit_reached',
  'newer_record',
  'precondition_failed',
  'policy_test_failed',
  'tests_too_costly',
  'trial_pending',
] as const;

export const changeRows = {
  applyChanges: {
    effect: 'write',
    cost: 'fixed',
    tag: 'changes',
    summary: 'Write several records as one: all of it or nothing, in one switch on every device',
    idempotent: 'plain',
    query: ChangeSetQuery,
    body: ChangeSetBody,
    bodySize: 'rules',
    bodyReader: 'handler',
    answer: WrittenChangeSet,
    fails: [...fails, 'public_key_taken'],
  },
  readChangeSet: {
    effect: 'read',
    cost: 'fixed',
    tag: 'changes',
    summary: 'What a change set wrote; for owners and for the user who made it',
    answer: ChangeSet,
  },
  revertChangeSet: {
    effect: 'write',
    cost: 'fixed',
    tag: 'changes',
    summary: 'Undo a change set as one, as a new change set',
    query: RevertChangeSetQuery,
    answer: WrittenChangeSet,
    fails: [...fails, 'changed_since'],
  },
} as const satisfies Readonly<Record<string, Row>>;
