/**
 * Proves that the page is live: events as they happen, a lost stream that is shown and resumed without gaps, and
 * reachability that follows.
 */
import type { Locator, Page } from 'playwright-core';
import { beforeAll, expect, test } from 'vitest';
import { expectShown, isNeeded } from '../lib/browser.ts';
import type { Json } from '../lib/http.ts';
import { newPlace } from '../lib/server.ts';
import { twelveTasks } from '../lib/twelve-tasks.ts';
import { query } from '../../src/server/store/store.fixture.ts';
import { wireTo } from '../lib/wire.ts';
import { newFleet, type Fleet } from './fleet.fixture.ts';
import { useStage } from './stage.fixture.ts';
import { canonicalize } from '../../src/policy/canonicalize.ts';
import { digestForm } from '../../src/policy/digest/digest-form.ts';
import { policyDigest } from '../../src/policy/digest/digest.ts';

// Named by invitations, and never asked.
const stage = useStage(() => ({ oidcIssuer: ['https://login.example.org'], oidcAudience: ['nothing'] }));
let fleet: Fleet;
beforeAll(async () => {
  fleet = await newFleet(stage.server);
});

const rename = (device: string | undefined, hostname: string): Promise<Json> =>
  fleet.owner.api.expect(200, 'PATCH', `${fleet.base}/devices/${device}`, { hostname });

async function open(
  path: string,
  use: (page: Page) => Promise<void>,
  { url = stage.server.url, loadsAhead = false } = {},
): Promise<void> {
  await use(await stage.open({ token: fleet.owner.token, path: `/o/${fleet.org}${path}`, loadsAhead }, url));
}

test('what others do appears in the activity as sentences, with before and after, and is taken back there', async () => {
  await open('/activity', async (page) => {
    await fleet.owner.api.expect(200, 'PATCH', `${fleet.base}/security_groups/${fleet.groups.operations}`, {
      inbound_rules: [{ ip_protocol: 'tcp', from_port: 9100, to_port: 9100 }],
    });
    await rename(fleet.devices[5], 'build-2');
    const entries = page.getByRole('region', { name: 'Activity' }).locator('.deed');
    await expectShown(entries.filter({ hasText: /renamed device .* to build-2/ }));
    const who = fleet.owner.username;
    const change = `${who} allowed tcp 9100 from anywhere instead of tcp 9100 from bastion (100.64.0.2) and ping from 100.64.0.0/24 in operations`;
    await page.getByText('Groups and rules', { exact: true }).click();
    await entries.filter({ hasText: 'build-2' }).waitFor({ state: 'detached' });
    expect(await entries.first().innerText()).toContain(change);
    await entries
      .first()
      .getByRole('button', { name: /^Details/ })
      .click();
    await expectShown(entries.first().getByText('in tcp 9100 from any'));
    await entries.first().getByRole('button', { name: 'Take this back' }).click();
    await expectShown(page.getByRole('dialog').getByText('4 devices admit more, 4 devices admit less.'));
    await page.getByRole('button', { name: 'Restore it' }).click();
    await expectShown(entries.filter({ hasText: `${who} restored group operations: allowed tcp 9100 from bastion` }));
    const time = entries.first().locator('time');
    await time.hover();
    expect(await time.getAttribute('title')).toMatch(/\d:\d\d:\d\d/);
    await page.getByRole('button', { name: 'Filter', exact: true }).click();
    await page.getByRole('combobox', { name: 'Filter by group' }).click();
    await page.getByRole('option', { name: 'databases' }).click();
    await entries.filter({ hasText: 'operations' }).first().waitFor({ state: 'detached' });
    await expectShown(entries.filter({ hasText: 'created group databases' }));
  });
});

test('a page that loses its stream says so, and shows what it missed when the stream returns', async () => {
  const wire = await wireTo(stage.server.url);
  try {
    await open(
      '/devices',
      async (page) => {
        await expectShown(page.getByText('Live', { exact: true }));
        wire.cut();
        await expectShown(page.getByText('What you see may be out of date.'));
        await rename(fleet.devices[0], 'bastion-while-away');
        await fleet.owner.api.expect(200, 'DELETE', `${fleet.base}/devices/${fleet.devices[6]}`);
        expect(await page.getByRole('link', { name: 'laptop-kim' }).count()).toBe(1);
        // While the wire is cut the button stays; once it is mended, the page may be back before anybody clicks.
        await page.getByRole('button', { name: 'Try now' }).click();
        await expectShown(page.getByText('What you see may be out of date.'));
        wire.mend();
        await expectShown(page.getByRole('link', { name: 'bastion-while-away' }));
        await page.getByRole('link', { name: 'laptop-kim' }).waitFor({ state: 'detached' });
        await page.getByText('What you see may be out of date.').waitFor({ state: 'detached' });
        await rename(fleet.devices[0], 'bastion');
        await expectShown(page.getByRole('link', { name: 'bastion', exact: true }));
      },
      { url: wire.url },
    );
  } finally {
    await wire.close();
  }
});

