/** Proves, case by case, which devices a change leaves with only the default group. */
import { describe, expect, it } from 'vitest';
import { openedDevices, type OpeningQuestion } from './openings.ts';
import { emptyOrganization, overlay, type Organization } from './organization.ts';
import { deviceChange, groupChange } from './read-records.ts';

const idOf = (name: string): string =>
  `00000000-0000-4000-8000-${Buffer.from(name.padEnd(6, '.')).toString('hex').slice(0, 12)}`;

interface Group {
  /** The labels that it applies by, one selector each. */
  readonly by?: readonly string[];
  readonly mode?: 'observe';
  readonly guardrail?: 'forbid' | 'require';
  /** What it was before a trial of it; null: it did not exist. */
  readonly before?: { readonly by?: readonly string[]; readonly mode?: 'observe' | 'enforce' } | null;
  /** Devices with one of these labels try the change; absent: all of them. */
  readonly scope?: readonly string[];
}

interface Device {
  readonly list?: readonly string[];
  readonly labels?: readonly string[];
  /** Its list before a trial of it. */
  readonly before?: readonly string[];
  readonly scope?: readonly string[];
}

interface State {
  readonly groups?: Readonly<Record<string, Group>>;
  readonly devices?: Readonly<Record<string, Device>>;
}

const selectors = (labels: readonly string[] = []): object[] =>
  labels.map((label) => (label === '*' ? { all_devices: true } : { labels: label.split('+') }));

const trial = (scope: readonly string[] | undefined, before: object | null): object => ({
  trial: { id: idOf('trial'), ends_at: '2030-01-01T00:00:00Z', ...(scope && { scope: selectors(scope) }), before },
});

function organization({ groups = {}, devices = {} }: State): Organization {
  return overlay(emptyOrganization, [
    groupChange({ id: idOf('default'), group_name: 'default', is_default: true }),
    ...Object.entries(groups).map(([name, { by, mode, guardrail, before, scope }]) =>
      groupChange({
        id: idOf(name),
        group_name: name,
        ...(by && { applies_to: selectors(by) }),
        ...(mode && { mode }),
        ...(guardrail && { guardrail }),
        ...(before !== undefined &&
          trial(scope, before && { applies_to: selectors(before.by), ...(before.mode && { mode: before.mode }) })),
      }),
    ),
    ...Object.entries(devices).map(([hostname, { list = [], labels = [], before, scope }]) =>
      deviceChange({
        id: idOf(hostname),
        hostname,
        labels,
        security_groups: list.map(idOf),
        ...(before && trial(scope, { security_groups: before.map(idOf) })),
      }),
    ),
  ]);
}

function opened(before: State, after: State, question: OpeningQuestion = {}): readonly string[] {
  const groups = { ...before.groups, ...after.groups };
  const devices = { ...before.devices, ...after.devices };
  const kept = Object.fromEntries(Object.entries(groups).filter(([name]) => !gone.has(name)));
  const steps = openedDevices(organization(before), organization({ groups: kept, devices }), question);
  for (let step = steps.next(); ; step = steps.next())
    if (step.done === true) return step.value.map(({ hostname }) => hostname);
}
/** Names of groups that the change deletes. */
const gone = new Set<string>();
const without = (name: string, before: State): readonly string[] => {
  gone.add(name);
  try {
    return opened(before, {});
  } finally {
    gone.delete(name);
  }
};

const app: Group = { by: ['app'] };
const web: Device = { labels: ['app'] };
const none: readonly string[] = [];

