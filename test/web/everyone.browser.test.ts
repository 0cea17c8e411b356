/** Proves that the pages serve everyone: on a phone, by keyboard alone, in the colours one chose; and that what fails loses no work. */
import type { Page } from 'playwright-core';
import { beforeAll, expect, test } from 'vitest';
import { expectShown } from '../lib/browser.ts';
import type { Json } from '../lib/http.ts';
import { newPlace, type Place } from '../lib/server.ts';
import { wireTo } from '../lib/wire.ts';
import { newFleet } from './fleet.fixture.ts';
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

/** What has the focus: its name, and whether a person can see that it has it. */
interface Focus {
  readonly name: string;
  readonly fault: string;
}

/** As text, for the page. A page, and a menu that has just opened, have the focus without showing it. A hidden radio button or checkbox shows the focus at its label. */
const focusNow = `(() => {
  const one = document.activeElement;
  if (one === null || one.matches('body, main, div[data-autofocus]:empty')) return { name: '', fault: '' };
  const label = one.getAttribute('aria-label') ?? one.labels?.[0]?.textContent ?? one.textContent ?? '';
  const name = label.trim();
  const box = one.getBoundingClientRect();
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  const hit = document.elementFromPoint(x, y);
  const isSeen = hit !== null && (one.contains(hit) || hit.contains(one) || hit.closest('label')?.control === one);
  const isInput = one.matches('input, textarea, select, [role=combobox]');
  const shown = [one, ...(one.labels ?? []), one.parentElement].filter((part) => part !== null).map((part) => getComputedStyle(part));
  const hasMark = shown.some(({ outlineStyle, outlineWidth }) => outlineStyle !== 'none' && outlineWidth !== '0px') || isInput;
  return { name, fault: !isSeen ? 'is hidden at ' + [x, y].map(Math.round) + ' by ' + (hit?.closest('.mantine-Notifications-root') ? 'a toast' : hit?.className || hit?.localName) : !hasMark && one.matches(':focus-visible') ? 'shows no focus' : '' };
})()`;

/** What has the focus. A toast may cover it; toasts go by themselves, so this waits until it is gone. */
async function uncoveredFocus(page: Page): Promise<Focus> {
  const look = (): Promise<Focus> => page.evaluate(focusNow);
  await expect.poll(async () => (await look()).fault).not.toMatch(/by a toast$/);
  return look();
}

/** Presses a key until the element with this name has the focus. Every step on the way can be seen. */
async function moveTo(page: Page, name: RegExp | string, key = 'Tab'): Promise<void> {
  const faults: string[] = [];
  for (let steps = 0; steps < 120; steps += 1) {
    const focus = await uncoveredFocus(page);
    if (focus.fault !== '') faults.push(`${focus.name} ${focus.fault}`);
    if (typeof name === 'string' ? focus.name === name : name.test(focus.name)) {
      expect(faults).toEqual([]);
      return;
    }
    await page.keyboard.press(key);
  }
  throw new Error(`${key} never came to ${name}`);
}

/** The same, and Enter. */
async function pressOn(page: Page, name: RegExp | string, key = 'Tab'): Promise<void> {
  await moveTo(page, name, key);
  await page.keyboard.press('Enter');
}

const focused = async (page: Page): Promise<string> => {
  const { name }: Focus = await page.evaluate(focusNow);
  return name;
};

test('by keyboard alone one signs in, finds a group and saves a rule', async () => {
  const group = await newGroup();
  const page = await open({});
  await expectShown(page.getByRole('textbox', { name: 'Token' }));
  expect(await page.locator('meta[name=description]').getAttribute('content')).toMatch(/^Security groups/);
  await page.keyboard.type(place.owner.token);
  await page.keyboard.press('Enter');
  await expectShown(page.getByRole('heading', { name: 'First steps' }));
  await moveTo(page, 'Groups');
  await page.keyboard.press('Enter');
  await expectShown(page.getByRole('heading', { name: 'Groups', level: 1 }));
  await moveTo(page, group.group_name as string);
  await page.keyboard.press('Enter');
  await expectShown(page.getByRole('heading', { name: group.group_name, level: 1 }));
  await moveTo(page, 'Edit');
  await page.keyboard.press('Enter');
  await expectShown(page.getByRole('group', { name: 'Group editor' }));
  await moveTo(page, 'Ports of inbound rule 1');
  await page.keyboard.press('Control+a');
  await page.keyboard.type('9443');
  await page.keyboard.press('Control+s');
  await expectShown(page.getByText(/^Saved\./));
  expect(await portOf(group)).toBe(9443);
});

