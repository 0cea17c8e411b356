/** Proves that every page can be used by everyone: no violation known to axe in either colour scheme, and no page wider than its window. */
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';
import { beforeAll, expect, test } from 'vitest';
import { expectShown } from '../lib/browser.ts';
import { isThorough } from '../lib/thorough.ts';
import { newFleet, type Fleet } from './fleet.fixture.ts';
import { useStage } from './stage.fixture.ts';

const stage = useStage();
let fleet: Fleet;
beforeAll(async () => {
  fleet = await newFleet(stage.server);
});

/** A folder for pictures of the pages, for people to look at; none are taken unless it is set. */
const album = process.env['RINGFENCE_SCREENSHOTS'];

interface Place {
  readonly name: string;
  readonly path: (fleet: Fleet) => string;
  readonly heading: string;
  readonly signedOut?: true;
  /** What to do before looking. */
  readonly act?: (page: Page) => Promise<void>;
  /** What to take back afterwards. */
  readonly undo?: () => Promise<unknown>;
}

const places: readonly Place[] = [
  { name: 'sign-in', path: () => '/', heading: 'Ringfence', signedOut: true },
  {
    name: 'overview',
    path: ({ org }) => `/o/${org}/overview`,
    heading: 'Overview',
    act: async (page) => {
      await page.getByRole('region', { name: 'Needs attention' }).getByRole('listitem').first().waitFor();
      await page.getByRole('region', { name: 'Ends soon' }).getByText('next rack').waitFor();
    },
  },
  { name: 'overview-empty', path: ({ empty }) => `/o/${empty}/overview`, heading: 'First steps' },
  {
    name: 'devices-selected',
    path: ({ org }) => `/o/${org}/devices`,
    heading: 'Devices',
    act: async (page) => {
      await page.getByRole('checkbox', { name: 'Select web-1' }).click();
      await page.getByRole('region', { name: 'Selected devices' }).getByRole('button', { name: 'Delete' }).click();
      await page.getByRole('heading', { name: 'Delete 1 device?' }).waitFor();
    },
  },
  { name: 'devices', path: ({ org }) => `/o/${org}/devices`, heading: 'Devices' },
  { name: 'device', path: ({ org, devices }) => `/o/${org}/devices/${devices[3]}`, heading: 'db-primary' },
  {
    name: 'device-default',
    path: ({ org, devices }) => `/o/${org}/devices/${devices[0]}`,
    heading: 'bastion',
    act: (page) => page.getByText('2 rules would admit the observed traffic.').waitFor(),
  },
  {
    name: 'device-proposal',
    path: ({ org, devices }) => `/o/${org}/devices/${devices[0]}`,
    heading: 'bastion',
    act: async (page) => {
      await page.getByRole('button', { name: 'Propose rules…' }).click();
      await page.getByText('that the rules would refuse').click();
    },
  },
  {
    name: 'device-evidence',
    path: ({ org, devices }) => `/o/${org}/devices/${devices[3]}`,
    heading: 'db-primary',
    act: async (page) => {
      await page.getByRole('button', { name: 'Evidence', exact: true }).click();
      await page.getByRole('dialog', { name: 'Evidence about db-primary' }).waitFor();
    },
  },
  { name: 'groups', path: ({ org }) => `/o/${org}/groups`, heading: 'Groups' },
  {
    name: 'palette',
    path: ({ org }) => `/o/${org}/devices`,
    heading: 'Devices',
    act: async (page) => {
      await page.keyboard.press('Control+k');
      await page.getByRole('combobox', { name: /^Find/ }).fill('web');
      await page.getByRole('option', { name: /web-1/ }).waitFor();
    },
  },
  { name: 'group', path: ({ org, groups }) => `/o/${org}/groups/${groups.web}`, heading: 'web servers' },
  {
    name: 'group-wrong',
    path: ({ org, groups }) => `/o/${org}/groups/${groups.database}?edit=true`,
    heading: 'databases',
    act: async (page) => {
      await page.getByLabel('Ports of inbound rule 1').fill('70000');
      await page.getByText('a port must be between').waitFor();
    },
  },
  {
    name: 'preview',
    path: ({ org, groups }) => `/o/${org}/groups/${groups.web}?edit=true`,
    heading: 'web servers',
    act: async (page) => {
      await page.getByLabel('Ports of inbound rule 2').fill('8080');
      await page.getByRole('button', { name: 'Preview', exact: true }).click();
      await page.getByText(/accept tcp 8080 from any address/).waitFor();
      await page.getByText('Exact addresses and ports').click();
    },
  },
  {
    name: 'group-read',
    path: ({ org, groups }) => `/o/${org}/groups/${groups.mine}`,
    heading: 'laptop',
  },
  {
    name: 'group-names',
    path: ({ org, groups }) => `/o/${org}/groups/${groups.database}?edit=true`,
    heading: 'databases',
    act: async (page) => {
      await page.getByLabel('Addresses of inbound rule 2').first().fill('label:app');
      await page.keyboard.press('Enter');
      await page.getByText('label:app').first().waitFor();
    },
  },
  { name: 'new-group', path: ({ org }) => `/o/${org}/groups/new`, heading: 'New group' },
  {
    name: 'reach',
    path: ({ org }) => `/o/${org}/reach`,
    heading: 'Reachability',
    act: async (page) => {
      await page.getByRole('button', { name: /^web-1 to db-primary/ }).click();
    },
  },
  {
    name: 'activity',
    path: ({ org }) => `/o/${org}/activity`,
    heading: 'Activity',
    act: async (page) => {
      // What changed before that is part of what the page began with.
      await expectShown(page.getByText('Live', { exact: true }));
      const url = `${fleet.base}/security_groups/${fleet.groups.web}`;
      await fleet.owner.api.expect(200, 'PATCH', url, { group_description: `HTTPS for everyone. ${Math.random()}` });
      const change = { inbound_rules: [{ ip_protocol: 'tcp', from_port: 443, to_port: 443 }] };
      await fleet.owner.api.expect(200, 'PATCH', `${fleet.base}/security_groups/${fleet.groups.operations}`, change);
      const entry = page.locator('.deed').filter({ hasText: 'in operations' }).first();
      await entry.getByRole('button', { name: /^Details/ }).click();
      await entry.getByText('Take this back').waitFor();
    },
  },
  {
    name: 'add-device',
    path: ({ org }) => `/o/${org}/devices`,
    heading: 'Devices',
    act: async (page) => {
      await page.getByRole('button', { name: 'Add devices' }).click();
      await page.getByRole('button', { name: 'Make the key' }).waitFor();
    },
  },
  {
    name: 'new-key',
    path: ({ org }) => `/o/${org}/devices`,
    heading: 'Devices',
    act: async (page) => {
      await page.getByRole('button', { name: 'Add devices' }).click();
      await page.getByRole('button', { name: 'Make the key' }).click();
      await page.getByLabel('The command').waitFor();
    },
  },
  {
    name: 'keys',
    path: ({ org }) => `/o/${org}/keys`,
    heading: 'Enrollment keys',
    act: async (page) => {
      await page.getByRole('region', { name: 'Enrollment keys' }).getByRole('listitem').first().waitFor();
    },
  },
  {
    name: 'tokens',
    path: ({ org }) => `/o/${org}/tokens`,
    heading: 'Your tokens',
    act: async (page) => {
      await page.getByRole('region', { name: 'Tokens', exact: true }).getByRole('listitem').first().waitFor();
    },
  },
  {
    name: 'new-token',
    path: ({ org }) => `/o/${org}/tokens`,
    heading: 'Your tokens',
    act: async (page) => {
      await page.getByRole('button', { name: 'New token' }).click();
      await page.getByRole('textbox', { name: 'What is it for?' }).fill('dashboard');
    },
  },
  {
    name: 'timeline',
    path: ({ org, groups }) => `/o/${org}/groups/${groups.database}`,
    heading: 'databases',
    act: async (page) => {
      const url = `${fleet.base}/security_groups/${fleet.groups.database}`;
      await fleet.owner.api.expect(200, 'PATCH', url, { group_description: `PostgreSQL ${Math.random()}` });
      await page
        .getByRole('button', { name: /^Restore this/ })
        .first()
        .click();
      await page.getByRole('button', { name: 'Restore it' }).waitFor();
    },
  },
  {
    name: 'labels',
    path: ({ org, devices }) => `/o/${org}/devices/${devices[1]}`,
    heading: 'web-1',
    act: async (page) => {
      await fleet.owner.api.expect(200, 'PATCH', `${fleet.base}/security_groups/${fleet.groups.database}`, {
        applies_to: [{ labels: ['prod'] }],
      });
      await page.getByLabel('What is this device?').first().press('Backspace');
      await page.getByText('web-1 leaves group databases').waitFor();
      await page.getByText(/web-1 no longer accepts tcp 5432/).waitFor();
    },
    undo: () =>
      fleet.owner.api.expect(200, 'PATCH', `${fleet.base}/security_groups/${fleet.groups.database}`, {
        applies_to: [],
      }),
  },
  {
    name: 'hand-over',
    path: ({ org, devices }) => `/o/${org}/devices/${devices[6]}`,
    heading: 'laptop-kim',
    act: async (page) => {
      await page.getByRole('button', { name: 'Hand over' }).click();
      await page.getByText(/the default group will admit everything there/).waitFor();
    },
  },
  {
    name: 'isolate',
    path: ({ org, devices }) => `/o/${org}/devices/${devices[6]}`,
    heading: 'laptop-kim',
    act: async (page) => {
      await page.getByRole('button', { name: 'Isolate' }).click();
      await page.getByRole('button', { name: 'Isolate the device' }).waitFor();
    },
  },
  {
    name: 'shortcuts',
    path: ({ org }) => `/o/${org}/devices`,
    heading: 'Devices',
    act: async (page) => {
      await page.keyboard.press('?');
      await page.getByRole('dialog').waitFor();
    },
  },
  {
    name: 'trials',
    path: ({ org }) => `/o/${org}/overview`,
    heading: 'Overview',
    act: async (page) => {
      const start = (group: string, port: number, query: string): Promise<unknown> =>
        fleet.owner.api.expect(200, 'PATCH', `${fleet.base}/security_groups/${group}?${query}`, {
          inbound_rules: [{ ip_protocol: 'tcp', from_port: port, to_port: port }],
        });
      await start(fleet.groups.web, 8443, 'confirm_within=600&scope=label:prod');
      await start(fleet.groups.operations, 9101, 'confirm_within=3600');
      const trial = page
        .getByRole('region', { name: 'Trials' })
        .getByRole('listitem')
        .filter({ hasText: 'web servers' });
      await trial.getByRole('button', { name: 'Details' }).click();
      await trial.getByText('in tcp 8443 from any').waitFor();
    },
    undo: async () => {
      const trials = await fleet.owner.api.expect(200, 'GET', `${fleet.base}/trials`);
      for (const { id } of trials) await fleet.owner.api.expect(200, 'POST', `${fleet.base}/trials/${id}/revert`);
    },
  },
  {
    name: 'try',
    path: ({ org, groups }) => `/o/${org}/groups/${groups.web}?edit=true`,
    heading: 'web servers',
    act: async (page) => {
      await page.getByLabel('Ports of inbound rule 1').fill('8443');
      await page.getByRole('button', { name: 'Try it first' }).click();
      await page.getByText('Devices with a label').click();
      await page.getByRole('dialog').getByLabel('Labels').first().waitFor();
    },
  },
  {
    name: 'tests',
    path: ({ org }) => `/o/${org}/tests`,
    heading: 'Policy tests',
    act: async (page) => {
      const rule = { protocol: 'tcp', port: 5432 };
      const db = { labels: ['db'] };
      await fleet.owner.api.expect(200, 'PUT', `${fleet.base}/policy_tests?skip_tests=true`, [
        { name: 'web reaches the databases', from: { labels: ['app'] }, to: db, ...rule, expect: 'allow' },
        { name: 'ci reaches the databases', from: { labels: ['ci'] }, to: db, ...rule, expect: 'allow' },
        {
          name: 'build may read',
          from: { device_id: fleet.devices[5] },
          to: db,
          ...rule,
          expect: 'allow',
          note: 'Nightly dumps.',
        },
      ]);
      await page.getByRole('button', { name: 'Run again' }).click();
      await page.getByText(/^build .* must be allowed\. No inbound rule/).waitFor();
    },
  },
  {
    name: 'refused',
    path: ({ org, groups }) => `/o/${org}/groups/${groups.database}?edit=true`,
    heading: 'databases',
    act: async (page) => {
      await page.getByRole('button', { name: 'Remove inbound rule 1' }).click();
      await page.getByRole('button', { name: 'Save', exact: true }).click();
      await page.getByRole('button', { name: 'Save anyway' }).waitFor();
    },
  },
  {
    name: 'flows',
    path: ({ org }) => `/o/${org}/flows?verdict=all`,
    heading: 'Flows',
    act: async (page) => {
      await page.getByRole('list', { name: 'Flows' }).getByText('192.0.2.200').waitFor();
      await page.getByRole('button', { name: 'Filter', exact: true }).click();
    },
  },
  { name: 'flows-empty', path: ({ empty }) => `/o/${empty}/flows`, heading: 'Traffic is not recorded' },
  { name: 'empty', path: ({ empty }) => `/o/${empty}/devices`, heading: 'No devices yet' },
  { name: 'empty-groups', path: ({ empty }) => `/o/${empty}/groups`, heading: 'Only the default group so far' },
  { name: 'members', path: ({ org }) => `/o/${org}/members`, heading: 'Northwind' },
  { name: 'nowhere', path: () => '/nowhere', heading: 'There is no such page' },
];

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

