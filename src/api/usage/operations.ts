/** Owns the rows of the table of operations that are about the usage of rules. */
import type { Row } from '../operation-row.ts';
import { GroupUsage, UsageQuery } from './rule-usage.ts';

export const usageRows = {
  readSecurityGroupUsage: {
    effect: 'read',
    subject: 'group',
    tag: 'security groups',
    summary: 'How much of the observed traffic each rule of a group decided',
    query: UsageQuery,
    answer: GroupUsage,
  },
} as const satisfies Readonly<Record<string, Row>>;