describe('without trials', () => {
  it.each<[words: string, before: State, after: State, expected: readonly string[]]>([
    [
      'a label that gave the last group is taken off',
      { groups: { a: app }, devices: { d: web } },
      { devices: { d: {} } },
      ['d'],
    ],
    [
      'a label is taken off, and another one gives a group',
      { groups: { a: { by: ['app', 'db'] } }, devices: { d: web } },
      { devices: { d: { labels: ['db'] } } },
      none,
    ],
    [
      'a label is taken off, and the list has a group',
      { groups: { a: app, l: {} }, devices: { d: { ...web, list: ['l'] } } },
      { devices: { d: { list: ['l'] } } },
      none,
    ],
    [
      'a label is taken off, and the list has a group that is watch only',
      { groups: { a: app, l: { mode: 'observe' } }, devices: { d: { ...web, list: ['l'] } } },
      { devices: { d: { list: ['l'] } } },
      ['d'],
    ],
    [
      'a label that gave nothing is taken off',
      { groups: { a: app }, devices: { d: { labels: ['x'] } } },
      { devices: { d: {} } },
      none,
    ],
    [
      'a label that gave a guardrail only is taken off',
      { groups: { f: { by: ['app'], guardrail: 'forbid' } }, devices: { d: web } },
      { devices: { d: {} } },
      none,
    ],
    [
      'a label that gave a group and one of two labels of its selector is taken off',
      { groups: { a: { by: ['app+prod'] } }, devices: { d: { labels: ['app', 'prod'] } } },
      { devices: { d: { labels: ['app'] } } },
      ['d'],
    ],
    [
      'the list is given other groups',
      { groups: { l: {}, m: {} }, devices: { d: { list: ['l'] } } },
      { devices: { d: { list: ['m'] } } },
      none,
    ],
    [
      'the list is given a group that is watch only',
      { groups: { l: {}, m: { mode: 'observe' } }, devices: { d: { list: ['l'] } } },
      { devices: { d: { list: ['m'] } } },
      ['d'],
    ],
    [
      'the list is given a group that is not there',
      { groups: { l: {} }, devices: { d: { list: ['l'] } } },
      { devices: { d: { list: ['x'] } } },
      ['d'],
    ],
    [
      'the list is emptied where nobody asked for it',
      { groups: { l: {} }, devices: { d: { list: ['l'] } } },
      { devices: { d: {} } },
      ['d'],
    ],
    [
      'the list is emptied, and a group applies by label',
      { groups: { l: {}, a: app }, devices: { d: { ...web, list: ['l'] } } },
      { devices: { d: web } },
      none,
    ],
    [
      'a group stops to apply to a label',
      { groups: { a: app }, devices: { d: web, e: {} } },
      { groups: { a: {} } },
      ['d'],
    ],
    [
      'a group applies to another label',
      { groups: { a: app }, devices: { d: web, e: { labels: ['db'] } } },
      { groups: { a: { by: ['db'] } } },
      ['d'],
    ],
    [
      'a group applies to all devices instead of a label',
      { groups: { a: app }, devices: { d: web } },
      { groups: { a: { by: ['*'] } } },
      none,
    ],
    [
      'a group applies to a label instead of all devices',
      { groups: { a: { by: ['*'] } }, devices: { d: web, e: {} } },
      { groups: { a: app } },
      ['e'],
    ],
    [
      'a group that applies by label becomes watch only',
      { groups: { a: app }, devices: { d: web } },
      { groups: { a: { ...app, mode: 'observe' } } },
      ['d'],
    ],
    [
      'a group of lists becomes watch only',
      { groups: { l: {} }, devices: { d: { list: ['l'] }, e: { list: ['l'], labels: ['app'] } } },
      { groups: { l: { mode: 'observe' } } },
      ['d', 'e'],
    ],
    [
      'one of two groups of a list becomes watch only',
      { groups: { l: {}, m: {} }, devices: { d: { list: ['l', 'm'] } } },
      { groups: { l: { mode: 'observe' } } },
      none,
    ],
    [
      'a group that was watch only enforces',
      { groups: { a: { ...app, mode: 'observe' } }, devices: { d: web } },
      { groups: { a: app } },
      none,
    ],
    [
      'a guardrail becomes watch only',
      { groups: { r: { by: ['*'], guardrail: 'require' } }, devices: { d: {} } },
      { groups: { r: { by: ['*'], guardrail: 'require', mode: 'observe' } } },
      none,
    ],
    [
      'a device that was open stays open',
      { groups: { l: {} }, devices: { d: {} } },
      { devices: { d: { labels: ['x'] } } },
      none,
    ],
    ['a device is made without groups', {}, { devices: { d: {} } }, none],
    [
      'one group takes the place of another for a label',
      { groups: { a: app, b: {} }, devices: { d: web } },
      { groups: { a: {}, b: app } },
      none,
    ],
    [
      'a selector and a label change together, and fit',
      { groups: { a: app }, devices: { d: web } },
      { groups: { a: { by: ['db'] } }, devices: { d: { labels: ['db'] } } },
      none,
    ],
    [
      'a selector and a label change together, and do not fit',
      { groups: { a: app }, devices: { d: web } },
      { groups: { a: { by: ['db'] } }, devices: { d: { labels: ['x'] } } },
      ['d'],
    ],
  ])('%s', (_words, before, after, expected) => {
    expect(opened(before, after)).toEqual(expected);
  });

  it('a group is deleted that lists have, one that applies by label, and one beside another', () => {
    const before: State = {
      groups: { l: {}, a: app, m: {} },
      devices: { d: { list: ['l'] }, e: web, f: { list: ['l', 'm'] } },
    };
    expect(without('l', before)).toEqual(['d']);
    expect(without('a', before)).toEqual(['e']);
    expect(without('m', before)).toEqual(none);
  });
});

