/**
 * Holds the rights as the reference gives them (reference 4, 5), written down a second time: the server's own table must not be the
 * judge of itself. A change here is a change of what people were promised.
 */
import { operations } from '../../src/api/operations.ts';
import type { OperationId } from '../../src/api/paths.ts';

export const roles = [
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
 * `yes`: done. `no`: 403. `hidden`: 404. `-`: the role does not arise. `orgs`: yes on the organization's own groups, no on a user's.
 * `itself`: yes on the token's own device, no on another.
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

/** What the reference says for an operation and a role. */
export function promised(id: OperationId, role: Role): Cell {
  const cell = table[id].trim().split(/\s+/)[roles.indexOf(role)];
  if (cell === 'yes' || cell === 'no' || cell === 'hidden' || cell === '-' || cell === 'orgs' || cell === 'itself')
    return cell;
  throw new Error(`${id} ${role} has no verdict`);
}

export const judged = Object.keys(table) as readonly OperationId[];

/** What a read-only token may do besides the operations asked by GET (reference 2.7). */
export const readByPost: readonly OperationId[] = ['watchEvents', 'simulateChanges', 'proposeRules'];

/** Two kinds of target: an organization's group and a user's; the token's own device and another. */
export type Kind = 'first' | 'second';

/** What the cell says for this kind of target. */
export const expected = (cell: Cell, kind: Kind): string =>
  cell === 'orgs' || cell === 'itself' ? (kind === 'first' ? 'yes' : 'no') : cell;

/** The kinds that differ for this role. Elsewhere a second attempt would repeat the first. */
export function kindsFor(id: OperationId, role: Role, cell: Cell): readonly Kind[] {
  const params: readonly string[] = operations[id].params;
  const differ =
    cell === 'orgs' ||
    cell === 'itself' ||
    (params.includes('sg_id') && role !== 'owning_user') ||
    (params.includes('device_id') && role === 'device_token');
  return differ ? ['first', 'second'] : ['first'];
}

/**
 * Whether this role owns no target and is refused. Nothing happens to a target then, so all of them aim at the same one: what one of them
 * can do to it in spite of the table is an attempt that came out otherwise.
 */
export const isRefusedOutsider = (role: Role, cell: Cell): boolean =>
  ['enrollment_key', 'administrator', 'stranger'].includes(role) && (cell === 'no' || cell === 'hidden');
