/** Owns the rights: one table with every operation and every kind of caller, and how a caller's roles are looked up in it. */
import { operationIds, type OperationId } from '../../../api/paths.ts';

/**
 * The roles of a caller, relative to the path. A caller may have several roles; the best verdict counts. `owner`,
 * `member`: of the organization. `owning_user`: the group, token, key or membership is the caller's own. `device_user`:
 * the device is the caller's. `device_token`, `enrollment_key`: such a credential of this organization; it has no other
 * role. `administrator`: of this server. `stranger`: signed in, and not a member of this organization (or the path has
 * none).
 */
const roles = [
  'owner',
  'member',
  'owning_user',
  'device_user',
  'device_token',
  'enrollment_key',
  'administrator',
  'stranger',
] as const;
export type Role = (typeof roles)[number];

/**
 * `yes`: allowed. `no`: 403. `hidden`: 404, as if it did not exist. `-`: the role does not arise.
 * `orgs`: yes on the organization's own groups, no on a user's. `itself`: yes on the token's own device, no on others.
 */
export type Cell = 'yes' | 'no' | 'hidden' | '-' | 'orgs' | 'itself';

// oxfmt-ignore
const table: { readonly [Id in OperationId]: string } = {
  //                          owner   member  owning  device  device  enroll  admini- stranger
  //                                          user    user    token   key     strator
  whoAmI:                    '-       -       -       -       yes     yes     yes     yes    ',
  createUser:                '-       -       -       -       no      no      yes     no     ',
  listUsers:                 '-       -       -       -       no      no      yes     no     ',
  readUser:                  '-       -       yes     -       no      no      yes     no     ',
  removeUser:                '-       -       -       -       no      no      yes     no     ',
  createMyToken:             '-       -       -       -       no      no      yes     yes    ',
  listMyTokens:              '-       -       -       -       no      no      yes     yes    ',
  createUserToken:           '-       -       -       -       no      no      yes     no     ',
  readToken:                 '-       -       yes     -       no      no      yes     hidden ',
  rotateToken:               '-       -       yes     -       no      no      yes     hidden ',
  revokeToken:               '-       -       yes     -       no      no      yes     hidden ',

  createOrganization:        '-       -       -       -       no      no      yes     yes    ',
  listOrganizations:         '-       -       -       -       yes     no      yes     yes    ',
  readOrganization:          'yes     yes     -       -       yes     no      hidden  hidden ',
  updateOrganization:        'yes     no      -       -       no      no      hidden  hidden ',
  deleteOrganization:        'yes     no      -       -       no      no      hidden  hidden ',

  listMembers:               'yes     yes     -       -       no      no      hidden  hidden ',
  addMember:                 'yes     no      -       -       no      no      hidden  hidden ',
  readMember:                'yes     yes     -       -       no      no      hidden  hidden ',
  updateMember:              'yes     no      no      -       no      no      hidden  hidden ',
  removeMember:              'yes     no      yes     -       no      no      hidden  hidden ',
  acceptMember:              'no      no      yes     -       no      no      hidden  hidden ',
  createInvitation:          'yes     no      -       -       no      no      hidden  hidden ',
  listInvitations:           'yes     no      -       -       no      no      hidden  hidden ',
  revokeInvitation:          'yes     no      -       -       no      no      hidden  hidden ',

  createDevice:              'yes     yes     -       -       no      yes     hidden  hidden ',
  listDevicesInOrganization: 'yes     yes     -       -       yes     no      hidden  hidden ',
  readDevice:                'yes     yes     -       yes     yes     no      hidden  hidden ',
  updateDevice:              'yes     no      -       yes     itself  no      hidden  hidden ',
  deleteDevice:              'yes     no      -       yes     no      no      hidden  hidden ',
  moveDevice:                'yes     no      -       no      no      no      hidden  hidden ',
  isolateDevice:             'yes     no      -       no      no      no      hidden  hidden ',
  previewIsolation:          'yes     no      -       no      no      no      hidden  hidden ',
  liftIsolation:             'yes     no      -       no      no      no      hidden  hidden ',
  listDeviceGroups:          'yes     yes     -       yes     yes     no      hidden  hidden ',
  listDeviceHistory:         'yes     yes     -       -       no      no      hidden  hidden ',
  listDeviceNamesakes:       'yes     yes     -       yes     no      no      hidden  hidden ',
  reportDeviceStatus:        'no      no      -       yes     itself  no      hidden  hidden ',
  reportFlows:               'no      no      -       no      itself  no      hidden  hidden ',
  listFlows:                 'yes     yes     -       -       no      no      hidden  hidden ',
  readFlowCoverage:          'yes     yes     -       -       no      no      hidden  hidden ',
  listDeviceStatuses:        'yes     yes     -       -       yes     no      hidden  hidden ',
  readConvergence:           'yes     yes     -       -       yes     no      hidden  hidden ',
  explainConnection:         'yes     yes     -       -       yes     no      hidden  hidden ',
  readOverview:              'yes     yes     -       -       yes     no      hidden  hidden ',

  createEnrollmentKey:       'yes     yes     -       -       no      no      hidden  hidden ',
  listEnrollmentKeys:        'yes     yes     -       -       no      no      hidden  hidden ',
  readEnrollmentKey:         'yes     hidden  yes     -       no      no      hidden  hidden ',
  revokeEnrollmentKey:       'yes     hidden  yes     -       no      no      hidden  hidden ',

  createSecurityGroup:       'yes     no      -       -       no      no      hidden  hidden ',
  listSecurityGroups:        'yes     yes     -       -       yes     no      hidden  hidden ',
  readSecurityGroup:         'yes     yes     yes     -       yes     no      hidden  hidden ',
  updateSecurityGroup:       'orgs    no      yes     -       no      no      hidden  hidden ',
  deleteSecurityGroup:       'orgs    no      yes     -       no      no      hidden  hidden ',
  readSecurityGroupUsage:    'yes     no      yes     -       no      no      hidden  hidden ',
  readUnusedRules:           'yes     no      -       -       no      no      hidden  hidden ',
  readSecurityGroupObservation: 'yes     no      yes     -       no      no      hidden  hidden ',
  listSecurityGroupHistory:  'yes     yes     -       -       no      no      hidden  hidden ',
  restoreSecurityGroup:      'orgs    no      yes     -       no      no      hidden  hidden ',

  createUserSecurityGroup:   'yes     yes     -       -       no      no      hidden  hidden ',
  listUserSecurityGroups:    'yes     yes     -       -       yes     no      hidden  hidden ',
  readUserSecurityGroup:     'yes     yes     yes     -       yes     no      hidden  hidden ',
  updateUserSecurityGroup:   'no      no      yes     -       no      no      hidden  hidden ',
  deleteUserSecurityGroup:   'no      no      yes     -       no      no      hidden  hidden ',

  listPolicyTests:           'yes     yes     -       -       no      no      hidden  hidden ',
  replacePolicyTests:        'yes     no      -       -       no      no      hidden  hidden ',

  listTrials:                'yes     yes     -       -       no      no      hidden  hidden ',
  readTrial:                 'yes     yes     -       -       no      no      hidden  hidden ',
  widenTrial:                'yes     yes     -       -       no      no      hidden  hidden ',
  confirmTrial:              'yes     yes     -       -       no      no      hidden  hidden ',
  revertTrial:               'yes     yes     -       -       no      no      hidden  hidden ',

  createWebhook:             'yes     no      -       -       no      no      hidden  hidden ',
  listWebhooks:              'yes     no      -       -       no      no      hidden  hidden ',
  readWebhook:               'yes     no      -       -       no      no      hidden  hidden ',
  updateWebhook:             'yes     no      -       -       no      no      hidden  hidden ',
  deleteWebhook:             'yes     no      -       -       no      no      hidden  hidden ',
  testWebhook:               'yes     no      -       -       no      no      hidden  hidden ',
  listWebhookDeliveries:     'yes     no      -       -       no      no      hidden  hidden ',

  applyChanges:              'yes     yes     -       -       no      no      hidden  hidden ',
  readChangeSet:             'yes     yes     -       -       no      no      hidden  hidden ',
  revertChangeSet:           'yes     yes     -       -       no      no      hidden  hidden ',
  simulateChanges:           'yes     yes     -       -       no      no      hidden  hidden ',
  proposeRules:              'yes     no      -       -       no      no      hidden  hidden ',

  listAudit:                 'yes     no      -       -       no      no      hidden  hidden ',
  listServerAudit:           '-       -       -       -       no      no      yes     no     ',

  createEvidence:            'yes     no      -       -       no      no      hidden  hidden ',
  listEvidenceKeys:          'yes     yes     -       -       no      no      hidden  hidden ',
  rotateEvidenceKey:         'yes     no      -       -       no      no      hidden  hidden ',

  watchEvents:               'yes     yes     -       -       yes     no      hidden  hidden ',
};