test('while the server is down, pages that nobody visited open too, the frame names the time, and lists load by themselves after it', async () => {
  const wire = await wireTo(stage.server.url);
  try {
    await open(
      '/overview',
      async (page) => {
        await expectShown(page.getByText('Live', { exact: true }));
        const files = `performance.getEntriesByType('resource').map(({ name }) => name).join()`;
        for (const file of ['tokens', 'reach', 'flows', 'tests', 'keys', 'members', 'command-palette', 'new-group']) {
          await expect.poll(() => page.evaluate(files)).toContain(`/${file}-`);
        }
        wire.cut();
        await expectShown(page.getByText(/Disconnected since \d\d:\d\d\./));
        const menu = page.getByRole('navigation', { name: 'Pages' });
        const unvisited = (await menu.getByRole('link').allInnerTexts()).filter((name) => name !== 'Overview');
        expect(unvisited.length).toBeGreaterThan(7);
        for (const name of unvisited) {
          await menu.getByRole('link', { name, exact: true }).click();
          // The page of the organization has the name of the organization.
          const heading = name === 'Organization' ? 'Northwind' : name;
          await expectShown(page.getByRole('heading', { level: 1, name: heading }));
        }
        // The word is whole: nothing of it is outside its box or the window.
        const dot = 'const dot = document.querySelector(".dot-lost"); const box = dot.getBoundingClientRect();';
        const isWhole = `(() => { ${dot} return dot.scrollWidth <= dot.clientWidth && box.right <= document.querySelector(".topbar").getBoundingClientRect().right - 8; })()`;
        for (const width of [1280, 390, 360]) {
          await page.setViewportSize({ width, height: 800 });
          expect([width, await page.evaluate(isWhole)]).toEqual([width, true]);
        }
        await page.setViewportSize({ width: 1280, height: 800 });
        await menu.getByRole('link', { name: 'Enrollment keys', exact: true }).click();
        await expectShown(page.getByText('Waiting for the server'));
        wire.mend();
        await expectShown(page.getByRole('region', { name: 'Enrollment keys' }).getByText('next rack'));
        await page.getByText('Disconnected').first().waitFor({ state: 'detached' });
      },
      { url: wire.url, loadsAhead: true },
    );
  } finally {
    await wire.close();
  }
});

test('a device and a group tell whether a change is in force, from what agents report', async () => {
  // A server that begins to follow an organization later takes the digest alone as proof: here it follows before the device exists.
  await fleet.owner.api.expect(200, 'GET', `${fleet.base}/device_statuses`);
  const { device_token, id } = await fleet.owner.api.expect(201, 'POST', `${fleet.base}/devices`, {
    public_key: 'key of reporter',
    hostname: 'reporter',
    security_groups: [fleet.groups.web],
  });
  const agent = stage.server.nobody.as(device_token as string);
  const report = (body: Json): Promise<Json> => agent.expect(200, 'PUT', `${fleet.base}/devices/${id}/status`, body);
  await open(`/devices/${id}`, async (page) => {
    const card = page.getByRole('region', { name: 'On the device' });
    await expectShown(card.getByText('No agent has reported for this device.'));
    const group = await fleet.owner.api.expect(200, 'GET', `${fleet.base}/security_groups/${fleet.groups.web}`);
    const { revision } = await fleet.owner.api.expect(200, 'GET', fleet.base);
    const policy_digest = policyDigest(
      canonicalize({
        source: 'list',
        groups: [{ id: group.id, name: '', inbound: group.inbound_rules ?? [], outbound: group.outbound_rules ?? [] }],
      }),
    );
    await report({ state: 'applied', revision: 1, policy_digest, policy_digest_form: digestForm, interface: 'tun7' });
    await expectShown(card.getByText('is not known to have the newest change'));
    await report({ state: 'failed', revision: 1, detail: 'the kernel refused line 7' });
    await expectShown(card.getByText('the kernel refused line 7'));
    await report({
      state: 'applied',
      revision,
      policy_digest: '0'.repeat(64),
      policy_digest_form: digestForm,
      interface: 'tun7',
    });
    await expectShown(card.getByText('the rules in its kernel do not match its policy'));
    await report({ state: 'applied', revision, policy_digest, policy_digest_form: digestForm, interface: 'tun7' });
    await expectShown(card.getByText('The policy on this page is in force'));
    await page.getByRole('button', { name: 'Show' }).click();
    await expectShown(page.getByText(/iifname "tun7"/));
    await page.getByRole('link', { name: 'web servers' }).first().click();
    await expectShown(page.getByText('In force on 1 of 3 devices'));
    await expectShown(page.getByText('2 offline'));
  });
  await fleet.owner.api.expect(200, 'DELETE', `${fleet.base}/devices/${id}`);
});

