/** Proves the decisions of set-up without touching the machine. */
import { describe, expect, it } from 'vitest';
import { systemPackages } from './packages.mjs';
import { commandForRoot, missingPackages, nodeIsNewEnough, parseArguments, plan, type Found } from './plan.mjs';

const ready: Found = {
  nodeVersion: '20.19.0',
  requiredNode: '>=20.19',
  installed: 'all',
  has: () => true,
  root: true,
  apt: true,
};
const lacking = (...needs: string[]): Found => ({ ...ready, has: (need) => !needs.includes(need) });

describe('the plan of set-up', () => {
  it('is empty when everything is there', () => {
    for (const purpose of ['start', 'lab', 'test', 'bench'] as const) expect(plan(purpose, ready)).toEqual([]);
  });

  it('installs what the command needs from npm: to start the program, nothing that only tests need', () => {
    const bare: Found = { ...ready, installed: 'none' };
    for (const purpose of ['start', 'lab'] as const)
      expect(plan(purpose, bare)).toEqual([{ do: 'npm', packages: 'program' }]);
    for (const purpose of ['test', 'bench', 'package', 'packages', 'release'] as const) {
      expect(plan(purpose, bare)).toEqual([{ do: 'npm', packages: 'all' }]);
    }
  });

  it('installs the rest when tests are run after the program was started, and never less than is there', () => {
    const started: Found = { ...ready, installed: 'program' };
    expect(plan('start', started)).toEqual([]);
    expect(plan('test', started)).toEqual([{ do: 'npm', packages: 'all' }]);
    expect(plan('start', ready)).toEqual([]);
  });

  it('installs exactly the Debian packages whose programs are missing, before npm packages', () => {
    const steps = plan('test', { ...lacking('nft', 'conntrack'), installed: 'none' });
    expect(steps.map((step) => step.do)).toEqual(['apt', 'npm']);
    expect(steps[0]).toMatchObject({ packages: [{ name: 'nftables' }, { name: 'conntrack' }] });
  });

  it('does not ask for test programs in order to start', () => {
    expect(plan('start', lacking('nft', 'ip', 'chromium-headless-shell', 'gcc'))).toEqual([]);
  });

  it('counts a package as missing when any one of the things it brings is absent', () => {
    const names = missingPackages('start', (need) => !need.endsWith('/initdb')).map((p) => p.name);
    expect(names).toEqual(['postgresql']);
  });

  it('gives a user without rights the one command to run, and stops', () => {
    const [step, ...rest] = plan('test', { ...lacking('nft', 'ip'), root: false });
    expect(rest).toEqual([]);
    expect(step).toMatchObject({ do: 'stop' });
    const command = "sudo sh -c 'apt-get update && apt-get install -y --no-install-recommends nftables iproute2'";
    expect(step).toHaveProperty('message', expect.stringContaining(command));
    expect(commandForRoot(systemPackages.filter((p) => p.name === 'gcc'))).toContain(' gcc');
  });

  it('needs no rights where nothing is missing', () => {
    expect(plan('test', { ...ready, root: false, apt: false })).toEqual([]);
  });

  it('names the missing programs where there is no apt-get', () => {
    const [step] = plan('start', { ...lacking('setpriv'), apt: false });
    expect(step).toHaveProperty('message', expect.stringMatching(/util-linux .*setpriv[\s\S]*package manager/));
  });

  it('stops at a Node that is too old, before anything is installed', () => {
    const steps = plan('start', { ...lacking('setpriv'), nodeVersion: '18.20.4', installed: 'none' });
    expect(steps).toHaveLength(1);
    expect(steps[0]).toHaveProperty('message', expect.stringContaining('>=20.19'));
  });
});

describe('comparing Node versions', () => {
  it.each([
    ['20.19.0', true],
    ['20.18.9', false],
    ['20.100.0', true],
    ['22.0.0', true],
    ['9.99.0', false],
    ['21.0.0-nightly', true],
  ])('Node %s is new enough for >=20.19: %s', (version, expected) => {
    expect(nodeIsNewEnough(version, '>=20.19')).toBe(expected);
  });
});

describe('the command line of set-up', () => {
  it('takes each purpose by name', () => {
    expect(parseArguments(['--for', 'bench'])).toEqual({ purpose: 'bench' });
  });

  it('explains itself when it is called wrongly', () => {
    for (const args of [[], ['--for'], ['--for', 'lunch'], ['start'], ['--for', 'start', 'now']]) {
      expect(parseArguments(args)).toEqual({
        message: 'usage: node scripts/setup.mjs --for start|lab|test|faults|proxies|bench|package|packages|release',
      });
    }
  });
});

describe('the list of packages', () => {
  it('names each package once, with something to look for', () => {
    expect(new Set(systemPackages.map((p) => p.name)).size).toBe(systemPackages.length);
    for (const p of systemPackages) expect(p.needs.length).toBeGreaterThan(0);
  });
});
