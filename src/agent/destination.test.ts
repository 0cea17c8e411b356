/** Proves where an agent learns its server and organization: from its options, else from its key, else from its earlier enrollment. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { parseDeviceId, parseOrganizationId } from '../policy/ids.ts';
import { agentConfig, type AgentConfig } from './config.ts';
import { knownDestination } from './destination.ts';
import { agentOptions, type AgentValues } from './options.ts';
import { IdentityFolder } from './source/identity.ts';

const [first, second] = [
  parseOrganizationId('01a1ddc0-9c97-738b-af8b-619f0abce38f'),
  parseOrganizationId('01a1ddc0-9c97-738b-af8b-619f0abce390'),
];
const secret = 'rf_enroll_s3cret';
const key = `${secret}:${first}@https://a.example,https://b.example/`;

const selector = agentOptions.interface.read('wg0');

let folder: string;
let identity: IdentityFolder;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ringfence-destination-'));
  identity = new IdentityFolder(folder);
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const config = async (text: string | undefined, values: AgentValues = {}): Promise<AgentConfig> =>
  agentConfig(
    { interface: selector, ...(text !== undefined && { enroll: text }), ...values },
    { env: {}, isRoot: true },
    await knownDestination(text === undefined ? undefined : { text }, identity, values.organization),
  );
const enrolled = (servers?: readonly string[]): Promise<void> =>
  identity.save({
    organization: second,
    device: parseDeviceId('01a1ddc0-a60f-71bc-85bc-8b1b7f5d75bc'),
    token: 'rf_device_x',
    publicKey: 'p',
    ...(servers && { servers }),
  });

describe('server and organization', () => {
  test('come with the enrollment key, also from a file', async () => {
    const joins = { organization: first, servers: ['https://a.example', 'https://b.example'], notices: [] };
    expect(await config(key)).toMatchObject(joins);
    const file = join(folder, 'key');
    await writeFile(file, `${key}\n`);
    const known = await knownDestination({ file }, identity);
    expect(agentConfig({ interface: selector, enrollFile: file }, { env: {}, isRoot: true }, known)).toMatchObject(
      joins,
    );
  });

  test('that are given win over the key, and the agent says so', async () => {
    const { servers, organization, notices } = await config(key, {
      server: ['https://c.example'],
      organization: second,
    });
    expect({ servers, organization }).toEqual({ servers: ['https://c.example'], organization: second });
    expect(notices).toEqual([
      'using --server https://c.example, although the enrollment key names https://a.example,https://b.example',
      `using --organization ${second}, although the enrollment key names ${first}`,
    ]);
    expect(notices.join()).not.toContain('s3cret');
  });

  test('that are given and equal need no word', async () => {
    expect(
      (await config(key, { server: ['https://a.example', 'https://b.example'], organization: first })).notices,
    ).toEqual([]);
  });

  test('are known after the enrollment without the key; a key for another organization wins', async () => {
    await enrolled(['https://c.example']);
    expect(await config(undefined)).toMatchObject({ servers: ['https://c.example'], organization: second });
    expect(await config(secret)).toMatchObject({ servers: ['https://c.example'], organization: second });
    expect(await config(key)).toMatchObject({ organization: first });
  });

  test('of an enrolled device stay when a key for its organization names another server, unless an option says so', async () => {
    await enrolled(['https://c.example']);
    const edited = `${secret}:${second}@https://thief.example`;
    const { servers, notices } = await config(edited);
    expect(servers).toEqual(['https://c.example']);
    expect(notices).toEqual([
      'using https://c.example, where this device is enrolled, although the enrollment key names https://thief.example; --server changes it',
    ]);
    const moved = await config(edited, { server: ['https://d.example'] });
    expect(moved.servers).toEqual(['https://d.example']);
    expect((await config(`${secret}:${second}@https://c.example/`)).notices).toEqual([]);
    const inCapitals = `${secret}:${second.toUpperCase()}@https://thief.example`;
    expect((await config(inCapitals)).servers).toEqual(['https://c.example']);
  });

  test('of an enrolled device stay when an option names its organization and the key another one', async () => {
    await enrolled(['https://c.example']);
    const edited = `${secret}:${first}@https://thief.example`;
    const { servers, organization } = await config(edited, { organization: second });
    expect({ servers, organization }).toEqual({ servers: ['https://c.example'], organization: second });
  });

  test.each<[string, string | undefined, RegExp]>([
    ['an older key', secret, /^the agent needs --server and --organization: this enrollment key does not carry them/],
    [
      'a damaged key',
      `${secret}:${first}`,
      /^the agent needs --server and --organization: the enrollment key is damaged/,
    ],
    ['a key with another scheme', `${secret}:${first}@ftp://a.example`, /It must be an address like https:/],
    ['a key with a password', `${secret}:${first}@https://me:pw@a.example`, /must not contain a user or a password/],
    ['no key', undefined, /^the agent needs --server and --organization \(/],
  ])('that are not known from %s are asked for in one line, without the secret', async (_, text, message) => {
    await expect(config(text)).rejects.toThrow(message);
    await expect(config(text)).rejects.toThrow(/^(?!.*s3cret)[^\n]*$/);
  });

  test('of a device that an older agent enrolled are asked for as before', async () => {
    await enrolled();
    await expect(config(undefined)).rejects.toThrow(/^the agent needs --server \(/);
    expect(await config(undefined, { server: ['https://c.example'] })).toMatchObject({ organization: second });
    const edited = `${secret}:${second}@https://thief.example`;
    await expect(config(edited)).rejects.toThrow(
      /^the agent needs --server: .*identity\.json names no server, and the key moves no enrolled device \(/,
    );
    expect(await config(edited, { server: ['https://c.example'] })).toMatchObject({ servers: ['https://c.example'] });
    expect(await config(key)).toMatchObject({ servers: ['https://a.example', 'https://b.example'] });
  });

  test('that are given do not need a key that can be read', async () => {
    const known = await knownDestination({ file: join(folder, 'missing') }, identity);
    const values: AgentValues = { interface: selector, enrollFile: join(folder, 'missing') };
    expect(() => agentConfig(values, { env: {}, isRoot: true }, known)).toThrow(/needs --server.*: ENOENT/);
    const given = { ...values, server: ['https://c.example'], organization: second };
    expect(agentConfig(given, { env: {}, isRoot: true }, known).notices).toEqual([]);
  });
});
