/** Owns the server that tests ask: the real one, listening on a free port, on a real PostgreSQL. */
import { rm } from 'node:fs/promises';
import { Writable } from 'node:stream';
import { createLog } from '../../src/server/http/observe/log.ts';
import { startServer, type RunningServer, type Surroundings } from '../../src/server/serve.ts';
import { serverConfig } from '../../src/server/options/config.ts';
import type { ServerValues } from '../../src/server/options/server-options.ts';
import { Api } from './http.ts';
import { startPostgres, temporaryDirectory, type TestPostgres } from './postgres.ts';

export interface TestServer extends RunningServer {
  /** Asks as the administrator. */
  readonly admin: Api;
  /** Asks without a credential. */
  readonly nobody: Api;
  readonly adminToken: string;
  /** Where its database is, for a second server beside it. */
  readonly databaseUrl: string;
  /** Everything the server has logged so far. */
  logged(): string;
}

export interface TestServerOptions extends ServerValues {
  readonly clock?: () => number;
  readonly url?: string;
  readonly watch?: Surroundings['watch'];
  readonly issuer?: Surroundings['issuer'];
  readonly webhooks?: Surroundings['webhooks'];
  readonly tls?: Surroundings['tls'];
}

/** A server on a database of its own in this PostgreSQL, or on the one at `url`. */
export async function startTestServer(postgres: TestPostgres, options: TestServerOptions = {}): Promise<TestServer> {
  const { clock, watch, issuer, webhooks, tls, url = await postgres.freshUrl(), ...values } = options;
  const data = await temporaryDirectory();
  const lines: string[] = [];
  const sink = new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines.push(chunk.toString());
      done();
    },
  });
  const adminToken = `rf_user_${'a'.repeat(43)}`;
  const config = serverConfig(
    { listen: { host: '127.0.0.1', port: 0 }, data, databaseUrl: url, databaseWait: 0, rateLimit: 0, ...values },
    { env: { RINGFENCE_ADMIN_TOKEN: adminToken }, isRoot: false },
  );
  const log = createLog('info', sink);
  try {
    const server = await startServer(config, {
      log,
      ...(clock === undefined ? {} : { clock }),
      ...(watch === undefined ? {} : { watch }),
      ...(issuer === undefined ? {} : { issuer }),
      ...(webhooks === undefined ? {} : { webhooks }),
      ...(tls === undefined ? {} : { tls }),
    });
    const nobody = new Api(server.url);
    return {
      ...server,
      nobody,
      admin: nobody.as(adminToken),
      adminToken,
      databaseUrl: url,
      logged: () => lines.join(''),
      async close() {
        nobody.close();
        await server.close();
        await rm(data, { recursive: true, force: true });
      },
    };
  } catch (error) {
    await rm(data, { recursive: true, force: true });
    throw error;
  }
}

export interface Person {
  readonly id: string;
  readonly username: string;
  readonly token: string;
  readonly api: Api;
}

let count = 0;

/** A user with a token, made by the administrator. */
export async function newPerson(server: TestServer, name = 'user'): Promise<Person> {
  count += 1;
  const { id, username } = await server.admin.expect(201, 'POST', '/api/users', { username: `${name}-${count}` });
  const { token } = await server.admin.expect(201, 'POST', `/api/users/${id}/tokens`, {});
  return { id, username, token, api: server.nobody.as(token) };
}

export interface Place {
  readonly org: string;
  /** `/api/organizations/{org}` */
  readonly base: string;
  readonly defaultGroup: string;
  readonly owner: Person;
  readonly member: Person;
  readonly stranger: Person;
}

/** An organization with its owner and a member, and someone who is neither. */
export async function newPlace(server: TestServer): Promise<Place> {
  const [owner, member, stranger] = [
    await newPerson(server, 'owner'),
    await newPerson(server, 'member'),
    await newPerson(server, 'stranger'),
  ];
  const organization = await owner.api.expect(201, 'POST', '/api/organizations', { name: 'acme' });
  const base = `/api/organizations/${organization.id}`;
  await owner.api.expect(201, 'POST', `${base}/members`, { user_id: member.id });
  return { org: organization.id, base, defaultGroup: organization.security_groups[0], owner, member, stranger };
}

export { startPostgres, temporaryDirectory, type TestPostgres };
