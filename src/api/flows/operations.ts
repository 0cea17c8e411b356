/** Owns the rows of the table of operations that are about observed traffic. */
import type { Row } from '../operation-row.ts';
import { Flow, FlowCoverage, FlowCoverageQuery, FlowQuery } from './flow.ts';
import { FlowReport, ReceivedFlows } from './flow-report.ts';

export const flowRows = {
  listFlows: {
    effect: 'read',
    cost: 'organization',
    tag: 'devices',
    summary: 'List observed traffic, newest first, with the rule that decides',
    query: FlowQuery,
    answer: Flow,
  },
  readFlowCoverage: {
    effect: 'read',
    cost: 'fixed',
    tag: 'devices',
    summary: 'How many devices reported observed traffic, and how much was not recorded',
    query: FlowCoverageQuery,
    answer: FlowCoverage,
  },
  reportFlows: {
    effect: 'report',
    cost: 'shared',
    subject: 'device',
    tag: 'devices',
    summary: 'Report the traffic that a device observed, as its agent',
    coalesced: true,
    body: FlowReport,
    bodySize: 'rules',
    answer: ReceivedFlows,
  },
} as const satisfies Readonly<Record<string, Row>>;
