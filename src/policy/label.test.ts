/** Proves what a label may look like, at its borders. */
import { describe, expect, it } from 'vitest';
import { isLabel, parseLabel } from './label.ts';

describe('a label', () => {
  it.each(['a', '0', 'db', 'prod.eu-1', 'team/payments', 'a_b', 'a--b', '9.9', `a${'-'.repeat(61)}z`])(
    '%s is one',
    (text) => {
      expect(parseLabel(text)).toBe(text);
      expect(isLabel(text)).toBe(true);
    },
  );

  it.each([
    ['', 'is empty'],
    ['a'.repeat(64), 'is longer than 63 characters'],
    ['DB', 'has upper-case letters; labels are lower case'],
    ['a b', 'has characters other than'],
    ['ä', 'has characters other than'],
    ['a\n', 'has characters other than'],
    ['-a', 'must start and end with a letter or a digit'],
    ['a.', 'must start and end with a letter or a digit'],
    ['/', 'must start and end with a letter or a digit'],
  ])('%j is none, and the reason is told', (text, reason) => {
    const fault = parseLabel(text);
    if (typeof fault === 'string') throw new Error(`${text} was taken for a label`);
    expect(fault.fault).toBe('label_invalid');
    expect(fault.reason).toContain(reason);
    expect(isLabel(text)).toBe(false);
  });
});
