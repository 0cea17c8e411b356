/** Proves that on a phone every placeholder of the pages and dialogs can be read whole. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Page } from 'playwright-core';
import { beforeAll, expect, test } from 'vitest';
import { expectShown } from '../lib/browser.ts';
import { newFleet, type Fleet } from './fleet.fixture.ts';
import { useStage } from './stage.fixture.ts';

const stage = useStage(() => ({
  oidcIssuer: ['https://login.example.org', 'https://id.example.net'],
  oidcAudience: ['nothing'],
}));
let fleet: Fleet;
beforeAll(async () => {
  fleet = await newFleet(stage.server);
});

interface Place {
  readonly path: (fleet: Fleet) => string;
  readonly act?: (page: Page) => Promise<unknown>;
  /** Placeholders that stand there, by what names their fields to everyone. */
  readonly shows: readonly string[];
}

const press = (page: Page, name: string | RegExp): Promise<void> =>
  page.getByRole('button', { name, exact: true }).first().click();
const openFilters = (page: Page): Promise<void> => press(page, 'Filter');
/** The dialog of a change to selected devices. */
const change = (menu: string, item: string) => async (page: Page) => {
  await page.getByRole('checkbox', { name: 'Select bastion' }).click();
  await press(page, menu);
  await page.getByRole('menuitem', { name: item }).click();
};

const places: Readonly<Record<string, Place>> = {
  devices: {
    path: ({ org }) => `/o/${org}/devices`,
    act: openFilters,
    shows: ['Name, address, label or key', 'Every state', 'Every label', 'Every group', 'Every user', 'Every version'],
  },
  'a group for devices': {
    path: ({ org }) => `/o/${org}/devices`,
    act: change('Groups', 'Add a group…'),
    shows: ['Choose a group'],
  },
  'a group that no device has': {
    path: ({ org }) => `/o/${org}/devices`,
    act: change('Groups', 'Remove a group…'),
    shows: ['None of them has a group of its own'],
  },
  'labels for devices': {
    path: ({ org }) => `/o/${org}/devices`,
    act: change('Labels', 'Add labels…'),
    shows: ['app, prod …'],
  },
  'labels from devices': {
    path: ({ org }) => `/o/${org}/devices`,
    act: change('Labels', 'Remove labels…'),
    shows: ['Choose a label'],
  },
  'a new key': {
    path: ({ org }) => `/o/${org}/keys`,
    act: (page) => press(page, 'New key'),
    shows: ["Web servers, Kim's laptop …", 'The default group', 'app, prod …'],
  },
  'a device': {
    path: ({ org, devices }) => `/o/${org}/devices/${devices[0]}`,
    shows: ['Choose a group', 'app, prod …'],
  },
  'a device to hand over': {
    path: ({ org, devices }) => `/o/${org}/devices/${devices[6]}`,
    act: (page) => press(page, 'Hand over'),
    shows: ['Choose a member'],
  },
  groups: { path: ({ org }) => `/o/${org}/groups`, shows: ['Name, description, port or address'] },
  'devices for a group': {
    path: ({ org, groups }) => `/o/${org}/groups/${groups.web}`,
    act: (page) => press(page, 'Attach to devices'),
    shows: ['Search'],
  },
  'a group': {
    path: ({ org, groups }) => `/o/${org}/groups/${groups.operations}?edit=true`,
    act: async (page) => {
      await press(page, 'Add inbound rule');
      await press(page, 'Describe inbound rule 1, or let it expire');
    },
    shows: ['any port', 'no ports', 'any address', 'description'],
  },
  'a group by label': {
    path: ({ org }) => `/o/${org}/groups/new`,
    shows: ['label:db, all-devices'],
  },
  'a service': {
    path: ({ org, groups }) => `/o/${org}/groups/${groups.web}?edit=true`,
    act: async (page) => {
      await press(page, 'Add service, inbound');
      await page.getByRole('menuitem', { name: 'PostgreSQL' }).click();
    },
    shows: ['10.0.0.0/8, label:app …'],
  },
  'a trial': {
    path: ({ org, groups }) => `/o/${org}/groups/${groups.web}?edit=true`,
    act: async (page) => {
      await page.getByLabel('Ports of inbound rule 1').fill('8443');
      await press(page, 'Try it first');
      await page.getByText('Devices with a label').click();
    },
    shows: ['label:canary'],
  },
  reachability: {
    path: ({ org }) => `/o/${org}/reach`,
    shows: ['From any device', 'To any device', 'Only devices with this name or label'],
  },
  flows: {
    path: ({ org }) => `/o/${org}/flows?verdict=all`,
    act: openFilters,
    shows: ['Device, address or range', 'Every device', 'Both directions', 'Every protocol', 'Any port', 'Any time'],
  },
  activity: {
    path: ({ org }) => `/o/${org}/activity`,
    act: openFilters,
    shows: ['Person, group or device', 'Everyone', 'Every device', 'Every group'],
  },
  'a policy test': {
    path: ({ org }) => `/o/${org}/tests`,
    act: (page) => press(page, 'New test'),
    shows: ['label:app, device:web-1 or an address'],
  },
  members: {
    path: ({ org }) => `/o/${org}/members`,
    act: async (page) => {
      await page.getByPlaceholder('Username or e-mail').fill('lee@example.org');
      await press(page, 'Add member');
    },
    shows: ['Username or e-mail', 'Identity provider'],
  },
  'a new token': {
    path: ({ org }) => `/o/${org}/tokens`,
    act: (page) => press(page, 'New token'),
    shows: ['Laptop, deploy script, dashboard …'],
  },
  palette: {
    path: ({ org }) => `/o/${org}/groups`,
    act: async (page) => {
      await press(page, 'Menu');
      await press(page, /^Find/);
    },
    shows: ['Find, or explain, flows, isolate, copy …'],
  },
};

