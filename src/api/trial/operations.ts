/** Owns the operations on trials, as rows of the table of operations (reference 4.15). */
import { KeepTrialQuery, PageQuery } from '../list.ts';
import type { Row } from '../operation-row.ts';
import { RevertTrial, Trial, UpdateTrial } from './trials.ts';

export const trialRows = {
  listTrials: {
    effect: 'read',
    cost: 'shared',
    tag: 'security groups',
    summary: 'List the changes that are being tried, and how their devices are',
    query: PageQuery,
    answer: Trial,
  },
  readTrial: {
    effect: 'read',
    cost: 'shared',
    tag: 'security groups',
    summary: 'Read a trial, also one that is over',
    answer: Trial,
  },
  widenTrial: {
    effect: 'write',
    cost: 'shared',
    tag: 'security groups',
    summary: 'Let more devices try a change',
    body: UpdateTrial,
    bodyReader: 'handler',
    query: KeepTrialQuery,
    answer: Trial,
    fails: ['trial_over', 'newer_record', 'would_open', 'policy_test_failed', 'tests_too_costly'],
  },
  confirmTrial: {
    effect: 'write',
    cost: 'shared',
    tag: 'security groups',
    summary: 'Keep a change that is being tried',
    query: KeepTrialQuery,
    answer: Trial,
    fails: ['trial_over', 'newer_record', 'would_open', 'policy_test_failed', 'tests_too_costly'],
  },
  revertTrial: {
    effect: 'write',
    cost: 'shared',
    tag: 'security groups',
    summary: 'Take a change back that is being tried, or records of it',
    body: RevertTrial,
    bodyOptional: true,
    answer: Trial,
    fails: ['trial_over', 'newer_record'],
  },
} as const satisfies Readonly<Record<string, Row>>;
