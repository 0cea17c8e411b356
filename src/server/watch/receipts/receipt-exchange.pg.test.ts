/**
 * Proves the exchange of receipt requests between servers: requests reach the streams of both, and reports are
 * announced while a request waits.
 */
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import { parseDeviceId } from '../../../policy/ids.ts';
import { makeWorld, openTestStore } from '../../store/store.fixture.ts';
import { ReceiptExchange } from './receipt-exchange.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

const device = parseDeviceId('00000000-0000-4000-8000-00000000000d');

async function twoServers() {
  const { store, org, url } = await makeWorld(postgres);
  const other = await openTestStore(url);
  let now = 0;
  const [here, there] = [store, other].map(({ broadcast }) => {
    const events: string[] = [];
    const exchange = new ReceiptExchange({
      broadcast,
      now: () => now,
      defer: setImmediate,
      askOrganization: (id, revision) => events.push(`organization ${id} ${revision}`),
      askDevice: (id, revision) => events.push(`device ${id} ${revision}`),
    });
    exchange.onReported((id) => events.push(`reported ${id}`));
    onTestFinished(() => exchange.close());
    return { exchange, events, send: (...messages: string[]) => broadcast.send(messages) };
  });
  if (here === undefined || there === undefined) throw new Error('two exchanges');
  return { org, here, there, pass: (ms: number) => (now += ms) };
}

test('both servers ask the devices on their streams, and announce reports while somebody waits, once for those that come together', async () => {
  const { org, here, there, pass } = await twoServers();
  there.exchange.reported(org);
  here.exchange.ask(org, 7, [device]);
  await expect.poll(() => there.events).toEqual([`device ${device} 7`]);
  expect(here.events).toEqual([`device ${device} 7`]);
  there.exchange.reported(org);
  there.exchange.reported(org);
  await expect.poll(() => here.events.slice(1)).toEqual([`reported ${org}`]);
  pass(15_001);
  there.exchange.reported(org);
  here.exchange.ask(org, 8);
  await expect.poll(() => there.events.at(-1)).toBe(`organization ${org} 8`);
  expect(here.events.slice(2)).toEqual([`organization ${org} 8`]);
});

test('messages that are broken, or of a later version, are passed over', async () => {
  const { org, here, there } = await twoServers();
  here.send('pnope/7', `p${device}`, `p${device}/x`, `a${org}/99999999999999999`, 'rnope', `x${org}`, 'w', `a${org}/9`);
  await expect.poll(() => there.events).toEqual([`organization ${org} 9`]);
  expect(here.events).toEqual([`organization ${org} 9`]);
});
