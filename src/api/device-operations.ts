/** Owns the rows of the table of operations that are about devices and how they enroll. */
import { Convergence, ConvergenceQuery } from './enforcement/convergence.ts';
import { ExplainQuery, Explanation } from './enforcement/explanation.ts';
import { Overview, OverviewQuery } from './enforcement/overview.ts';
import {
  AddDevice,
  AppliedGroup,
  Device,
  DeviceReport,
  DeviceStatus,
  RegisteredDevice,
  ReportedStatus,
  UpdateDevice,
} from './device.ts';
import { PageQuery, RevisionPageQuery, UpdateDeviceQuery } from './list.ts';
import type { Row } from './operation-row.ts';
import { AddEnrollmentKey, EnrollmentKey, IssuedEnrollmentKey } from './user.ts';

export const deviceRows = {
  createDevice: {
    effect: 'write',
    tag: 'devices',
    summary: 'Register a device',
    body: AddDevice,
    bodyReader: 'handler',
    answer: RegisteredDevice,
    etag: true,
    fails: ['public_key_taken', 'limit_reached'],
  },
  listDevicesInOrganization: {
    effect: 'read',
    tag: 'devices',
    summary: 'List devices',
    query: RevisionPageQuery,
    answer: Device,
    fails: ['revision_gone'],
  },
  readDevice: {
    effect: 'read',
    subject: 'device',
    tag: 'devices',
    summary: 'Read a device',
    answer: Device,
    etag: true,
  },
  updateDevice: {
    effect: 'write',
    subject: 'device',
    tag: 'devices',
    summary: 'Change a device',
    query: UpdateDeviceQuery,
    body: UpdateDevice,
    bodyReader: 'handler',
    answer: Device,
    etag: true,
    conditional: true,
    fails: ['public_key_taken', 'newer_record', 'would_open'],
  },
  deleteDevice: {
    effect: 'write',
    subject: 'device',
    tag: 'devices',
    summary: 'Delete a device',
    answer: Device,
    etag: true,
    conditional: true,
  },
  listDeviceGroups: {
    effect: 'read',
    subject: 'device',
    tag: 'devices',
    summary: 'List the groups in effect on a device, and the reason for each',
    answer: AppliedGroup,
  },
  reportDeviceStatus: {
    effect: 'report',
    subject: 'device',
    tag: 'devices',
    summary: 'Report the status of a device, as its agent',
    coalesced: true,
    body: DeviceReport,
    answer: ReportedStatus,
  },
  listDeviceStatuses: {
    effect: 'read',
    tag: 'devices',
    summary: 'List every device with what its agent last reported, and whether its policy is in force',
    query: PageQuery,
    answer: DeviceStatus,
  },
  readConvergence: {
    effect: 'read',
    tag: 'devices',
    summary: 'Show on which devices a revision is in force, immediately or after it is in force on all of them',
    query: ConvergenceQuery,
    answer: Convergence,
  },
  explainConnection: {
    effect: 'read',
    tag: 'devices',
    summary: 'Explain whether a connection is allowed, which rule decides, and whether the devices enforce it',
    query: ExplainQuery,
    answer: Explanation,
  },
  readOverview: {
    effect: 'read',
    tag: 'devices',
    summary: 'Show the state of the fleet, the devices that need attention, and the state over time',
    query: OverviewQuery,
    answer: Overview,
  },

  createEnrollmentKey: {
    effect: 'write',
    tag: 'devices',
    summary: 'Issue an enrollment key',
    body: AddEnrollmentKey,
    bodyOptional: true,
    answer: IssuedEnrollmentKey,
    fails: ['limit_reached'],
  },
  listEnrollmentKeys: {
    effect: 'read',
    tag: 'devices',
    summary: 'List my enrollment keys',
    query: PageQuery,
    answer: EnrollmentKey,
  },
  readEnrollmentKey: {
    effect: 'read',
    subject: 'enrollment key',
    tag: 'devices',
    summary: 'Read an enrollment key, without its secret',
    answer: EnrollmentKey,
  },
  revokeEnrollmentKey: {
    effect: 'write',
    subject: 'enrollment key',
    tag: 'devices',
    summary: 'Revoke an enrollment key',
    answer: EnrollmentKey,
  },
} as const satisfies Readonly<Record<string, Row>>;