interface Measured {
  readonly text: string;
  /** How much wider than its field the text is; zero where it fits. */
  readonly lacks: number;
}

/** As text, because it runs in the page. */
const measure = `(() => {
  const pen = document.createElement('canvas').getContext('2d');
  return [...document.querySelectorAll('input[placeholder], textarea[placeholder]')]
    .filter((field) => field.placeholder !== '' && field.checkVisibility())
    .map((field) => {
      const style = getComputedStyle(field, '::placeholder');
      pen.font = style.font;
      const { paddingLeft, paddingRight } = getComputedStyle(field);
      const room = field.clientWidth - Number.parseFloat(paddingLeft) - Number.parseFloat(paddingRight);
      return { text: field.placeholder, lacks: Math.max(0, Math.ceil(pen.measureText(field.placeholder).width - room)) };
    });
})()`;

test.each(Object.entries(places))('%s: each placeholder fits its field on a phone', async (_, { path, act, shows }) => {
  const page = await stage.open({ token: fleet.owner.token, path: path(fleet), width: 390, height: 844 });
  await act?.(page);
  for (const text of shows) await expectShown(page.getByPlaceholder(text, { exact: true }));
  const measured = (await page.evaluate(measure)) as readonly Measured[];
  expect(measured.map(({ text }) => text)).toEqual(expect.arrayContaining([...shows]));
  expect(measured.filter(({ lacks }) => lacks > 0)).toEqual([]);
});

test('no placeholder of the pages is left out here', () => {
  const web = fileURLToPath(new URL('../../src/web', import.meta.url));
  const text = readdirSync(web, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.tsx'))
    .map((name) => readFileSync(join(web, name), 'utf8'))
    .join('\n');
  const written = [...text.matchAll(/\bplaceholder(?:="([^"]+)"|: '([^']+)')/g)].map(
    ([, attribute, field]) => attribute ?? field ?? '',
  );
  expect(written.length).toBeGreaterThan(20);
  const measured = new Set(Object.values(places).flatMap(({ shows }) => shows));
  expect(written.filter((words) => !measured.has(words))).toEqual([]);
});