test('the matrix answers for each pair, explains a cell, follows changes, and shows a past moment', async () => {
  await open('/reach', async (page) => {
    const cell = (from: string, to: string) => page.getByRole('button', { name: new RegExp(`^${from} to ${to}:`) });
    await expectShown(page.getByRole('button', { name: 'bastion to web-1: may connect' }));
    await expectShown(page.getByRole('button', { name: 'web-1 to db-primary: may not connect' }));
    await cell('web-1', 'db-primary').click();
    const why = page.getByRole('region', { name: 'Why' });
    await expectShown(why.getByText('no rule admits it'));
    await page.getByRole('combobox', { name: 'Service' }).click();
    await page.getByRole('option', { name: /PostgreSQL/ }).click();
    await expectShown(page.getByRole('button', { name: 'web-1 to db-primary: may connect' }));
    await expectShown(why.getByText(/PostgreSQL/));
    await cell('web-1', 'db-primary').focus();
    await page.keyboard.press('ArrowDown');
    await expectShown(why.getByRole('heading', { name: 'web-2 → db-primary' }));
    await fleet.owner.api.expect(200, 'PATCH', `${fleet.base}/security_groups/${fleet.groups.database}`, {
      inbound_rules: [],
    });
    await expectShown(page.getByRole('button', { name: 'web-1 to db-primary: may not connect' }));

    // An hour ago, the group still had its rules.
    await query(
      stage.server.databaseUrl,
      `UPDATE history h SET at = at - interval '1 day' WHERE h.org_id = '${fleet.org}' AND h.revision < (SELECT max(revision) FROM history WHERE org_id = h.org_id)`,
    );
    const anHourAgo = await page.evaluate(() => {
      const now = new Date();
      return new Date(now.getTime() - (now.getTimezoneOffset() + 60) * 60_000).toISOString().slice(0, 16);
    });
    const at = page.getByLabel('At', { exact: true });
    await at.fill(anHourAgo);
    await expectShown(page.getByRole('button', { name: 'web-1 to db-primary: may connect' }));
    await expectShown(page.getByText(/Whether the devices enforced it then is not known/));
    await expectShown(why.getByText('may connect', { exact: true }));
    expect(await page.getByRole('button', { name: 'Keep it this way' }).count()).toBe(0);
    await page.getByRole('button', { name: 'Show now' }).click();
    await expectShown(page.getByRole('button', { name: 'web-1 to db-primary: may not connect' }));
  });
});

test('a refusal tells why each rule did not match, and drafts the one that is missing; many devices stand by label', async () => {
  await open('/reach', async (page) => {
    await page.getByText('By label', { exact: true }).click();
    await page
      .getByRole('button', { name: /app to canary: 1 of 1 pairs may connect|canary to app/ })
      .first()
      .waitFor();
    await page.getByRole('button', { name: /app to eu\/fra: 0 of 2 pairs may connect/ }).click();
    await page.getByRole('button', { name: /^web-1 to db-primary: may not connect/ }).click();
    const why = page.getByRole('region', { name: 'Why' });
    await expectShown(why.getByText(/operations: tcp 9100 from/));
    await expectShown(why.getByText(/its port is 9100, not 22/));
    await why.getByRole('button', { name: 'Allow this…' }).click();
    await page.getByRole('menuitem', { name: 'databases' }).click();
    await expectShown(page.getByRole('heading', { name: 'databases', level: 1 }));
    await expectShown(page.getByText('1 unsaved change'));
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await expectShown(page.getByText(/^Saved\./));
    await page.goBack();
    await expectShown(page.getByRole('region', { name: 'Why' }).getByText('may connect', { exact: true }));
  });
});

