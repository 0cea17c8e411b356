/** Owns the rows of the table of operations that are about what observed traffic says of groups. */
import type { Row } from '../operation-row.ts';
import { GroupObservation, GroupObservationQuery } from './group-observation.ts';
import { Proposal, ProposalRequest } from './proposal.ts';
import { GroupUsage, UnusedRules, UsageQuery } from './rule-usage.ts';

export const usageRows = {
  readSecurityGroupUsage: {
    effect: 'read',
    cost: 'organization',
    subject: 'group',
    tag: 'security groups',
    summary: 'How much of the observed traffic each rule of a group decided',
    query: UsageQuery,
    answer: GroupUsage,
  },
  readSecurityGroupObservation: {
    effect: 'read',
    cost: 'organization',
    subject: 'group',
    tag: 'security groups',
    summary: 'What a watch-only group would have refused and admitted of the observed traffic',
    query: GroupObservationQuery,
    answer: GroupObservation,
  },
  readUnusedRules: {
    effect: 'read',
    cost: 'organization',
    tag: 'security groups',
    summary: 'The rules of all groups of the organization that no observed traffic used',
    query: UsageQuery,
    answer: UnusedRules,
  },
  proposeRules: {
    effect: 'read',
    cost: 'organization',
    tag: 'security groups',
    summary: 'Propose rules that would admit the observed traffic of some devices, without writing them',
    body: ProposalRequest,
    answer: Proposal,
  },
} as const satisfies Readonly<Record<string, Row>>;