test('the first five tasks are done by keyboard alone, the focus is always seen, and dialogs give it back', async () => {
  const fleet = await newFleet(stage.server);
  const page = await open({ token: fleet.owner.token, path: `/o/${fleet.org}/devices` });
  const { keyboard } = page;
  const dialog = page.getByRole('dialog');
  const choose = async (name: string, text: string): Promise<void> => {
    await moveTo(page, name);
    await keyboard.press('Control+a');
    await keyboard.type(text);
    await expectShown(page.getByRole('option', { name: text }));
    await keyboard.press('ArrowDown');
    await keyboard.press('Enter');
  };
  await expectShown(page.getByRole('link', { name: 'web-1' }));

  // Allow PostgreSQL from the app servers.
  await pressOn(page, 'Groups');
  await expectShown(page.getByRole('heading', { name: 'Groups', level: 1 }));
  await pressOn(page, 'databases');
  await expectShown(page.getByRole('heading', { name: 'databases', level: 1 }));
  await pressOn(page, 'Add service, inbound');
  await expectShown(page.getByRole('menuitem', { name: 'PostgreSQL' }));
  await pressOn(page, /^PostgreSQL/, 'ArrowDown');
  await expectShown(dialog);
  await keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  await expect.poll(() => focused(page)).toBe('Add service, inbound');
  await keyboard.press('Enter');
  await expectShown(page.getByRole('menuitem', { name: 'PostgreSQL' }));
  await pressOn(page, /^PostgreSQL/, 'ArrowDown');
  await expectShown(dialog);
  await pressOn(page, /^app /);
  await expectShown(page.getByRole('group', { name: 'Group editor' }));
  await expect.poll(() => focused(page)).toBe('Ports of inbound rule 3');
  await pressOn(page, 'Save');
  await expectShown(page.getByText(/^Saved\./));

  // Find out why bastion cannot reach the database.
  await pressOn(page, 'Reachability');
  await expectShown(page.getByRole('heading', { name: 'Reachability', level: 1 }));
  await choose('From', 'bastion');
  await choose('To', 'db-primary');
  await choose('Service', 'PostgreSQL');
  await expectShown(page.getByRole('region', { name: 'Why' }).getByText(/bastion \(100\.64\.0\.2\) is not among/));

  // See which devices lack the last change.
  await pressOn(page, 'Groups');
  await expectShown(page.getByRole('heading', { name: 'Groups', level: 1 }));
  await pressOn(page, 'databases');
  await expectShown(page.getByText('without the last change'));
  await pressOn(page, 'db-replica');
  await expectShown(page.getByRole('heading', { name: 'db-replica', level: 1 }));

  // Undo the mistake, later.
  await pressOn(page, 'Activity');
  await expectShown(page.getByText('in databases').first());
  await pressOn(page, /^Details: .* allowed tcp 5432 from label:app in databases/);
  await pressOn(page, 'Take this back');
  await expectShown(dialog.getByRole('button', { name: 'Restore it' }));
  await keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  await expect.poll(() => focused(page)).toBe('Take this back');
  await keyboard.press('Enter');
  await expectShown(dialog.getByRole('button', { name: 'Restore it' }));
  await pressOn(page, 'Restore it');
  await expectShown(page.getByText('databases is restored.'));

  // Remove a colleague.
  await pressOn(page, 'Organization');
  const leaver = `Remove ${fleet.member.username}`;
  await expectShown(page.getByRole('button', { name: leaver }));
  await pressOn(page, leaver);
  await expectShown(dialog);
  await expect.poll(() => focused(page)).toBe('Cancel');
  await keyboard.press('Enter');
  await dialog.waitFor({ state: 'detached' });
  await expect.poll(() => focused(page)).toBe(leaver);
  await keyboard.press('Enter');
  await expectShown(dialog);
  await pressOn(page, 'Remove the member');
  await expectShown(page.getByText(`${fleet.member.username} is no longer a member.`));
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
