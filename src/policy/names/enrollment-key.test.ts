/** Proves the text form of enrollment keys: what is written is read back, old keys stay valid, and damage is found. */
import { expect, test } from 'vitest';
import { parseOrganizationId } from '../ids.ts';
import { BadEnrollmentKey, enrollmentSecret, readEnrollmentKey, writeEnrollmentKey } from './enrollment-key.ts';

const organization = parseOrganizationId('01a1ddc0-9c97-738b-af8b-619f0abce38f');

test.each([
  'https://ringfence.example',
  'http://[fd00::1]:8080',
  'https://a.example,https://b.example/rf',
  'http://a@b',
])('a key that carries %s is read back as it was written', (server) => {
  const text = writeEnrollmentKey('rf_enroll_a-_9', organization, server);
  expect(readEnrollmentKey(text)).toEqual({ secret: 'rf_enroll_a-_9', joins: { organization, servers: server } });
  expect(enrollmentSecret(text)).toBe('rf_enroll_a-_9');
});

test('a key that is only a secret carries nothing', () => {
  expect(readEnrollmentKey('rf_enroll_x')).toEqual({ secret: 'rf_enroll_x' });
});

test.each([
  'rf_enroll_x:',
  'rf_enroll_x:acme@https://a.example',
  `rf_enroll_x:${organization}`,
  `rf_enroll_x:${organization}@`,
  `rf_enroll_x:${organization}@https://a.example https://b.example`,
  `rf_enroll_x:${organization}@https://a.example\nRINGFENCE_ADOPT=1`,
])('a damaged key is refused without showing it: %j', (text) => {
  expect(() => readEnrollmentKey(text)).toThrow(BadEnrollmentKey);
  expect(() => readEnrollmentKey(text)).toThrow(/^(?!.*rf_enroll_x)/);
});
