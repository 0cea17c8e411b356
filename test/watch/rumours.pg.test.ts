/**
 * Proves that a hint through the database only wakes a read: a role that may connect and nothing else ends no stream, and
 * keeps no server from hearing of what is true.
 */
import { Client } from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { DatabaseNode } from '../lib/database-node.ts';
import { startTestServer, newPlace, newPerson } from '../lib/server.ts';
import { EventStream } from '../lib/stream.ts';

const unused = {
  freshUrl: () => Promise.reject(new Error('unused')),
  emptyUrl: () => Promise.reject(new Error('unused')),
  stop: () => Promise.resolve(),
};

test('whoever may only connect to the database ends no stream by forged notifications, and those that are true end theirs at once', async () => {
  const node = await DatabaseNode.primary();
  onTestFinished(() => node.remove());
  // Without polls that matter: what arrives in this test arrives by hints.
  const watch = { pollMs: 600_000 };
  const [one, other] = [
    await startTestServer(unused, { url: node.url, watch }),
    await startTestServer(unused, { url: node.url, watch }),
  ];
  onTestFinished(() => one.close());
  onTestFinished(() => other.close());
  const place = await newPlace(one);
  const leaver = await newPerson(one, 'leaver');
  await place.owner.api.expect(201, 'POST', `${place.base}/members`, { user_id: leaver.id });
  const { id: token, token: secret } = await one.admin.expect(201, 'POST', `/api/users/${place.owner.id}/tokens`, {});
  const items = [{ kind: 'security-groups' }];
  const open = (who: string): Promise<EventStream> => new EventStream(other.url, who, place.org, items).tail();
  const [ofToken, ofMember, ofLeaver] = [await open(secret), await open(place.member.token), await open(leaver.token)];
  onTestFinished(() => [ofToken, ofMember, ofLeaver].forEach((stream) => stream.close()));

  await node.query('CREATE ROLE intruder LOGIN');
  const intruder = new Client({ connectionString: node.url.replace('//ringfence@', '//intruder@') });
  await intruder.connect();
  onTestFinished(() => intruder.end());
  await expect(intruder.query('SELECT FROM organizations')).rejects.toMatchObject({ code: '42501' });
  const forge = (text: string) => intruder.query("SELECT pg_notify('ringfence', $1)", [text]);
  for (let round = 0; round < 20; round += 1) {
    await forge(`c${token} m${place.org}/${place.member.id} d${place.org}`);
    await forge(`w${place.org} a${place.org}/9007199254740991 r${place.org} o${place.org} nonsense /`);
  }
  // Behind them on the same way: who sees it has received them all.
  const { id: group } = await place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, {
    group_name: 'new',
  });
  for (const stream of [ofToken, ofMember, ofLeaver]) {
    await stream.shows(group);
    expect(stream.closed).toBe(false);
  }
  // What is true ends its stream as before, and no other.
  await one.admin.expect(200, 'DELETE', `/api/tokens/${token}`);
  await place.owner.api.expect(200, 'DELETE', `${place.base}/members/${leaver.id}`);
  await expect.poll(() => [ofToken.closed, ofLeaver.closed]).toEqual([true, true]);
  expect(ofMember.closed).toBe(false);
  await place.owner.api.expect(200, 'DELETE', place.base);
  await expect.poll(() => ofMember.closed).toBe(true);
});
