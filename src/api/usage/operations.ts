/** Owns the rows of the table of operations that are about the usage of rules. */
import type { Row } from '../operation-row.ts';
import { GroupUsage, UnusedRules, UsageQuery } from './rule-usage.ts';

export const usageRows = {
  readSecurityGroupUsage: {
    effect: 'read',
    subject: 'group',
    tag: 'security groups',
    summary: 'How much of the observed traffic each rule of a group decided',
    query: UsageQuery,
    answer: GroupUsage,
  },
  readUnusedRules: {
    effect: 'read',
    tag: 'security groups',
    summary: 'The rules of all groups of the organization that no observed traffic used',
    query: UsageQuery,
    answer: UnusedRules,
  },
} as const satisfies Readonly<Record<string, Row>>;
