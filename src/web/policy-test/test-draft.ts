/** Owns the draft of a policy test: what the fields of its form hold, what is wrong with them, and the test that they mean. */
import { parseRange } from '../../policy/address.ts';
import { testLimits, type PolicyTest, type TestEnd, type TestProtocol } from '../../policy/policy-test/policy-test.ts';
import { misspelt, readChips, selectorChip, deviceChip, labelFault, type DeviceNames } from '../model/far-end.ts';

export interface TestDraft {
  readonly name: string;
  /** A chip: `label:app`, `device:web-1`, `all-devices` or an address; empty where nothing is chosen. */
  readonly from: string;
  readonly to: string;
  readonly protocol: TestProtocol;
  readonly port: string;
  readonly expect: PolicyTest['expect'];
  readonly note: string;
}

export const emptyTest: TestDraft = {
  name: '',
  from: '',
  to: '',
  protocol: 'tcp',
  port: '',
  expect: 'allow',
  note: '',
};

const endChip = (end: TestEnd, names: DeviceNames): string => {
  if ('address' in end) return end.address;
  return 'device_id' in end ? deviceChip(names.nameOf(end.device_id)) : selectorChip(end);
};

export const testDraft = (test: PolicyTest, names: DeviceNames): TestDraft => ({
  name: test.name,
  from: endChip(test.from, names),
  to: endChip(test.to, names),
  protocol: test.protocol,
  port: test.port === undefined ? '' : String(test.port),
  expect: test.expect,
  note: test.note ?? '',
});

type Read<T> = { readonly value: T } | { readonly fault: string };

function readEnd(chip: string, names: DeviceNames): Read<TestEnd> {
  const { peers = [], ip_ranges = [] } = readChips([chip.trim()], names);
  const [peer] = peers;
  if (peer !== undefined) {
    const fault = 'labels' in peer ? labelFault(peer.labels) : undefined;
    if (fault !== undefined) return { fault };
    if ('device_id' in peer && names.isGone(peer.device_id)) return { fault: 'No device has this name.' };
    return { value: peer };
  }
  const range = parseRange(ip_ranges[0] ?? '');
  if ('fault' in range || range.first !== range.last)
    return { fault: misspelt(chip.trim()) ?? 'Write label:app, device:web-1, all-devices or one address.' };
  return { value: { address: chip.trim() } };
}

export type TestField = 'name' | 'from' | 'to' | 'port' | 'note';

interface ReadTest {
  readonly problems: Readonly<Partial<Record<TestField, string>>>;
  /** Only where there is no problem. */
  readonly test: PolicyTest | undefined;
}

/** `taken`: names of the other tests. */
export function readTest(draft: TestDraft, names: DeviceNames, taken: ReadonlySet<string>): ReadTest {
  const problems: Partial<Record<TestField, string>> = {};
  const name = draft.name.trim();
  if (name === '') problems.name = 'Give the test a name.';
  else if (name.length > testLimits.nameLength) problems.name = `At most ${testLimits.nameLength} characters.`;
  else if (taken.has(name)) problems.name = 'Another test has this name.';
  if (draft.note.length > testLimits.noteLength) problems.note = `At most ${testLimits.noteLength} characters.`;
  const [from, to] = [readEnd(draft.from, names), readEnd(draft.to, names)];
  if ('fault' in from) problems.from = draft.from === '' ? 'Choose who connects.' : from.fault;
  if ('fault' in to) problems.to = draft.to === '' ? 'Choose to whom.' : to.fault;
  const port = Number(draft.port);
  const hasPort = draft.protocol !== 'icmp';
  if (hasPort && !(Number.isInteger(port) && port >= 1 && port <= 65_535)) problems.port = 'A port from 1 to 65535.';
  if ('fault' in from || 'fault' in to || Object.keys(problems).length > 0) return { problems, test: undefined };
  if ('address' in from.value && 'address' in to.value)
    return { problems: { to: 'One end must name devices: an address has no policy.' }, test: undefined };
  const note = draft.note.trim();
  return {
    problems,
    test: {
      name,
      from: from.value,
      to: to.value,
      protocol: draft.protocol,
      ...(hasPort && { port }),
      expect: draft.expect,
      ...(note !== '' && { note }),
    },
  };
}

const same = (a: TestEnd, b: TestEnd): boolean => JSON.stringify(a) === JSON.stringify(b);

/** The test that demands the same connection already, whatever it expects. */
export const testOf = <T extends PolicyTest>(
  tests: readonly T[],
  wanted: Omit<PolicyTest, 'name' | 'expect'>,
): T | undefined =>
  tests.find(
    ({ from, to, protocol, port }) =>
      same(from, wanted.from) && same(to, wanted.to) && protocol === wanted.protocol && port === wanted.port,
  );

/** The name, or the name with a number where another test has it. */
export function freeName(name: string, taken: ReadonlySet<string>): string {
  const base = name.slice(0, testLimits.nameLength - 5);
  if (!taken.has(base)) return base;
  for (let count = 2; ; count += 1) if (!taken.has(`${base} ${count}`)) return `${base} ${count}`;
}
