/** Owns the wording of audit entries: what an operation did. */
import type { AuditEntry } from '../../api/audit.ts';

/** `ada` + `changed group` + `web`. */
const phrases: Readonly<Record<string, string>> = {
  createUser: 'created user',
  removeUser: 'deleted user',
  createMyToken: 'created token',
  createUserToken: 'created token',
  rotateToken: 'rotated token',
  revokeToken: 'revoked token',
  createOrganization: 'created organization',
  updateOrganization: 'changed organization',
  deleteOrganization: 'deleted organization',
  addMember: 'added member',
  updateMember: 'changed member',
  acceptMember: 'accepted the ownership, as',
  removeMember: 'removed member',
  createInvitation: 'invited',
  revokeInvitation: 'revoked the invitation of',
  createDevice: 'registered device',
  updateDevice: 'changed device',
  deleteDevice: 'deleted device',
  moveDevice: 'moved device',
  isolateDevice: 'isolated device',
  liftIsolation: 'lifted the isolation of device',
  createEnrollmentKey: 'created enrollment key',
  revokeEnrollmentKey: 'revoked enrollment key',
  createSecurityGroup: 'created group',
  updateSecurityGroup: 'changed group',
  deleteSecurityGroup: 'deleted group',
  restoreSecurityGroup: 'restored group',
  createUserSecurityGroup: 'created own group',
  updateUserSecurityGroup: 'changed own group',
  deleteUserSecurityGroup: 'deleted own group',
  applyChanges: 'made change',
  revertChangeSet: 'undid a change, as change',
  replacePolicyTests: 'replaced the policy tests of',
  widenTrial: 'widened trial',
  confirmTrial: 'confirmed trial',
  revertTrial: 'reverted trial',
  expireTrial: 'reverted unconfirmed trial',
  createWebhook: 'created webhook',
  updateWebhook: 'changed webhook',
  deleteWebhook: 'deleted webhook',
  testWebhook: 'tested webhook',
  createEvidence: 'made evidence about device',
  rotateEvidenceKey: 'replaced the key that signs evidence',
  signIn: 'signed in',
  signOut: 'signed out',
};

/** Who acted: a user, or the server itself when a time was over. */
export const actorName = ({ username, credential }: Pick<AuditEntry, 'username' | 'credential'>): string =>
  credential.kind === 'server' ? 'the server' : username;

/** `updateSomethingNew` becomes `update something new`: a newer server's operations are readable too. */
const spelled = (operation: string): string => operation.replaceAll(/([a-z])([A-Z])/g, '$1 $2').toLowerCase();

export function actionText({ operation, credential }: Pick<AuditEntry, 'operation' | 'credential'>): string {
  if (operation === 'createDevice' && credential.kind === 'enrollment_key') return 'enrolled device';
  return (Object.hasOwn(phrases, operation) ? phrases[operation] : undefined) ?? spelled(operation);
}

const fieldNames: Readonly<Record<string, string>> = {
  group_name: 'name',
  group_description: 'description',
  security_groups: 'groups',
};

/** The fields that an update changed, in words. A creation sets every field, so it lists none. */
export function changedFields({ operation, fields = [] }: Pick<AuditEntry, 'operation' | 'fields'>): readonly string[] {
  if (!operation.startsWith('update')) return [];
  return fields.map(
    (name) => (Object.hasOwn(fieldNames, name) ? fieldNames[name] : undefined) ?? name.replaceAll('_', ' '),
  );
}
