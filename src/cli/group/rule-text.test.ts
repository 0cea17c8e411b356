/** Proves that rules in words are read as meant, and that what is written can be read again. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { normalizeRules } from '../../policy/normalize.ts';
import { writtenRule } from '../../policy/arbitrary.fixture.ts';
import type { SecurityRule } from '../../policy/rule.ts';
import { CliError } from '../terminal/exit.ts';
import { ruleText, ruleWords, sameRule } from '../../client/words/rule.ts';
import { readDirection, readRuleWords } from './rule-text.ts';

const rule = (ip_protocol: string, from_port = 0, to_port = from_port, ...ip_ranges: string[]) => ({
  ip_protocol,
  from_port,
  to_port,
  ...(ip_ranges.length > 0 && { ip_ranges }),
});

describe('words', () => {
  it.each([
    ['tcp 443 from 10.0.0.0/8,fd00::/8', [rule('tcp', 443, 443, '10.0.0.0/8', 'fd00::/8')]],
    ['tcp 443', [rule('tcp', 443)]],
    ['TCP 443 FROM ANY', [rule('tcp', 443)]],
    ['tcp', [rule('tcp')]],
    ['tcp any from any', [rule('tcp')]],
    ['any', [rule('ip')]],
    ['all from 1.2.3.4', [rule('ip', 0, 0, '1.2.3.4')]],
    [
      'tcp 80,443,8000-8999 from 10.0.0.1 , 10.0.0.2',
      [80, 443, 8000].map((port) => rule('tcp', port, port === 8000 ? 8999 : port, '10.0.0.1', '10.0.0.2')),
    ],
    ['udp 1 - 9 from 10.0.0.1 - 10.0.0.9', [rule('udp', 1, 9, '10.0.0.1-10.0.0.9')]],
    ['icmp from ::/0', [rule('icmp', 0, 0, '::/0')]],
    ['tcp ssh', [rule('tcp', 22)]],
    ['tcp HTTP,https,8080 from 10.0.0.1', [80, 443, 8080].map((port) => rule('tcp', port, port, '10.0.0.1'))],
    ['postgres from 10.0.0.0/8', [rule('tcp', 5432, 5432, '10.0.0.0/8')]],
    ['dns', [rule('ip', 53)]],
    ['udp dns', [rule('udp', 53)]],
    ['ip ssh', [rule('ip', 22)]],
    ['http,https', [rule('tcp', 80), rule('tcp', 443)]],
    ['http, https from 10.0.0.1', [rule('tcp', 80, 80, '10.0.0.1'), rule('tcp', 443, 443, '10.0.0.1')]],
    ['https,quic', [rule('tcp', 443), rule('udp', 443)]],
    ['tcp 80, 443', [rule('tcp', 80), rule('tcp', 443)]],
  ])('are read: %s', (words, rules) => {
    expect(readRuleWords('inbound', [words])).toEqual(rules);
    expect(readRuleWords('inbound', words.split(' '))).toEqual(rules);
  });

  it.each([
    ['', /starts with a protocol/],
    ['tpc 80', /did you mean `tcp`/],
    ['gre', /`gre` is not a protocol/],
    ['postgress', /did you mean `postgres`/],
    ['tcp gopher', /`gopher` is not a port/],
    ['tcp htpp', /did you mean `http`/],
    ['udp ssh', /`ssh` is tcp 22, not udp/],
    ['tcp quic', /`quic` is udp 443, not tcp/],
    ['ssh 22', /`ssh` already means tcp 22/],
    ['ssh form label:app', /^`form` is not understood; did you mean `from`: `ssh from label:app`\?$/],
    ['tcp 22 form 10.0.0.1', /did you mean `from`: `tcp 22 from 10.0.0.1`/],
    ['ssh label:app', /^`from` is missing before `label:app`: `ssh from label:app`$/],
    ['tcp 22 10.0.0.0/8, fd00::/8', /`from` is missing before `10.0.0.0\/8,`: `tcp 22 from 10.0.0.0\/8, fd00::\/8`/],
    ['tcp 22 fd00::1', /`from` is missing before `fd00::1`/],
    ['ssh all-devices', /`from` is missing before `all-devices`/],
    ['ssh banana', /^`banana` is not understood after `ssh`, which already means tcp 22$/],
    ['http,8080', /`8080` is not a service; with port numbers, name the protocol: `tcp http,8080`/],
    ['http,htps', /did you mean `https`/],
    ['ssh from lable:app', /^`lable:app` is not an address; did you mean `label:app`\?$/],
    ['ssh from devise:web-1', /did you mean `device:web-1`/],
    ['ssh from label=app', /did you mean `label:app`/],
    ['ssh from all-device', /did you mean `all-devices`/],
    ['tcp 80:90', /is not a port, a port range or a known service/],
    ['tcp 0', /port 0 does not exist/],
    ['tcp 80 from', /needs addresses/],
    ['tcp 80 from any,10.0.0.1', /cannot be combined with other entries/],
    ['tcp 80 from 10.0.0.1 10.0.0.2', /separate addresses with commas/],
    ['tcp 80 to 10.0.0.1', /comes `from`/],
  ])('that mean nothing are refused: %s', (words, message) => {
    expect(() => readRuleWords('inbound', [words])).toThrow(message);
    expect(() => readRuleWords('inbound', [words])).toThrow(CliError);
  });

  it('name a direction', () => {
    expect(['in', 'Inbound', 'out', 'OUTBOUND'].map(readDirection)).toEqual([
      'inbound',
      'inbound',
      'outbound',
      'outbound',
    ]);
    expect(() => readDirection('up')).toThrow('`in` or `out`');
    expect(() => readDirection(undefined)).toThrow('`in` or `out`');
  });

  it('that a stored rule is written in are read as the same rule', () => {
    fc.assert(
      fc.property(writtenRule, fc.constantFrom('inbound' as const, 'outbound' as const), (written, direction) => {
        for (const stored of normalizeRules([written])) {
          const [again, ...more] = normalizeRules(
            readRuleWords(direction, [ruleWords(direction, stored)]) as SecurityRule[],
          );
          expect(more).toEqual([]);
          expect(again !== undefined && sameRule(stored, again)).toBe(true);
        }
      }),
      { numRuns: 300 },
    );
  });
});

describe('a rule with a description', () => {
  const ssh = { ip_protocol: 'tcp', from_port: 22, to_port: 22 } as const;

  it.each(['on call', 'a # b', 'until 2030', '#1'])('is read again from its words: %s', (description) => {
    const words = ruleText('inbound', { ...ssh, description });
    expect(words).toBe(`tcp 22 from any # ${description}`);
    expect(readRuleWords('inbound', words.split(' '))).toEqual([{ ...ssh, description }]);
  });

  it('belongs to every rule that the words mean', () => {
    expect(readRuleWords('inbound', ['tcp 22,23 # both']).map(({ description }) => description)).toEqual([
      'both',
      'both',
    ]);
  });
});

describe('a rule that expires', () => {
  const expires_at = '2030-01-31T12:00:00Z';
  const ssh = { ip_protocol: 'tcp', from_port: 22, to_port: 22 } as const;

  it('is read from a file with its exact time, as it was written there', () => {
    expect(ruleText('inbound', { ...ssh, expires_at })).toBe(`tcp 22 from any until ${expires_at}`);
    expect(readRuleWords('inbound', [`tcp 22 from any until ${expires_at}`])).toEqual([{ ...ssh, expires_at }]);
    expect(readRuleWords('inbound', ['ssh', 'until', expires_at])).toEqual([{ ...ssh, expires_at }]);
  });

  it('is found by the words in which it is shown', () => {
    const words = ruleWords('inbound', { ...ssh, expires_at });
    expect(words).toMatch(/^tcp 22 from any \(expire[sd] .*\)$/);
    expect(readRuleWords('inbound', words.split(' '))).toEqual([ssh]);
  });

  it.each([['tcp 22 until'], ['tcp 22 until tomorrow'], ['tcp 22 until 2030-01-31T12:00:00Z from any']])(
    'refuses `%s`',
    (words) => {
      expect(() => readRuleWords('inbound', [words])).toThrow(/until|is not a time/);
    },
  );
});