test('the first page needs less than 350 KB of script, compressed', async () => {
  await open('/devices', async (page) => {
    await expectShown(page.getByRole('heading', { name: 'Devices', level: 1 }));
    const loaded = (await page.evaluate(
      `performance.getEntriesByType('resource').filter(${isNeeded}).map((entry) => entry.name)`,
    )) as string[];
    const scripts = loaded.map((name) => new URL(name).pathname).filter((path) => path.endsWith('.js'));
    expect(scripts.length).toBeGreaterThan(0);
    const sizes = await Promise.all(
      scripts.map(async (path) => {
        const { headers } = await stage.server.nobody.get(path, { 'accept-encoding': 'gzip' });
        expect(headers['content-encoding']).toBe('gzip');
        return Number(headers['content-length']);
      }),
    );
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(350 * 1024);
  });
});

test('twelve tasks take no more steps on the pages than their table says', async () => {
  await open('/devices', async (page) => {
    let steps = 0;
    const taken: number[] = [];
    const click = async (what: Locator): Promise<void> => {
      steps += 1;
      await what.first().click();
    };
    const choose = async (name: string, option: RegExp | string): Promise<void> => {
      await click(page.getByRole('combobox', { name }));
      await page.getByRole('option', { name: option }).first().click();
    };
    const done = (): void => {
      taken.push(steps);
      steps = 0;
    };
    const link = (name: string): Locator => page.getByRole('link', { name, exact: true });

    await click(link('Groups'));
    await click(link('databases'));
    await click(page.getByRole('button', { name: 'Add service, inbound' }));
    await click(page.getByRole('menuitem', { name: 'PostgreSQL' }));
    await click(page.getByRole('dialog').getByRole('button', { name: /^app / }));
    await click(page.getByRole('button', { name: 'Save', exact: true }));
    await expectShown(page.getByText(/^Saved\./));
    done();

    await click(link('Reachability'));
    await choose('From', 'bastion');
    await choose('To', 'db-primary');
    await choose('Service', /PostgreSQL/);
    await expectShown(page.getByRole('region', { name: 'Why' }).getByText('may not connect'));
    await expectShown(page.getByRole('region', { name: 'Why' }).getByText(/bastion \(100\.64\.0\.2\) is not among/));
    done();

    await click(link('Groups'));
    await click(link('databases'));
    await expectShown(page.getByText('without the last change'));
    await expectShown(
      page
        .getByRole('region', { name: 'Devices' })
        .getByRole('listitem')
        .filter({ hasText: 'db-replica' })
        .filter({ hasText: 'Failed' }),
    );
    done();

    await click(link('Activity'));
    const mistake = page.locator('.deed').filter({ hasText: 'allowed tcp 5432 from label:app in databases' }).first();
    await click(mistake.getByRole('button', { name: /^Details/ }));
    await click(mistake.getByRole('button', { name: 'Take this back' }));
    await click(page.getByRole('button', { name: 'Restore it' }));
    await expectShown(page.getByText('databases is restored.'));
    done();

    await click(link('Organization'));
    await click(page.getByRole('button', { name: `Remove ${fleet.member.username}` }));
    await click(page.getByRole('button', { name: 'Remove the member' }));
    await expectShown(page.getByText(`${fleet.member.username} is no longer a member.`));
    done();

    await click(link('Devices'));
    await click(page.getByRole('button', { name: 'Add devices' }));
    await click(page.getByRole('button', { name: 'Make the key' }));
    await expectShown(page.getByLabel('The key').getByText(`:${fleet.org}@`));
    await page.getByRole('button', { name: 'Done' }).click();
    done();

    await click(link('Organization'));
    await page.getByRole('textbox', { name: 'Username or e-mail of the new member' }).fill('lee@example.org');
    await click(page.getByRole('button', { name: 'Add member' }));
    await expectShown(page.getByRole('list', { name: 'Invitations' }).getByText('lee@example.org'));
    done();

    await click(link('Devices'));
    await click(link('web-2'));
    await click(page.getByRole('button', { name: 'Rename' }));
    await page.getByRole('dialog').getByRole('textbox').first().fill('web-3');
    await click(page.getByRole('dialog').getByRole('button', { name: 'Rename' }));
    await expectShown(page.getByRole('heading', { name: 'web-3', level: 1 }));
    done();

    await click(link('Devices'));
    await click(link('web-3'));
    await click(page.getByRole('button', { name: 'Isolate' }));
    await page.getByRole('dialog').getByRole('textbox', { name: 'Reason' }).fill('break-in');
    await click(page.getByRole('dialog').getByRole('button', { name: 'Isolate the device' }));
    await expectShown(page.getByRole('region', { name: 'Isolation' }).getByText('break-in'));
    done();

    await click(link('Devices'));
    await click(link('db-primary'));
    for (const direction of ['inbound', 'outbound'])
      await expectShown(page.getByRole('region', { name: `${direction} rules` }));
    done();

    await click(link('Groups'));
    await click(link('databases'));
    await click(page.getByRole('button', { name: 'Add service, inbound' }));
    await click(page.getByRole('menuitem', { name: 'SSH' }));
    await click(page.getByRole('dialog').getByRole('button', { name: /^app / }));
    steps += 2;
    await page
      .getByRole('button', { name: /^Describe inbound rule/ })
      .last()
      .click();
    await page
      .getByLabel(/^Expiry of inbound rule/)
      .last()
      .selectOption('1 hour');
    await click(page.getByRole('button', { name: 'Save', exact: true }));
    await expectShown(page.getByText(/^Saved\./));
    done();

    await click(link('Groups'));
    await click(link('databases'));
    await expectShown(page.getByRole('region', { name: 'Timeline' }).getByText(fleet.owner.username).first());
    done();
    expect(taken).toEqual(twelveTasks.map(({ pages }) => pages));
  });
});

