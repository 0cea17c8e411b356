/** Proves that each kind of entry is found where people look for it. */
import { expect, it } from 'vitest';
import { topicOf } from './activity.ts';

it.each([
  ['updateSecurityGroup', 'groups'],
  ['isolateDevice', 'devices'],
  ['liftIsolation', 'devices'],
  ['createEvidence', 'devices'],
  ['rotateEvidenceKey', 'access'],
  ['expireTrial', 'trials'],
  ['replacePolicyTests', 'trials'],
  ['createInvitation', 'people'],
  ['updateOrganization', 'people'],
  ['signIn', 'access'],
])('%s is about %s', (operation, topic) => {
  expect(topicOf(operation)).toBe(topic);
});
