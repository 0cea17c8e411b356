/** Owns the reading of policy tests as a user sends them: every problem of any JSON value, with its path and code. */
import { readPeerOrAddress } from '../fleet/read-peers.ts';
import { readText } from '../names/read-text.ts';
import { field, isObject, type JsonObject } from '../json.ts';
import { at, Problems, show, type Found, type Problem } from '../problem.ts';
import { refuseUnknownFields } from '../validate.ts';
import {
  testExpectations,
  testLimits,
  testProtocols,
  type PolicyTest,
  type TestEnd,
  type TestExpectation,
  type TestProtocol,
} from './policy-test.ts';

/** `state`, `failure` and `until` are the server's answer; a list that was read may be sent back as it is. */
const testFields = ['name', 'from', 'to', 'protocol', 'port', 'expect', 'note', 'state', 'failure', 'until'];

function oneOf<T extends string>(
  body: JsonObject,
  name: string,
  known: readonly T[],
  pointer: string,
  problems: Problems,
): T | undefined {
  const value = field(body, name);
  const found = known.find((each) => each === value);
  if (found !== undefined) return found;
  const here = at(pointer, name);
  if (value === undefined) problems.add(here, 'missing_field', () => `A test needs ${name}.`);
  else problems.add(here, 'not_one_of', () => `${name} must be one of ${known.join(', ')}, got ${show(value)}.`);
  return undefined;
}

function readEnd(body: JsonObject, name: 'from' | 'to', pointer: string, problems: Problems): TestEnd | undefined {
  const value = field(body, name);
  const here = at(pointer, name);
  if (value !== undefined) return readPeerOrAddress(value, here, problems);
  problems.add(here, 'missing_field', () => `A test needs ${name}.`);
  return undefined;
}

function readPort(
  body: JsonObject,
  protocol: TestProtocol | undefined,
  pointer: string,
  problems: Problems,
): number | undefined {
  const value = field(body, 'port');
  const here = at(pointer, 'port');
  if (protocol === 'icmp') {
    if (value !== undefined) problems.add(here, 'port_on_icmp', () => 'A test of icmp has no port.');
    return undefined;
  }
  if (value === undefined) {
    if (protocol !== undefined) problems.add(here, 'missing_field', () => `A test of ${protocol} needs a port.`);
    return undefined;
  }
  if (typeof value !== 'number' || !Number.isInteger(value)) {
    problems.add(here, 'port_not_integer', () => `port must be a whole number, got ${show(value)}.`);
    return undefined;
  }
  if (value < 1 || value > 65_535) {
    problems.add(here, 'port_out_of_range', () => `port must be between 1 and 65535, got ${value}.`);
    return undefined;
  }
  return value;
}

function readTest(body: unknown, pointer: string, problems: Problems): PolicyTest | undefined {
  if (!isObject(body)) {
    problems.add(pointer, 'not_an_object', () => `A test must be an object, got ${show(body)}.`);
    return undefined;
  }
  refuseUnknownFields(body, testFields, pointer, problems);
  const line = { shortest: 1, longest: testLimits.nameLength, lines: false };
  if (field(body, 'name') === undefined) {
    problems.add(at(pointer, 'name'), 'missing_field', () => 'A test needs a name.');
  }
  const name = readText(body, 'name', line, problems, pointer);
  const note = readText(body, 'note', { shortest: 0, longest: testLimits.noteLength, lines: true }, problems, pointer);
  const [from, to] = [readEnd(body, 'from', pointer, problems), readEnd(body, 'to', pointer, problems)];
  const protocol = oneOf<TestProtocol>(body, 'protocol', testProtocols, pointer, problems);
  const port = readPort(body, protocol, pointer, problems);
  const expect = oneOf<TestExpectation>(body, 'expect', testExpectations, pointer, problems);
  if (from !== undefined && to !== undefined && 'address' in from && 'address' in to) {
    problems.add(
      at(pointer, 'to'),
      'contradiction',
      () => 'One end of a test must be devices: an address has no policy.',
    );
  }
  if (name === undefined || from === undefined || to === undefined || protocol === undefined || expect === undefined) {
    return undefined;
  }
  return {
    name,
    from,
    to,
    protocol,
    ...(port !== undefined && { port }),
    expect,
    ...(note !== undefined && note !== '' && { note }),
  };
}

/** Every problem of a list of tests, and the tests where there is none. Never throws, whatever the value. */
export function readPolicyTests(
  body: unknown,
  pointer = '',
): Found<Problem> & { readonly tests: readonly PolicyTest[] } {
  const problems = new Problems();
  const tests: PolicyTest[] = [];
  if (!Array.isArray(body)) {
    problems.add(pointer, 'not_an_array', () => `Policy tests must be an array, got ${show(body)}.`);
  } else if (body.length > testLimits.tests) {
    const most = testLimits.tests;
    problems.add(pointer, 'too_many_items', () => `There may be at most ${most} tests, got ${body.length}.`);
  } else {
    const names = new Set<string>();
    for (const [index, entry] of (body as readonly unknown[]).entries()) {
      const test = readTest(entry, at(pointer, index), problems);
      if (test === undefined) continue;
      if (names.has(test.name)) {
        const here = at(at(pointer, index), 'name');
        problems.add(here, 'duplicate', () => `Another test has the name ${show(test.name)}.`);
      }
      names.add(test.name);
      tests.push(test);
    }
  }
  return { problems: problems.problems, more: problems.more, tests };
}