test('a change that leaves devices with the default group names them and asks, on the device, the group and in bulk', async () => {
  const place = await newPlace(stage.server);
  const addDevice = (hostname: string): Promise<Json> =>
    place.owner.api.expect(201, 'POST', `${place.base}/devices`, { public_key: hostname, hostname, labels: ['db'] });
  const group = await place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, {
    group_name: 'databases',
    applies_to: [{ labels: ['db'] }],
  });
  const [one] = [await addDevice('one'), await addDevice('two')];
  const onDefault = async (): Promise<boolean> =>
    (await place.owner.api.expect(200, 'GET', `${place.base}/devices/${one.id}/groups`))[0].by === 'default';
  const page = await stage.open({ token: place.owner.token, path: `/o/${place.org}/devices/${one.id}` });
  const labels = page.getByRole('dialog', { name: 'Change the labels of one?' });
  const takeLabelOff = async (): Promise<void> => {
    await page.getByLabel('What is this device?').first().press('Backspace');
    await expectShown(labels.getByText('one leaves group databases'));
    await expectShown(labels.getByText('the default group will admit everything there'));
  };
  await takeLabelOff();
  await labels.getByRole('button', { name: 'Cancel' }).click();
  await labels.waitFor({ state: 'detached' });
  expect(await onDefault()).toBe(false);
  await takeLabelOff();
  await labels.getByRole('button', { name: 'Change the labels' }).click();
  await expectShown(page.getByText('Labels of one: none.'));
  expect(await onDefault()).toBe(true);
  await page.getByRole('button', { name: 'Undo' }).click();
  await expectShown(page.getByText('Undone.'));

  const question = page.getByRole('dialog', { name: /with the default group\?/ });
  const opened = question.getByRole('list', { name: 'Devices that would open' }).getByRole('listitem');
  await page.goto(`${stage.server.url}/ui/o/${place.org}/groups/${group.id}?edit=true`);
  await page.getByLabel('Applies to').first().press('Backspace');
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await expectShown(question);
  expect(await opened.allInnerTexts()).toEqual(['one', 'two']);
  await question.getByRole('button', { name: 'Cancel' }).click();
  await question.waitFor({ state: 'detached' });
  expect(await onDefault()).toBe(false);

  await page.goto(`${stage.server.url}/ui/o/${place.org}/devices`);
  await page.getByRole('checkbox', { name: 'Select one' }).click();
  await page.getByRole('checkbox', { name: 'Select two' }).click();
  await page.getByRole('region', { name: 'Selected devices' }).getByRole('button', { name: 'Labels' }).click();
  await page.getByRole('menuitem', { name: 'Remove labels…' }).click();
  await page.getByRole('combobox', { name: 'Label', exact: true }).click();
  await page.getByRole('option', { name: 'db' }).click();
  await expectShown(
    page.getByText('one, two are left without a group of their own: the default group will admit everything there.'),
  );
  await page.getByRole('button', { name: 'Remove from 2 devices' }).click();
  await expectShown(page.getByText('The labels are removed from 2 devices.'));
  expect(await onDefault()).toBe(true);
});
