/** Takes the pictures of the web UI in docs/images; run by `npm run screenshots`. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, test } from 'vitest';
import { expectShown } from '../lib/browser.ts';
import { useStage } from '../web/stage.fixture.ts';
import { newPicturedFleet, type PicturedFleet } from './fleet.ts';

const stage = useStage();
let fleet: PicturedFleet;
beforeAll(async () => {
  fleet = await newPicturedFleet(stage.server);
});
afterAll(() => fleet.close());

interface Picture {
  readonly name: string;
  readonly path: () => string;
  readonly height: number;
  readonly scheme: 'light' | 'dark';
  /** What to wait for before the picture is taken. */
  readonly shows: (page: Page) => Promise<void>;
}

const pictures: readonly Picture[] = [
  {
    name: 'overview',
    path: () => '/overview',
    height: 800,
    scheme: 'light',
    shows: (page) => expectShown(page.getByRole('region', { name: 'Needs attention' }).getByRole('listitem')),
  },
  {
    name: 'devices',
    path: () => '/devices',
    height: 580,
    scheme: 'dark',
    shows: (page) => expectShown(page.getByText('Never seen')),
  },
  {
    name: 'device',
    path: () => `/devices/${fleet.devices.get('db-2')}`,
    height: 860,
    scheme: 'light',
    shows: (page) =>
      expectShown(page.getByRole('region', { name: 'On the device' }).getByText('In force', { exact: true })),
  },
  {
    name: 'group',
    path: () => `/groups/${fleet.database}`,
    height: 860,
    scheme: 'light',
    shows: (page) => expectShown(page.getByText('1 of 2 devices')),
  },
  {
    name: 'flows',
    path: () => '/flows',
    height: 640,
    scheme: 'light',
    shows: (page) => expectShown(page.getByRole('list', { name: 'Flows' }).getByText('198.51.100.23')),
  },
  {
    name: 'reachability',
    path: () => '/reach',
    height: 700,
    scheme: 'light',
    shows: async (page) => {
      await page.getByRole('button', { name: /^bastion to db-1/ }).click();
      await expectShown(page.getByText('may connect', { exact: true }));
    },
  },
];

test.each(pictures)('takes the picture $name', async ({ name, path, height, scheme, shows }) => {
  const page = await stage.open({ token: fleet.token, path: `/o/${fleet.org}${path()}`, height, scheme });
  await expectShown(page.getByText('Live', { exact: true }));
  await shows(page);
  await page.mouse.move(0, 0);
  await page.screenshot({ path: `docs/images/${name}.png` });
});
