/** Proves of the systemd units that they start what there is, with no more rights than that needs. */
import { build } from 'esbuild';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { heapEnvironment } from '../../src/agent/host/runtime.ts';
import { agentOptions } from '../../src/agent/options.ts';
import { serverOptions } from '../../src/server/options/server-options.ts';

/** Every setting of a unit, by name. */
function settingsOf(name: string): ReadonlyMap<string, readonly string[]> {
  const text = readFileSync(new URL(`../../packaging/systemd/${name}`, import.meta.url), 'utf8');
  const settings = new Map<string, string[]>();
  for (const [, key = '', value = ''] of text.matchAll(/^([A-Za-z]+)=(.*)$/gm)) {
    settings.set(key, [...(settings.get(key) ?? []), value]);
  }
  return settings;
}

describe('the program of the agent', () => {
  it('holds nothing of npm: what it loads stays in its memory for months', async () => {
    const { metafile } = await build({
      entryPoints: [fileURLToPath(new URL('../../src/agent/start.ts', import.meta.url))],
      bundle: true,
      platform: 'node',
      format: 'esm',
      metafile: true,
      write: false,
    });
    const packages = Object.keys(metafile.inputs).flatMap(
      (path) => /node_modules\/(@[^/]+\/[^/]+|[^/]+)/.exec(path)?.[1] ?? [],
    );
    expect(packages).toEqual([]);
  });
});

const units = [
  ['server', Object.values(serverOptions), '', {}],
  ['agent', Object.values(agentOptions), 'CAP_NET_ADMIN', heapEnvironment],
] as const;

describe.each(units)('the unit of the %s', (program, options, rights, bounds) => {
  const settings = settingsOf(`ringfence-${program}.service`);
  const one = (name: string): string | undefined => settings.get(name)?.at(-1);

  it('starts the program, and sets only variables that it knows, with the bounds of its memory', () => {
    expect(one('ExecStart')).toBe(`/usr/bin/ringfence ${program}`);
    const known = new Set<string>([...options.map(({ env }) => env), ...Object.keys(bounds)]);
    const variables = settings.get('Environment') ?? [];
    for (const line of variables) {
      // Some are for Node itself.
      if (!line.startsWith('NODE_')) expect(known).toContain(line.split('=')[0]);
    }
    expect(variables).toEqual(
      expect.arrayContaining(Object.entries(bounds).map(([name, value]) => `${name}=${value}`)),
    );
    expect(one('RestartPreventExitStatus')).toBe('2');
  });

  it('gives it a user of its own, its own directory, and these rights only', () => {
    expect(one('DynamicUser')).toBe('yes');
    expect(one('StateDirectoryMode')).toBe('0700');
    expect(one('CapabilityBoundingSet')).toBe(rights);
    expect(one('AmbientCapabilities') ?? '').toBe(rights);
    expect(one('UMask')).toBe('0077');
  });

  it.each([
    ['NoNewPrivileges', 'yes'],
    ['ProtectSystem', 'strict'],
    ['ProtectHome', 'yes'],
    ['PrivateTmp', 'yes'],
    ['PrivateDevices', 'yes'],
    ['ProtectKernelTunables', 'yes'],
    ['ProtectKernelModules', 'yes'],
    ['ProtectControlGroups', 'yes'],
    ['RestrictNamespaces', 'yes'],
    ['RestrictSUIDSGID', 'yes'],
    ['SystemCallFilter', '@system-service'],
  ])('shuts it in: %s=%s', (name, value) => {
    expect(one(name)).toBe(value);
  });
});

it('the agent is ready before the network is, and leaves its rules when it goes', () => {
  const settings = settingsOf('ringfence-agent.service');
  expect(settings.get('Before')?.join(' ')).toContain('network-pre.target');
  expect(settings.get('Type')).toEqual(['notify']);
  expect(settings.get('RestrictAddressFamilies')?.join()).toContain('AF_NETLINK');
  expect(settings.has('ExecStop')).toBe(false);
  expect(settings.has('ExecStopPost')).toBe(false);
});

it('the agent has a bound of memory, and lives at the cost of no other program', () => {
  const settings = settingsOf('ringfence-agent.service');
  expect(settings.get('MemoryMax')).toEqual(['1G']);
  // The kernel ends first what takes most, unless a unit says otherwise.
  expect(settings.has('OOMScoreAdjust')).toBe(false);
  expect(settings.has('OOMPolicy')).toBe(false);
});
