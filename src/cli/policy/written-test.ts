/** Owns policy tests as people write them in files and on the command line: ends in words, and ports by the names of services. */
import { parseAddress, printAddress } from '../../policy/address.ts';
import { isUuid } from '../../policy/ids.ts';
import { isObject } from '../../policy/json.ts';
import type { PolicyTest, TestEnd } from '../../policy/policy-test/policy-test.ts';
import { readPolicyTests } from '../../policy/policy-test/read-tests.ts';
import { peerWord, type DeviceNaming } from '../../client/words/rule.ts';
import { nearPeerWord } from '../../client/words/near-peer-word.ts';
import { readPeerWord, type PeerNames } from '../group/peer-text.ts';
import { pointerPath, type WrittenProblem } from '../group/written-group.ts';
import { CliError, usageError } from '../terminal/exit.ts';
import { nearService, readPort } from '../terminal/port.ts';

/** `label:app+prod`, `device:web-1`, `all-devices` or an address. */
export function readTestEnd(text: string, names: PeerNames): TestEnd {
  const word = text.trim();
  // A test may name a device that is gone: by its full id no device needs to be found.
  const id = /^device:\s*(\S+)$/i.exec(word)?.[1];
  if (isUuid(id)) return { device_id: id.toLowerCase() };
  const peer = readPeerWord(word, names);
  if (peer !== undefined) return peer;
  const address = parseAddress(word);
  if (!('fault' in address)) return { address: printAddress(address.family, address.value) };
  const near = nearPeerWord(word);
  if (near !== undefined) throw usageError(`\`${text}\` names no devices; did you mean \`${near}\`?`);
  throw usageError(`\`${text}\` is not an end: write \`label:app\`, \`device:web-1\`, \`all-devices\` or an address`);
}

export function readTestPort(text: string, protocol: string): number {
  const port = readPort(text, protocol);
  if (port === undefined) throw usageError(`\`${text}\` is not a port or a known service${nearService(text)}`);
  return port;
}

const endWord = (end: TestEnd, names: DeviceNaming): string => ('address' in end ? end.address : peerWord(end, names));

/** A test as a file has it: what `readWrittenTest` reads as the same test. */
export const writeTest = (test: PolicyTest, names: DeviceNaming): Readonly<Record<string, unknown>> => ({
  name: test.name,
  from: endWord(test.from, names),
  to: endWord(test.to, names),
  protocol: test.protocol,
  ...(test.port !== undefined && { port: test.port }),
  expect: test.expect,
  ...(test.note !== undefined && { note: test.note }),
});

/** `label:app → label:db tcp/5432 must be allowed` */
export const testWords = (
  { from, to, protocol, port, expect }: Omit<PolicyTest, 'name'>,
  names: DeviceNaming,
): string =>
  `${endWord(from, names)} → ${endWord(to, names)} ${protocol}${port === undefined ? '' : `/${port}`} must be ${expect === 'allow' ? 'allowed' : 'refused'}`;

export interface ReadTest {
  /** Absent where there are problems. */
  readonly test?: PolicyTest;
  readonly problems: readonly WrittenProblem[];
}

/** Reads a test out of a file and judges it as the server would. */
export function readWrittenTest(written: unknown, names: PeerNames): ReadTest {
  if (!isObject(written))
    return {
      problems: [
        { path: [], detail: 'a test is a mapping with `name`, `from`, `to`, `protocol`, `port` and `expect`' },
      ],
    };
  const body: Record<string, unknown> = { ...written };
  const problems: WrittenProblem[] = [];
  const replace = (name: string, read: (text: string) => unknown): void => {
    const value = body[name];
    if (typeof value !== 'string') return;
    try {
      body[name] = read(value);
    } catch (error) {
      if (!(error instanceof CliError)) throw error;
      problems.push({ path: [name], detail: error.message });
    }
  };
  replace('from', (text) => readTestEnd(text, names));
  replace('to', (text) => readTestEnd(text, names));
  replace('port', (text) => readTestPort(text, typeof body['protocol'] === 'string' ? body['protocol'] : 'tcp'));
  const known = new Set(problems.map(({ path }) => path[0]));
  const { tests, problems: found } = readPolicyTests([body]);
  for (const { pointer, detail } of found) {
    const path = pointerPath(pointer).slice(1);
    if (!known.has(path[0])) problems.push({ path, detail });
  }
  const [test] = tests;
  return problems.length > 0 || test === undefined ? { problems } : { test, problems };
}
