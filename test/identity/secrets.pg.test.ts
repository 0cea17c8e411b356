/** Looks for every secret of a run in everything that a run leaves behind. */
import { Client } from 'pg';
import { expect, it } from 'vitest';
import { useProvider, useServer } from '../lib/stage.ts';
import { EventStream } from '../lib/stream.ts';
import { newPlace } from '../lib/server.ts';

const identity = useProvider();
const stage = useServer(identity.options);

/** Every row of every table, as text. */
async function dump(url: string): Promise<string> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    const { rows: tables } = await client.query<{ name: string }>(
      `SELECT quote_ident(tablename) AS name FROM pg_tables WHERE schemaname = 'public'`,
    );
    const parts: string[] = [];
    for (const { name } of tables) {
      const { rows } = await client.query<{ row: string }>(`SELECT t::text AS row FROM ${name} t`);
      parts.push(name, ...rows.map(({ row }) => row));
    }
    return parts.join('\n');
  } finally {
    await client.end();
  }
}

/** How a secret might be written down: as it is, without its prefix, as hexadecimal or base64 of either. */
function spellings(secret: string): readonly string[] {
  const random = secret.replace(/^rf_[a-z]+_/, '');
  const bytes = [Buffer.from(secret), Buffer.from(random), Buffer.from(random, 'base64url')];
  return [
    secret,
    random,
    ...bytes.flatMap((one) => [one.toString('hex'), one.toString('base64').replace(/=+$/, '')]),
    encodeURIComponent(secret),
  ];
}

it('no secret of a run is in its log, its metrics, its errors or its database', async () => {
  const place = await newPlace(stage.server);
  const secrets = new Set([stage.server.adminToken, place.owner.token, place.member.token, place.stranger.token]);
  const answers: string[] = [];
  const keep = (secret: string): string => {
    secrets.add(secret);
    return secret;
  };
  const tell = async (asked: Promise<{ readonly text: string; readonly headers: object }>): Promise<void> => {
    const { text, headers } = await asked;
    answers.push(text, JSON.stringify(headers));
  };

  const { id, token } = await place.owner.api.expect(201, 'POST', '/api/users/me/tokens', { name: 'x' });
  keep(token);
  const rotated = keep((await place.owner.api.expect(200, 'POST', `/api/tokens/${id}/rotate`)).token);
  const key = keep((await place.member.api.expect(201, 'POST', `${place.base}/enrollment_keys`, {})).key);
  const device = await stage.server.nobody.as(key).expect(201, 'POST', `${place.base}/devices`, { public_key: 'p' });
  keep(device.device_token);
  const { accessToken, idToken } = await identity.provider.signIn('alice');
  for (const signed of [accessToken, idToken]) for (const part of signed.split('.')) keep(part);

  // Each credential where it works, where it does not, and where people put credentials by mistake.
  for (const secret of [rotated, token, key, device.device_token, accessToken, idToken]) {
    const api = stage.server.nobody.as(secret);
    await tell(api.get(`${place.base}/members`));
    await tell(api.post(`${place.base}/security_groups`, { group_name: 1 }));
    await tell(api.ask('POST', `${place.base}/devices`, { raw: '{"public_key":' }));
    await tell(stage.server.nobody.get(`/api/users/me?access_token=${secret}`));
    await tell(stage.server.nobody.get('/api/users/me', { authorization: `Basic ${secret}` }));
    await tell(stage.server.nobody.get('/api/users/me', { authorization: `Bearer ${secret}x` }));
    const stream = new EventStream(stage.server.url, secret, place.org, [{ kind: 'device' }]);
    await stream.answered();
    stream.close();
  }
  await place.owner.api.expect(200, 'DELETE', `/api/tokens/${id}`);
  await tell(place.owner.api.get('/api/users/me/tokens'));
  await tell(place.member.api.get(`${place.base}/enrollment_keys`));
  await tell(place.owner.api.get(`${place.base}/devices`));
  await tell(stage.server.nobody.get('/metrics'));

  const left = {
    log: stage.server.logged(),
    answers: answers.join('\n'),
    database: await dump(stage.server.databaseUrl),
  };
  expect(left.log.length).toBeGreaterThan(1000);
  expect(left.database).toContain(device.id);
  for (const secret of secrets) {
    for (const written of spellings(secret)) {
      for (const [where, text] of Object.entries(left)) {
        expect(text.includes(written), `${secret.slice(0, 14)}… stands in the ${where}`).toBe(false);
      }
    }
  }
});
