/** Proves that the systemd unit says what the program understands: its command, its variables, its exit codes and times. */
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import type { ServerOption } from '../src/server/options/option.ts';
import { serverOptions } from '../src/server/options/server-options.ts';

const text = readFileSync(new URL('../packaging/systemd/ringfence-server.service', import.meta.url), 'utf8');

/** Settings by section, each a list of values in order. */
function parseUnit(unit: string): Map<string, Map<string, string[]>> {
  const sections = new Map<string, Map<string, string[]>>();
  let section: Map<string, string[]> | undefined;
  for (const line of unit.split('\n')) {
    const head = /^\[(\w+)\]$/.exec(line)?.[1];
    if (head !== undefined) sections.set(head, (section = new Map()));
    if (head !== undefined || line === '' || line.startsWith('#')) continue;
    const setting = /^([A-Za-z]+)=(.*)$/.exec(line);
    if (setting === null || section === undefined) throw new Error(`no setting: ${line}`);
    const [, name = '', value = ''] = setting;
    section.set(name, [...(section.get(name) ?? []), value]);
  }
  return sections;
}

const unit = parseUnit(text);
const service = (name: string): string => unit.get('Service')?.get(name)?.join(' ') ?? '';
const options: readonly ServerOption[] = Object.values(serverOptions);

it('has the sections and the settings that a unit needs', () => {
  expect([...unit.keys()]).toEqual(['Unit', 'Service', 'Install']);
  expect(unit.get('Install')?.get('WantedBy')).toEqual(['multi-user.target']);
  expect(service('Type')).toBe('notify');
});

it('starts the server with options that there are', () => {
  const [program, command, ...words] = service('ExecStart').split(' ');
  expect([program, command]).toEqual(['/usr/bin/ringfence', 'server']);
  const known = options.map(({ flags }) => flags.split(' ')[0]);
  for (const word of words.filter((one) => one.startsWith('-'))) expect(known).toContain(word);
});

it('sets variables that the options read, and keeps the data where systemd makes room for them', () => {
  // One is for Node itself.
  const variables = service('Environment')
    .split(' ')
    .filter((variable) => variable.startsWith('RINGFENCE_'));
  for (const variable of variables) expect(options.map(({ env }) => env)).toContain(variable.split('=')[0]);
  expect(variables).toContain(`RINGFENCE_DATA=/var/lib/${service('StateDirectory')}`);
  // Absent on a fresh machine: the dash makes it optional.
  expect(service('EnvironmentFile')).toBe('-/etc/ringfence/server.env');
});

it('does not start again what a wrong option ended, and waits longer than a shutdown takes', () => {
  expect(service('RestartPreventExitStatus')).toBe('2');
  expect(Number(service('TimeoutStopSec'))).toBeGreaterThan(Number(serverOptions.shutdownTimeout.fallback) + 20);
});
