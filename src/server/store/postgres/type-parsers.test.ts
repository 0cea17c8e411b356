/** Proves that times have JavaScript's ISO format for every form in which PostgreSQL prints them. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { typeParsers } from './type-parsers.ts';

const parse = typeParsers.getTypeParser(1184);

test.each([
  ['2026-11-16 07:09:35+00', '2026-11-16T07:09:35.000Z'],
  ['2026-11-16 07:09:35.1+00', '2026-11-16T07:09:35.100Z'],
  ['2026-11-16 07:09:35.123999+00', '2026-11-16T07:09:35.123Z'],
  ['2026-11-16 09:09:35.25+02', '2026-11-16T07:09:35.250Z'],
  ['2026-11-16 12:39:35+05:30', '2026-11-16T07:09:35.000Z'],
  ['12026-11-16 07:09:35+00', '+012026-11-16T07:09:35.000Z'],
])('%s is %s', (text, iso) => {
  expect(parse(text)).toBe(iso);
});

test('a time in UTC is the same as by a date', () => {
  const moment = fc.date({ min: new Date('0001-01-01'), max: new Date('9999-12-31'), noInvalidDate: true });
  fc.assert(
    fc.property(moment, fc.constantFrom('', '7', '99', '001', '999'), (date, micros) => {
      const iso = date.toISOString();
      const fraction = `${iso.slice(20, 23)}${micros}`.replace(/0+$/, '');
      const text = `${iso.slice(0, 10)} ${iso.slice(11, 19)}${fraction === '' ? '' : `.${fraction}`}+00`;
      expect(parse(text)).toBe(iso);
    }),
  );
});
