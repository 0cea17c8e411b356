/** Proves what the agent's options mean together, and that each wrong one is explained in a line. */
import { describe, expect, test } from 'vitest';
import { parseOrganizationId } from '../policy/ids.ts';
import { agentConfig, WrongOptions } from './config.ts';
import { agentOptions, defaultState, type AgentValues } from './options.ts';

const organization = '01a1ddc0-9c97-738b-af8b-619f0abce38f';
const device = '01a1ddc0-a60f-71bc-85bc-8b1b7f5d75bc';

const read = (given: { readonly [K in keyof typeof agentOptions]?: string }): AgentValues =>
  Object.fromEntries(
    Object.entries(given).map(([name, text]) => {
      const option = agentOptions[name as keyof typeof agentOptions];
      return [name, 'read' in option ? option.read(text) : true];
    }),
  );
const config = (given: { readonly [K in keyof typeof agentOptions]?: string }, env: NodeJS.ProcessEnv = {}) =>
  agentConfig(read(given), { env, isRoot: true });

const where = { server: 'http://127.0.0.1:8080/', organization, interface: 'wg0' };

describe('the options', () => {
  test('each have a variable of their own and a line of help', () => {
    const all = Object.values(agentOptions);
    expect(new Set(all.map(({ env }) => env)).size).toBe(all.length);
    for (const { env, help } of all) {
      expect(env).toMatch(/^RINGFENCE_[A-Z_]+$/);
      expect(help).not.toBe('');
    }
  });

  test('give a device with its token, closed until the first policy, in the directory of the system', () => {
    expect(config({ ...where, device, tokenFile: '/etc/token' })).toEqual({
      servers: ['http://127.0.0.1:8080'],
      organization,
      selector: { kind: 'name', name: 'wg0' },
      proof: { kind: 'token', device, token: { file: '/etc/token' } },
      state: '/var/lib/ringfence-agent',
      adopt: false,
      untilFirstPolicy: 'closed',
      keepEstablished: false,
      maxMemory: 256,
      serverAccess: true,
      checkedApply: true,
      containers: 'guard',
      tlsCa: undefined,
      metricsFile: undefined,
      logLevel: 'info',
      notices: [],
    });
  });

  test.each([
    ['a key', { enroll: 'rf_enroll_x' }, { kind: 'enroll', key: { text: 'rf_enroll_x' }, publicKey: undefined }],
    ['a key in a file', { enrollFile: '/k' }, { kind: 'enroll', key: { file: '/k' }, publicKey: undefined }],
    ['a tunnel key', { enrollFile: '/k', publicKey: 'p' }, { kind: 'enroll', key: { file: '/k' }, publicKey: 'p' }],
    ['nothing, for an enrolled device', {}, { kind: 'enrolled' }],
  ])('take %s as a proof', (_, given, proof) => {
    expect(config({ ...where, ...given }).proof).toEqual(proof);
  });

  test('take a token from the environment, but not as the name of a device', () => {
    const env = { RINGFENCE_TOKEN: ' rf_user_abc\n' };
    expect(config({ ...where, device }, env).proof).toEqual({ kind: 'token', device, token: { text: 'rf_user_abc' } });
    expect(config(where, env).proof).toEqual({ kind: 'enrolled' });
  });

  test('take the organization from the variable of the client commands too', () => {
    const { organization: _, ...rest } = where;
    expect(config(rest, { RINGFENCE_ORG: organization.toUpperCase() }).organization).toBe(organization);
    expect(() => config(rest, { RINGFENCE_ORG: 'acme' })).toThrow(/RINGFENCE_ORG is not an id/);
    // As the README exports it, beside an identity on disk or an enrollment key: the name is for the client commands.
    const known = { organization: parseOrganizationId(organization), source: 'the identity' };
    const around = { env: { RINGFENCE_ORG: 'acme' }, isRoot: true };
    expect(agentConfig(read(rest), around, known)).toMatchObject({ organization, notices: [] });
  });

  test('take several servers: each once, on any port of this device, on one port elsewhere', () => {
    const servers = (server: string): readonly string[] => config({ ...where, server }).servers;
    expect(servers('https://a.example/, https://b.example,https://a.example')).toEqual([
      'https://a.example',
      'https://b.example',
    ]);
    expect(servers('http://127.0.0.1:8081,http://localhost:8082,https://a.example')).toHaveLength(3);
  });

  test.each<[string, { readonly [K in keyof typeof agentOptions]?: string }, RegExp]>([
    ['nothing at all', {}, /needs --server and --organization and --interface/],
    ['no interface', { server: 'http://a', organization }, /needs --interface/],
    ['a token without a device', { ...where, tokenFile: '/t' }, /--token-file needs --device/],
    ['a device without a token', { ...where, device }, /--device needs a token/],
    [
      'servers with different ports, which the rules cannot keep open',
      { ...where, server: 'https://a.example,https://b.example:8443' },
      /must use the same port/,
    ],
    ['two keys', { ...where, enroll: 'rf_enroll_x', enrollFile: '/k' }, /use either --enroll or --enroll-file/],
    [
      'a key for a device',
      { ...where, device, enroll: 'rf_enroll_x' },
      /use either --device with --token-file, or --enroll/,
    ],
  ])('refuse %s in one line', (_, given, message) => {
    expect(() => config(given)).toThrow(WrongOptions);
    expect(() => config(given)).toThrow(message);
  });

  test.each<[keyof typeof agentOptions, string, RegExp]>([
    ['server', 'ringfence.example', /must be an address like https:/],
    ['server', 'ftp://ringfence.example', /must be an address like https:/],
    ['server', 'https://me:secret@ringfence.example', /must not contain a user or a password/],
    ['server', 'https://a.example,', /must be an address like https:/],
    ['server', Array.from({ length: 17 }, (_, n) => `https://s${n}.example`).join(), /at most 16/],
    ['organization', 'acme', /must be a UUID/],
    ['device', '7', /must be a UUID/],
    ['interface', 'a name with spaces', /is no interface name/],
    ['interface', '', /is no interface name/],
    ['untilFirstPolicy', 'ajar', /one of closed, open/],
    ['logLevel', 'loud', /one of error, warn, info, debug/],
    ['enroll', 'two words', /without spaces/],
    ['maxMemory', 'much', /at least 16/],
    ['maxMemory', '8', /at least 16/],
    ['publicKey', ' ', /1 to 255/],
  ])('refuse --%s %s', (name, text, message) => {
    expect(() => read({ [name]: text })).toThrow(message);
  });

  test('keep the state of a person where such things go', () => {
    expect(defaultState({ XDG_STATE_HOME: '/home/me/state' }, false)).toBe('/home/me/state/ringfence-agent');
    expect(defaultState({ HOME: '/home/me' }, false)).toMatch(/\.local\/state\/ringfence-agent$/);
  });
});