interface Violation {
  readonly id: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
}

/** Waits for colour transitions: a colour between two schemes says nothing about contrast. */
const settled =
  'Promise.allSettled(document.getAnimations().filter((one) => one instanceof CSSTransition).map((one) => one.finished))';

/** What axe has for colours; nothing else can find more in a page that differs from one it has judged by its colours only. */
const colours = ['color-contrast', 'link-in-text-block'];

async function violations(page: Page, rules?: readonly string[]): Promise<readonly string[]> {
  await page.evaluate(settled);
  if (!(await page.evaluate('"axe" in globalThis'))) await page.evaluate(axe);
  // Of what passes, nothing is wanted: describing it takes as long as judging.
  const options = JSON.stringify({ resultTypes: ['violations'], ...(rules === undefined ? {} : { runOnly: rules }) });
  const run = `axe.run(document, ${options}).then((result) => result.violations)`;
  const found = (await page.evaluate(run)) as readonly Violation[];
  return found.flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html}\n${failureSummary}`));
}

/** The page as a screen reader has it, but for the button that names the other colours. */
const heard = async (page: Page): Promise<string> =>
  (await page.locator('body').ariaSnapshot()).replaceAll(/Use the (light|dark) colours/g, '');

const overflow = 'document.documentElement.scrollWidth - document.documentElement.clientWidth';
/** What looks at the window's width draws itself again in a frame or two. */
const drawn = 'new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))';
const widths = [360, 2560] as const;

/** One page or dialog of each kind, for every run. A thorough run, and one that takes pictures, looks at all of them. */
const everyRun: ReadonlySet<string> = new Set([
  'sign-in',
  'overview',
  'devices-selected',
  'device',
  'preview',
  'flows',
]);
const looked = isThorough || album !== undefined ? places : places.filter(({ name }) => everyRun.has(name));

test.each(looked)('$name is free of violations in both colour schemes and fits every window', async (place) => {
  const token = place.signedOut === true ? {} : { token: fleet.owner.token };
  const page = await stage.open({ ...token, path: place.path(fleet) });
  const take = async (name: string): Promise<void> => {
    if (album === undefined) return;
    mkdirSync(album, { recursive: true });
    await page.screenshot({ path: `${album}/${place.name}-${name}.png` });
  };
  await page.getByRole('heading', { name: place.heading }).first().waitFor();
  await place.act?.(page);
  let judged = '';
  for (const scheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme: scheme });
    await page.locator(`html[data-mantine-color-scheme="${scheme}"]`).waitFor();
    await take(scheme);
    const tree = await heard(page);
    expect(await violations(page, tree === judged ? colours : undefined), scheme).toEqual([]);
    judged = tree;
  }
  for (const width of widths) {
    await page.setViewportSize({ width, height: width === 360 ? 740 : 1300 });
    await page.evaluate(drawn);
    await expect.poll(() => page.evaluate(overflow), { message: `at ${width} pixels` }).toBe(0);
    await take(String(width));
  }
  await place.undo?.();
});