describe('while something is tried', () => {
  const tried: Group = { by: ['db'], before: { by: ['app'] } };
  it.each<[words: string, before: State, after: State, expected: readonly string[]]>([
    [
      'the label goes that the group applies by when its trial has ended',
      { groups: { a: tried }, devices: { d: { labels: ['app', 'db'] } } },
      { devices: { d: { labels: ['db'] } } },
      ['d'],
    ],
    [
      'the label goes that the group applies by when its trial is kept',
      { groups: { a: tried }, devices: { d: { labels: ['app', 'db'] } } },
      { devices: { d: { labels: ['app'] } } },
      ['d'],
    ],
    [
      'the trial of a group begins, and keeps it on the device',
      { groups: { a: app }, devices: { d: web } },
      { groups: { a: { by: ['*'], before: { by: ['app'] } } } },
      none,
    ],
    [
      'the trial of a group begins, and takes it from the device',
      { groups: { a: app }, devices: { d: web } },
      { groups: { a: tried } },
      ['d'],
    ],
    [
      'the trial of a group begins, and takes it from devices in its scope',
      { groups: { a: app }, devices: { d: { labels: ['app', 'canary'] }, e: web } },
      { groups: { a: { by: ['db'], before: { by: ['app'] }, scope: ['canary'] } } },
      ['d', 'e'],
    ],
    [
      'a device enters the scope of a trial that takes its group',
      { groups: { a: { by: ['db'], before: { by: ['app'] }, scope: ['canary'] } }, devices: { d: web } },
      { devices: { d: { labels: ['app', 'canary'] } } },
      ['d'],
    ],
    [
      'a device leaves the scope of a trial that gives it a group',
      {
        groups: { a: { by: ['app'], before: { by: ['db'] }, scope: ['canary'] } },
        devices: { d: { labels: ['app', 'canary'] } },
      },
      { devices: { d: web } },
      ['d'],
    ],
    [
      'a group that a trial made is all that a device would have',
      { groups: { l: {}, n: { before: null } }, devices: { d: { list: ['l'] } } },
      { devices: { d: { list: ['n'] } } },
      ['d'],
    ],
    [
      'a group of the list before a trial changes, where the list that is tried is empty',
      { groups: { l: {} }, devices: { d: { before: ['l'] } } },
      { groups: { l: app } },
      none,
    ],
    [
      'a list is tried',
      { groups: { l: {}, m: {} }, devices: { d: { list: ['l'] } } },
      { devices: { d: { list: ['m'], before: ['l'] } } },
      none,
    ],
    [
      'a list of nothing that enforces is tried',
      { groups: { l: {}, m: { mode: 'observe' } }, devices: { d: { list: ['l'] } } },
      { devices: { d: { list: ['m'], before: ['l'] } } },
      ['d'],
    ],
    [
      'a group of the list before a trial becomes watch only',
      { groups: { l: {}, m: {} }, devices: { d: { list: ['m'], before: ['l'] } } },
      { groups: { l: { mode: 'observe' } } },
      ['d'],
    ],
    [
      'a group of the list that is tried becomes watch only',
      { groups: { l: {}, m: {} }, devices: { d: { list: ['m'], before: ['l'] } } },
      { groups: { m: { mode: 'observe' } } },
      ['d'],
    ],
    [
      'watch only is tried',
      { groups: { l: {} }, devices: { d: { list: ['l'] } } },
      { groups: { l: { mode: 'observe', before: { mode: 'enforce' } } } },
      ['d'],
    ],
    [
      'to enforce is tried',
      { groups: { l: { mode: 'observe' } }, devices: { d: { list: ['l'] } } },
      { groups: { l: { before: { mode: 'observe' } } } },
      none,
    ],
    ['a trial is taken back', { groups: { a: tried }, devices: { d: web } }, { groups: { a: app } }, none],
  ])('%s', (_words, before, after, expected) => {
    expect(opened(before, after)).toEqual(expected);
  });
});

describe('what is asked of a change', () => {
  const listed: State = { groups: { l: {}, a: app }, devices: { d: { list: ['l'] }, e: { ...web, list: ['l'] } } };
  it('a list that is emptied asks for it', () => {
    const after: State = { devices: { d: {}, e: web } };
    expect(opened(listed, after)).toEqual(['d']);
    expect(opened(listed, after, { emptied: new Set([idOf('d')]) })).toEqual(none);
  });

  it('a list that is emptied does not ask for the loss of a group by label', () => {
    expect(opened(listed, { devices: { e: {} } }, { emptied: new Set([idOf('e')]) })).toEqual(['e']);
  });

  it('only the cases and the devices that are asked for are looked at', () => {
    const before: State = {
      groups: { a: { by: ['db'], before: { by: ['app'] } } },
      devices: { d: { labels: ['app', 'db'] } },
    };
    const after: State = { devices: { d: { labels: ['db'] } } };
    expect(opened(before, after, { cases: ['ended'] })).toEqual(['d']);
    expect(opened(before, after, { cases: ['now', 'kept'] })).toEqual(none);
    expect(opened(before, after, { among: [] })).toEqual(none);
  });
});
