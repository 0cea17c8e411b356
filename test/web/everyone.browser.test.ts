/** Proves that the pages serve everyone: on a phone, by keyboard alone, in the colours one chose; and that what fails loses no work. */
import type { Page } from 'playwright-core';
import { beforeAll, expect, test } from 'vitest';
import { expectShown } from '../lib/browser.ts';
import type { Json } from '../lib/http.ts';
import { newPlace, type Place } from '../lib/server.ts';
import { wireTo } from '../lib/wire.ts';
import { useStage } from './stage.fixture.ts';

const stage = useStage();
let place: Place;
beforeAll(async () => {
  place = await newPlace(stage.server);
});

const { open } = stage;

const rule = (port: number): Json => ({ ip_protocol: 'tcp', from_port: port, to_port: port });
let count = 0;
const newGroup = (): Promise<Json> =>
  place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, {
    group_name: `group ${(count += 1)}`,
    inbound_rules: [rule(443)],
  });
const portOf = async ({ id }: Json): Promise<number> =>
  (await place.owner.api.expect(200, 'GET', `${place.base}/security_groups/${id}`)).inbound_rules[0].from_port;

test('on a phone the menu opens, leads to a group, and a rule is edited and saved', async () => {
  const group = await newGroup();
  const page = await open({
    token: place.owner.token,
    path: `/o/${place.org}/devices`,
    width: 360,
    height: 740,
  });
  await expectShown(page.getByRole('heading', { name: 'No devices yet' }));
  expect(await page.getByRole('link', { name: 'Groups', exact: true }).isVisible()).toBe(false);
  await page.getByRole('button', { name: 'Menu' }).click();
  await page.getByRole('link', { name: 'Groups', exact: true }).click();
  await page.getByRole('link', { name: group.group_name }).click();
  await page.getByRole('button', { name: 'Edit', exact: true }).click();
  await page.getByLabel('Ports of inbound rule 1').fill('8443');
  await page.getByRole('button', { name: 'Save' }).click();
  await expectShown(page.getByText(/^Saved\./));
  expect(await portOf(group)).toBe(8443);
});

/** Presses Tab until the element with this name has the focus. */
async function tabTo(page: Page, name: string): Promise<void> {
  const focused = `document.activeElement?.getAttribute('aria-label') ?? document.activeElement?.textContent ?? ''`;
  for (let steps = 0; steps < 60; steps += 1) {
    if (String(await page.evaluate(focused)).trim() === name) return;
    await page.keyboard.press('Tab');
  }
  throw new Error(`Tab never came to ${name}`);
}

test('by keyboard alone one signs in, finds a group and saves a rule', async () => {
  const group = await newGroup();
  const page = await open({});
  await expectShown(page.getByRole('textbox', { name: 'Token' }));
  await page.keyboard.type(place.owner.token);
  await page.keyboard.press('Enter');
  await expectShown(page.getByRole('heading', { name: 'No devices yet' }));
  await tabTo(page, 'Groups');
  await page.keyboard.press('Enter');
  await expectShown(page.getByRole('heading', { name: 'Groups', level: 1 }));
  await tabTo(page, group.group_name as string);
  await page.keyboard.press('Enter');
  await expectShown(page.getByRole('heading', { name: group.group_name, level: 1 }));
  await tabTo(page, 'Edit');
  await page.keyboard.press('Enter');
  await expectShown(page.getByRole('group', { name: 'Group editor' }));
  await tabTo(page, 'Ports of inbound rule 1');
  await page.keyboard.press('Control+a');
  await page.keyboard.type('9443');
  await page.keyboard.press('Control+s');
  await expectShown(page.getByText(/^Saved\./));
  expect(await portOf(group)).toBe(9443);
});

test('the colours that one chose are kept', async () => {
  const page = await open({ token: place.owner.token, path: `/o/${place.org}/groups`, scheme: 'light' });
  await page.getByRole('button', { name: 'Use the dark colours' }).click();
  await page.locator('html[data-mantine-color-scheme="dark"]').waitFor();
  await page.reload();
  await expectShown(page.getByRole('button', { name: 'Use the light colours' }));
});

test('a save that does not reach the server loses nothing, and is made when the server is back', async () => {
  const group = await newGroup();
  const wire = await wireTo(stage.server.url);
  try {
    const page = await open(
      { token: place.owner.token, path: `/o/${place.org}/groups/${group.id}?edit=true` },
      wire.url,
    );
    await page.getByLabel('Ports of inbound rule 1').fill('8443');
    wire.cut();
    await page.getByRole('button', { name: 'Save' }).click();
    await expectShown(page.getByText('The server cannot be reached.'));
    expect(await page.getByLabel('Ports of inbound rule 1').inputValue()).toBe('8443');
    expect(await portOf(group)).toBe(443);
    wire.mend();
    await page.getByRole('button', { name: 'Save' }).click();
    await expectShown(page.getByText(/^Saved\./));
    expect(await portOf(group)).toBe(8443);
  } finally {
    await wire.close();
  }
});

test('a group that goes while it is edited is said to be gone', async () => {
  const group = await newGroup();
  const page = await open({ token: place.owner.token, path: `/o/${place.org}/groups/${group.id}?edit=true` });
  await page.getByLabel('Ports of inbound rule 1').fill('8443');
  await place.owner.api.expect(200, 'DELETE', `${place.base}/security_groups/${group.id}`);
  await expectShown(page.getByRole('heading', { name: 'This group is gone' }));
});
