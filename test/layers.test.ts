/** The map of the house: which room may know which, and why; a wrong arrow fails here. */
import { readFileSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { unusedExports } from './lib/exports.ts';
import { circlesBetween, ownDecisions, privateUses } from './lib/house.ts';
import {
  cycleIn,
  importsOf,
  isTest,
  roomOf,
  withoutOpening,
  wrongArrows,
  type Room,
  type Rooms,
  type Source,
} from './lib/layers.ts';
import { agentRooms, ruleset } from './lib/agent-rooms.ts';
import { enforcementRooms } from './lib/enforcement-rooms.ts';
import { httpRooms, service } from './lib/http-rooms.ts';
import { storeRooms } from './lib/store-rooms.ts';

/** A room of client commands: how they are declared, and what each does when it runs. */
const noun = (more: readonly string[], why: string): Room => ({
  may: [...more, 'cli/command-line', 'cli/session', 'cli/terminal', 'client', 'organization', 'policy', 'api'],
  npm: ['commander'],
  node: true,
  why,
});

const rooms: Rooms = {
  policy: {
    may: [],
    npm: ['@noble/hashes'],
    node: false,
    why: 'what a rule means; the same in server, agent, command line and browser',
  },
  organization: {
    may: ['policy'],
    npm: [],
    node: false,
    why: 'what an organization is, and what follows: which groups a device has, what opens, what a change means; the same in server, command line and browser',
  },
  nft: { may: ['policy'], npm: [], node: false, why: 'the ruleset as data, and its one printer; no kernel needed' },
  'nft/compile': {
    may: ['nft', 'policy'],
    npm: [],
    node: false,
    why: 'policy in, ruleset out; it knows no kernel state',
  },
  'nft/read': {
    may: ['nft/compile', 'nft', 'policy'],
    npm: [],
    node: false,
    why: 'what the kernel lists, back to the ruleset and the policy; it needs the layout that compile makes',
  },
  'nft/plan': {
    may: ['nft/read', 'nft/compile', 'nft', 'policy'],
    npm: [],
    node: false,
    why: 'the transactions from what is installed to what is desired',
  },
  api: { may: ['policy'], npm: ['typebox'], node: false, why: 'the wire, known to both of its ends' },
  client: { may: ['api', 'policy'], npm: [], node: false, why: 'fetch only, so that it runs in Node and in a browser' },
  node: {
    may: ['client'],
    npm: [],
    node: true,
    why: 'what programs on Node share: their way to the server, their command line, files that are never half written',
  },
  'node/lock.ts': {
    may: ['node'],
    npm: [],
    node: true,
    processes: true,
    why: 'Node cannot lock files: a helper program holds the lock of agent and server',
  },
  'server/database': {
    may: ['server/options', 'server/store/schema', 'node/lock.ts'],
    npm: [],
    node: true,
    processes: true,
    why: 'keeps a PostgreSQL of our own running; it speaks no SQL to it, and has the schema set up its role',
  },
  ...storeRooms,
  'server/identity': {
    may: ['server/options', 'node', 'server/problems.ts', 'server/store/data', 'api', 'organization', 'policy'],
    types: ['server/store'],
    npm: [...service, 'jose', 'oauth4webapi'],
    node: true,
    why: 'who is asking; knows nothing of routes',
  },
  'server/watch': {
    may: [
      'server/http/listener',
      'server/limits',
      'server/options',
      'server/scheduling',
      'server/problems.ts',
      'server/store/data',
      'server/store/follow',
      'server/identity',
      'api',
      'policy',
    ],
    types: ['server/store'],
    npm: service,
    node: true,
    why: 'streams read the store and are opened by a route',
  },
  ...enforcementRooms,
  ...httpRooms,
  'server/workers': {
    may: ['server/lifecycle', 'server/limits', 'server/http/listener', 'server/http/observe'],
    npm: [],
    node: true,
    processes: true,
    why: 'further processes of the same server; it knows nothing of what they serve',
  },
  'server/demo': {
    may: [],
    npm: ['oidc-provider', 'jose'],
    node: true,
    why: 'an identity provider to try things out with; its package is loaded when asked for, and not installed',
  },
  'server/main.ts': {
    may: [
      'server/lifecycle',
      'server/options',
      'server/serve.ts',
      'server/workers',
      'server/demo',
      'server/http/observe',
    ],
    npm: service,
    node: true,
    why: 'the command: one process or several',
  },
  'server/listen.ts': {
    may: ['server/lifecycle', 'server/options', 'server/http/listener', 'server/http/observe', 'server/http/pages'],
    npm: service,
    node: true,
    why: 'how a process takes connections, and ends them',
  },
  'server/retention.ts': {
    may: ['server/scheduling', 'server/store/data'],
    types: ['server/store'],
    npm: [],
    node: true,
    why: 'what a server does again and again, so that what it keeps stays bounded',
  },
  'server/ends.ts': {
    may: ['server/problems.ts', 'server/scheduling', 'server/store/data'],
    types: ['server/store'],
    npm: [],
    node: true,
    why: 'what ends by its time in the records of all organizations',
  },
  'server/serve.ts': {
    may: [
      'server/lifecycle',
      'server/limits',
      'server/options',
      'server/scheduling',
      'server/listen.ts',
      'server/retention.ts',
      'server/ends.ts',
      'server/http/app.ts',
      'server/http/guard',
      'server/http/request',
      'server/http/handlers',
      'server/http/listener',
      'server/http/observe',
      'server/http/pages',
      'server/store',
      'server/problems.ts',
      'server/store/data',
      'server/database',
      'server/identity',
      'server/presence',
      'server/convergence',
      'server/preview',
      'server/usage',
      'server/watch',
      'server/webhooks',
      'server/audit-log',
      'api',
      'policy',
    ],
    types: ['server/store'],
    npm: service,
    node: true,
    why: 'puts the parts of the server together',
  },
  'server/backup.ts': {
    may: ['server/options', 'server/store/schema', 'server/problems.ts', 'server/store/data', 'server/database'],
    npm: [],
    node: true,
    why: 'takes a database out and puts it back, beside a server or without one',
  },
  'server/scheduling': { may: [], npm: [], node: true, why: 'when shared work runs; it does not know which work' },
  'server/limits': { may: [], npm: [], node: true, why: 'what the operator allows; it serves nothing' },
  'server/lifecycle': { may: [], npm: [], node: true, why: 'how a start fails, and how what it started ends' },
  'server/options': {
    may: ['server/limits', 'node', 'api', 'policy'],
    npm: service,
    node: true,
    why: 'the options of the server; it knows none of its parts',
  },
  ...agentRooms,
  'cli/terminal': {
    may: ['node', 'client', 'policy'],
    npm: ['yaml'],
    node: true,
    why: 'text in and out: tables, questions, files, exit codes; it asks no server',
  },
  'cli/oauth': {
    may: ['cli/terminal', 'node'],
    npm: ['oauth4webapi'],
    node: true,
    why: 'signing in at an identity provider; it knows nothing of our server',
  },
  'cli/session': {
    may: ['cli/oauth', 'cli/terminal', 'node', 'client', 'policy', 'api'],
    npm: [],
    node: true,
    why: 'one run of a command: which server, as whom, in which organization',
  },
  'cli/command-line': {
    may: ['cli/session', 'cli/terminal', 'node'],
    npm: ['commander'],
    node: true,
    why: 'how commands and options are declared; it knows no command',
  },
  'cli/lookup': {
    may: ['cli/session', 'cli/terminal', 'node', 'client', 'organization', 'policy', 'api'],
    npm: [],
    node: true,
    why: 'devices and groups by name or id, for every noun that names them',
  },
  'cli/plain': noun(['cli/lookup', 'node'], 'nouns whose records are listed, shown, made and deleted alike'),
  'cli/account': noun(['cli/oauth', 'node'], 'signing in, profiles'),
  'cli/device': noun(['cli/group', 'cli/lookup', 'node'], 'devices, which have groups, and name others as rules do'),
  'cli/group/editor.ts': {
    may: [],
    npm: [],
    node: true,
    processes: true,
    why: "starts the person's own editor, and nothing else",
  },
  'cli/group': noun(['cli/group/editor.ts', 'cli/lookup', 'node'], 'groups and their rules, as people write them'),
  'cli/history': noun(['cli/group', 'cli/lookup', 'node'], 'what was, who changed it, and the way back'),
  'cli/policy': noun(
    ['cli/group', 'cli/lookup', 'node', ...ruleset],
    'files, rulesets and explanations of groups and devices',
  ),
  'cli/label': noun(
    ['cli/group', 'cli/lookup', 'node'],
    'labels wherever they are used, and the way back from such a change',
  ),
  'cli/trial': noun(['cli/lookup', 'node'], 'changes that are being tried: their devices, and how they end'),
  'cli/policy-test': noun(
    ['cli/group', 'cli/lookup', 'cli/policy', 'node'],
    'what must be allowed or refused, and whether it is',
  ),
  'cli/status': noun(['cli/lookup'], 'the fleet at a glance, and which devices are isolated'),
  'cli/flows': noun(
    ['cli/group', 'cli/lookup', 'node'],
    'the traffic that devices observed, and rules that would admit it, as people write them',
  ),
  'cli/evidence': noun(['cli/lookup', 'node'], 'signed files about a device, and the check of them'),
  'cli/watch': noun(['cli/group', 'node'], 'changes, told with the rules as people write them'),
  'cli/completion': noun(['node', 'cli/lookup'], 'what may follow a half-typed command line'),
  'cli/reference': noun([], 'the reference of all commands'),
  'cli/doctor': noun(['agent', 'agent/report', 'node'], 'what is wrong between this machine and its server'),
  'cli/agent': {
    may: ['cli/command-line', 'cli/session', 'cli/terminal', 'agent', 'agent/report', 'node', 'api'],
    npm: ['commander'],
    node: true,
    why: 'starts the agent and shows its status',
  },
  'cli/server': {
    may: ['server/options', 'cli/command-line', 'server/main.ts', 'server/backup.ts', 'node'],
    npm: ['commander'],
    node: true,
    why: 'starts the server, and takes its database out and puts it back',
  },
  cli: {
    may: [
      'cli/account',
      'cli/plain',
      'cli/label',
      'cli/device',
      'cli/group',
      'cli/history',
      'cli/policy',
      'cli/trial',
      'cli/policy-test',
      'cli/status',
      'cli/flows',
      'cli/evidence',
      'cli/watch',
      'cli/doctor',
      'cli/completion',
      'cli/reference',
      'cli/command-line',
    ],
    npm: ['commander'],
    node: true,
    why: 'the list of client commands',
  },
  'cli/main.ts': {
    may: ['cli', 'cli/agent', 'cli/server', 'cli/command-line', 'cli/terminal', 'node', 'policy'],
    npm: ['commander'],
    node: true,
    why: 'the one program: server, agent and client commands behind one name',
  },
  web: {
    may: ['client', ...ruleset, 'organization', 'policy', 'api'],
    npm: 'any',
    node: false,
    why: 'runs in a browser',
  },
};

const top = fileURLToPath(new URL('..', import.meta.url));
const sourcesIn = (folder: string): readonly Source[] =>
  readdirSync(`${top}${folder}`, { recursive: true, encoding: 'utf8' })
    .filter((path) => /\.(ts|tsx|mjs)$/.test(path) && !path.includes('node_modules'))
    .map((path) => ({ path: `${folder}/${path}`, text: readFileSync(`${top}${folder}/${path}`, 'utf8') }));

const src = sourcesIn('src');
const everything = [...src, ...['dev', 'test', 'scripts', 'bench'].flatMap(sourcesIn)];

describe('the house', () => {
  it('has arrows only where the map shows them', () => {
    expect(src.length).toBeGreaterThan(0);
    expect(wrongArrows(rooms, src)).toEqual([]);
  });

  it('has no way round from a room to itself', () => {
    expect(cycleIn(rooms)).toBeUndefined();
    for (const room of Object.values(rooms)) for (const other of room.may) expect(rooms).toHaveProperty([other]);
  });

  it('says in the first sentence of every file what it owns', () => {
    expect(withoutOpening(everything)).toEqual([]);
  });

  it('has no circle between files, imports of types included', () => {
    expect(circlesBetween(everything)).toEqual([]);
  });

  it('has no exported name that no other file uses', () => {
    const isLoadedByOthers = (name: string): boolean =>
      // The second one by the build of the pages.
      name.startsWith('src/client/public.ts: ') || name === 'src/web/theme/variables.ts: variables';
    const unused = unusedExports(everything).filter((name) => name.startsWith('src/') && !isLoadedByOthers(name));
    expect(unused).toEqual([]);
  });

  it('uses no private part of Node or of a package', () => {
    const product = [...src, ...sourcesIn('scripts'), ...sourcesIn('bin')].filter(({ path }) => !isTest(path));
    expect(privateUses(product)).toEqual([]);
  });

  it('compares selectors with labels, and decides which groups a device has, only in policy and organization', () => {
    expect(ownDecisions(src)).toEqual([]);
    const wrong = [
      ['src/web/model/x.ts', "import { matches } from '../../policy/fleet/selector.ts';"],
      ['src/server/x.ts', "import { listFor, selectGroups } from '../policy/effective.ts';"],
      ['src/cli/x.ts', 'const found = wanted.every((label) => labels.includes(label));'],
      ['src/agent/x.ts', 'selector.labels.some((label) => !device.labels.includes(label))'],
      ['src/server/y.ts', 'selector.labels.every((one) => carried.has(one))'],
    ].map(([path = '', text = '']) => ({ path, text }));
    expect(ownDecisions(wrong)).toEqual(wrong.map(({ path }) => path));
  });
});

describe('enforcement', () => {
  const rules = (sources: readonly Source[]): readonly string[] =>
    sources
      .filter(({ path }) => path.startsWith('src/server/convergence/') && !isTest(path))
      .filter((source) => {
        const decides = importsOf(source).some((target = '') =>
          /policy\/(effective|trial\/|fleet\/selector)/.test(target),
        );
        return decides || /\b(labels|scope|applies_?[tT]o)\b/.test(source.text);
      })
      .map(({ path }) => path);

  it('has no model of its own: it looks at no label, selector or scope of a trial, and follows no log', () => {
    expect(rules(src)).toEqual([]);
    const own = {
      path: 'src/server/convergence/x.ts',
      text: "import { matches } from '../../policy/fleet/selector.ts';",
    };
    expect(
      rules([own, { path: 'src/server/convergence/y.ts', text: 'if (device.labels.includes(label)) {}' }]),
    ).toEqual(['src/server/convergence/x.ts', 'src/server/convergence/y.ts']);
    const readers = src.filter(
      ({ path, text }) => path.startsWith('src/server/convergence/') && /\b(readChanges|readState)\b/.test(text),
    );
    expect(readers).toEqual([]);
  });
});

describe('the check of the house', () => {
  const check = (path: string, ...lines: string[]): readonly string[] =>
    wrongArrows(rooms, [{ path, text: `/** Owns an example. */\n${lines.join('\n')}\n` }]);

  it.each([
    [
      'a room above',
      'src/policy/rule.ts',
      "import { compile } from '../nft/compile.ts';",
      /no arrow from policy to nft/,
    ],
    ['a room beside', 'src/nft/print.ts', "import { Group } from '../api/group.ts';", /no arrow from nft to api/],
    [
      'a type of a room above',
      'src/api/group.ts',
      "import type { Row } from '../server/store/row.ts';",
      /api to server\/store/,
    ],
    ['a re-export', 'src/client/index.ts', "export { x } from '../agent/x.ts';", /client to agent/],
    ['a whole re-export', 'src/client/index.ts', "export * from '../agent/x.ts';", /client to agent/],
    [
      'a dynamic import',
      'src/cli/groups.ts',
      "const m = await import('../server/main.ts');",
      /cli to server\/main\.ts/,
    ],
    [
      'a type import in place',
      'src/agent/x.ts',
      "export let a: import('../server/main.ts').Main;",
      /agent to server\/main\.ts/,
    ],
    ['a computed import', 'src/server/http/x.ts', 'await import(process.argv[2]);', /computed at run time/],
    [
      'main from within the server',
      'src/server/store/x.ts',
      "import '../main.ts';",
      /server\/store to server\/main\.ts/,
    ],
    [
      'the way back to the routes',
      'src/server/watch/hub.ts',
      "import '../http/routes.ts';",
      /server\/watch to server\/http/,
    ],
    ['a Node module in policy', 'src/policy/x.ts', "import { readFileSync } from 'node:fs';", /knows nothing of Node/],
    ['a Node module without its prefix', 'src/nft/x.ts', "import path from 'path';", /knows nothing of Node/],
    [
      'a part of a Node module',
      'src/client/x.ts',
      "import { setTimeout } from 'timers/promises';",
      /knows nothing of Node/,
    ],
    ['a Node module by require', 'src/api/x.ts', "const fs = require('fs');", /knows nothing of Node/],
    ['a Node module in the browser', 'src/web/x.tsx', "import 'node:os';", /knows nothing of Node/],
    ['an npm package in policy', 'src/policy/x.ts', "import { Type } from 'typebox';", /the npm package typebox/],
    ['typebox in nft', 'src/nft/x.ts', "import { Type } from 'typebox';", /the npm package typebox/],
    [
      'another hash in nft',
      'src/nft/x.ts',
      "import { sha1 } from '@noble/curves/x.js';",
      /the npm package @noble\/curves/,
    ],
    [
      'fastify on the wire',
      'src/api/x.ts',
      "import type { FastifyInstance } from 'fastify';",
      /the npm package fastify/,
    ],
    ['any npm package in the agent', 'src/agent/x.ts', "import { pino } from 'pino';", /the npm package pino/],
    [
      'processes from a route',
      'src/server/http/x.ts',
      "import { spawn } from 'node:child_process';",
      /starts no processes/,
    ],
    ['processes from a command', 'src/cli/x.ts', "import { spawn } from 'child_process';", /starts no processes/],
    ['workers from a route', 'src/server/http/x.ts', "import cluster from 'node:cluster';", /starts no processes/],
    ['processes by the back door', 'src/cli/x.ts', "process.getBuiltinModule('child_process');", /starts no processes/],
    ['SQL from a route', 'src/server/http/x.ts', "import { Pool } from 'pg';", /speaks no SQL/],
    ['SQL from a stream', 'src/server/watch/x.ts', "import type { Pool } from 'pg';", /speaks no SQL/],
    ['a part of an SQL client', 'src/server/main.ts', "import { x } from 'pg/lib/utils.js';", /speaks no SQL/],
    [
      'the store itself where its types may be imported',
      'src/server/watch/x.ts',
      "import { openStore } from '../store/open.ts';",
      /no arrow from server\/watch to server\/store/,
    ],
    [
      'a type beside a value of the store',
      'src/server/http/handlers/x.ts',
      "import { groupsIn, type Groups } from '../../store/groups/groups.ts';",
      /no arrow from server\/http\/handlers to server\/store\/groups/,
    ],
    ['a test', 'src/policy/x.ts', "import { sample } from './sample.fixture.ts';", /which is a test/],
    [
      'what lies outside',
      'src/cli/x.ts',
      "import manifest from '../../package.json' with { type: 'json' };",
      /outside src/,
    ],
    ['a name that package.json does not declare', 'src/nft/x.ts', "import '#md5';", /no relative path/],
    [
      'a declared name from outside of its room',
      'src/server/http/listener/x.ts',
      "import { sha256Hex } from '#sha256';",
      /no arrow from server\/http\/listener to policy/,
    ],
    ['an address', 'src/web/x.ts', "import 'https://example.org/x.js';", /no relative path/],
  ])('catches %s', (_, path, line, problem) => {
    expect(check(path, line)).toEqual([expect.stringMatching(problem)]);
  });

  it('catches a file that stands in no room', () => {
    expect(check('src/attic/x.ts')).toEqual([expect.stringContaining('stands in no room')]);
  });

  it('names every wrong import of a file, not only the first', () => {
    expect(check('src/policy/x.ts', "import 'node:fs';", "import 'pg';", "import '../web/x.ts';")).toHaveLength(3);
  });

  it('gives the reason of the room', () => {
    expect(check('src/agent/x.ts', "import 'pino';")[0]).toContain('ships small');
  });

  it('lets pass what the map allows, and words that only look like imports', () => {
    expect(
      check(
        'src/server/store/postgres/x.ts',
        "import { open } from 'node:fs/promises';",
        "import { Pool } from 'pg';",
        "import type { Rule } from '../../../policy/rule.ts';",
        "import './neighbour.ts';",
        "// import 'fastify';",
        'const text = `import "fastify"; ${"import(\'fastify\')"}`;',
        "const pattern = /import 'fastify'/;",
      ),
    ).toEqual([]);
    expect(check('src/server/watch/x.ts', "import type { Store } from '../store/open.ts';")).toEqual([]);
    expect(check('src/server/watch/x.ts', "import type { Groups } from '../store/groups/groups.ts';")).toEqual([]);
    expect(check('src/policy/x.ts', "import { sha256 } from '@noble/hashes/sha2.js';")).toEqual([]);
    expect(check('src/nft/x.ts', "import { sha256Hex } from '#sha256';")).toEqual([]);
    expect(check('src/server/database/x.ts', "import { spawn } from 'node:child_process';")).toEqual([]);
    expect(check('src/cli/server/x.ts', "await import('../../server/main.ts');")).toEqual([]);
  });

  it('lets a test, and a contract suite that tests run, use what it needs', () => {
    expect(check('src/agent/x.contract.ts', "import { it } from 'vitest';")).toEqual([]);
    expect(check('src/policy/x.test.ts', "import 'node:fs';", "import 'fast-check';")).toEqual([]);
  });

  it('reads imports of every form', () => {
    const text = `import a, { type b } from 'one'; import * as c from 'two'; import type d from 'three'; import 'four';
      export { e } from 'five'; export * as f from 'six'; export type { g } from 'seven';
      type H = import('eight').H; const i = await import('nine'); import j = require('ten'); require('eleven');
      const k = import.meta.url; export const l = 1; export { i };`;
    const expected = ['one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten', 'eleven'];
    expect(importsOf({ path: 'src/x.ts', text })).toEqual(expected);
  });

  it('finds exported names that no other file uses', () => {
    const texts = {
      'a/a.ts': `export const used = 1; export const own = 2; console.log(own); export interface Said {}
        export type Lost = string; export function says(said: Said) {} export default 3; export { own as other };`,
      'a/b.ts': "import { used, says } from './a.ts'; export { used as passed } from './a.ts';",
      'c.ts':
        "import type { passed } from './a/b.ts'; const whole = await import('./d.ts'); type T = import('./e.ts').T;",
      'd.ts': 'export const anything = 1;',
      'e.ts': 'export type T = 1; export const more = 1;',
      'f.ts': "export const g = 1; export * from './h.ts';",
      'h.ts': 'export const i = 1;',
    };
    const unused = unusedExports(Object.entries(texts).map(([path, text]) => ({ path, text })));
    expect(unused).toEqual(['a/a.ts: own', 'a/a.ts: Lost', 'a/a.ts: default', 'a/a.ts: other', 'f.ts: g']);
  });

  it('puts a file into the innermost room', () => {
    expect(roomOf(rooms, 'src/server/store/postgres/deep/x.ts')).toBe('server/store/postgres');
    expect(roomOf(rooms, 'src/server/main.ts')).toBe('server/main.ts');
    expect(roomOf(rooms, 'src/server/options/values.ts')).toBe('server/options');
    expect(roomOf(rooms, 'src/servers/x.ts')).toBeUndefined();
  });

  it('finds a way round in a map', () => {
    const room = (...may: string[]): Room => ({ may, npm: [], node: false, why: 'an example' });
    expect(cycleIn({ a: room('b'), b: room('c', 'd'), c: room(), d: room('b') })).toEqual(['b', 'd', 'b']);
    expect(cycleIn({ a: room('b', 'c'), b: room('c'), c: room() })).toBeUndefined();
  });

  it('finds files that do not say what they own', () => {
    const texts = {
      good: '/** Owns the good example of an opening. */\n',
      long: '/**\n * Owns the long example,\n * in two lines.\n */\nexport const x = 1;\n',
      program: '#!/usr/bin/env node\n/** Starts the example and waits for it. */\n',
      none: 'export const x = 1;\n',
      late: 'export const x = 1;\n/** Owns the late example of an opening. */\n',
      empty: '/** */\nexport const x = "Owns an example in a string."; /* . */\n',
      word: '/** Stuff. */\n',
      plain: '// Owns the example with the wrong comment.\n',
    };
    const sources = Object.entries(texts).map(([path, text]) => ({ path, text }));
    expect(withoutOpening(sources)).toEqual(['none', 'late', 'empty', 'word', 'plain']);
  });
});