const isCell = (word: string): word is Cell => ['yes', 'no', 'hidden', '-', 'orgs', 'itself'].includes(word);

function readRow(id: OperationId): Readonly<Record<Role, Cell>> {
  const cells = table[id].trim().split(/\s+/);
  return Object.fromEntries(
    roles.map((role, column) => {
      const cell = cells[column] ?? '';
      if (!isCell(cell)) throw new Error(`rights of ${id}: ${role} has no verdict`);
      return [role, cell];
    }),
  ) as Record<Role, Cell>;
}

/** The table, read. */
export const rights = Object.fromEntries(operationIds.map((id) => [id, readRow(id)])) as {
  readonly [Id in OperationId]: Readonly<Record<Role, Cell>>;
};

export type Verdict = 'yes' | 'no' | 'hidden';

/** The facts about the record that some cells depend on. */
export interface Subject {
  /** The group in the path belongs to the organization, not to a user. */
  readonly organizationOwned: boolean;
  /** The device in the path is the one that the device token belongs to. */
  readonly ownDevice: boolean;
}

function verdictOf(cell: Cell, subject: Subject): Verdict {
  switch (cell) {
    case 'orgs':
      return subject.organizationOwned ? 'yes' : 'no';
    case 'itself':
      return subject.ownDevice ? 'yes' : 'no';
    case '-':
      return 'hidden';
    case 'yes':
    case 'no':
    case 'hidden':
      return cell;
    default:
      return cell satisfies never;
  }
}

/** The best verdict that any of the roles gives. */
export function decideRights(id: OperationId, held: ReadonlySet<Role>, subject: Subject): Verdict {
  const verdicts = new Set([...held].map((role) => verdictOf(rights[id][role], subject)));
  return verdicts.has('yes') ? 'yes' : verdicts.has('no') ? 'no' : 'hidden';
}
