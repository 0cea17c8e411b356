/** Proves that `nft` and `explain` tell what holds on a device beside its groups: the agent's way to its server, and containers. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { beforeEach, describe, expect, it } from 'vitest';
import { done, json, usePeople } from './people.fixture.ts';

const people = usePeople();

let agent: ReturnType<typeof people.server.nobody.as>;
let path = '';
beforeEach(async () => {
  const { id, device_token } = await people.place.owner.api.expect(201, 'POST', `${people.place.base}/devices`, {
    public_key: 'edge',
    hostname: 'edge',
    tunnel_ip: '100.64.0.1',
  });
  agent = people.server.nobody.as(device_token);
  path = `${people.place.base}/devices/${id}/status`;
  await done(people.owner.run(['group', 'create', 'shut', '--in', 'tcp 8080', '--out', 'udp 5000']));
  await done(people.owner.run(['device', 'groups', 'set', 'edge', 'shut']));
});

const report = (more: object): Promise<unknown> => agent.expect(200, 'PUT', path, { state: 'applied', ...more });
const access = { addresses: ['100.64.0.9', 'fd7f::9'], port: 8_443, resolvers: ['100.64.0.53'] };
const ask = (...args: readonly string[]) => people.owner.run(['explain', ...args]);

describe('nft', () => {
  it("shows the agent's way to its server as the agent reported it, and that it is missing where it did not", async () => {
    const before = await people.owner.run(['nft', 'edge']);
    expect(before.stdout).not.toContain('out-server');
    expect(before.stderr).toContain('Not included: the rules for the traffic between the agent and its server');
    await report({ server_access: access, containers: 'guard' });
    const { stdout, stderr } = await people.owner.run(['nft', 'edge']);
    expect(stderr).not.toContain('Not included');
    expect(stdout).toContain('ip daddr 100.64.0.9 tcp dport 8443 counter name out-server accept');
    expect(stdout).toContain('ip6 daddr fd7f::9 tcp dport 8443 counter name out-server accept');
    expect(stdout).toContain('ip daddr 100.64.0.53 udp dport 53 counter name out-server accept');
    const file = await people.owner.file('rules.nft', stdout);
    await expect(promisify(execFile)('nft', ['-c', '-f', file])).resolves.toMatchObject({ stderr: '' });
  });

  it('shows the table for containers, unless the agent ignores them', async () => {
    expect(await done(people.owner.run(['nft', 'shut']))).toContain('add table inet service-forward');
    expect(await done(people.owner.run(['nft', 'edge']))).toContain('meta l4proto 6 ct original proto-dst 8080');
    expect(await done(ask('100.64.0.9', 'edge', 'ping'))).not.toContain('container');
    await report({ containers: 'ignore' });
    expect(await done(people.owner.run(['nft', 'edge']))).not.toContain('service-forward');
    expect(await done(people.owner.run(['nft', 'default']))).not.toContain('service-forward');
  });

  it('takes what an agent reported for anybody’s text', async () => {
    await report({ server_access: { addresses: ['; flush ruleset', '10.0.0.0/8'], port: 1, resolvers: ['x'] } });
    const { stdout } = await people.owner.run(['nft', 'edge']);
    expect(stdout).not.toContain('flush');
    expect(stdout).not.toContain('out-server');
  });
});

describe('explain', () => {
  it("says what is admitted as the agent's way to its server, and nothing beside it is", async () => {
    await report({ server_access: access });
    const outcome = await done(ask('--from', 'edge', '--to', '100.64.0.9', '--port', '8443'));
    expect(outcome).toMatch(/^allowed by policy, but edge was last seen /);
    expect(outcome).toContain('out of edge: allowed, admitted as traffic between the agent and its server\n');
    expect(outcome).toContain('This does not include containers on edge: only the agent itself may use it.\n');
    const verdict = async (...args: readonly string[]): Promise<unknown> =>
      (await json(ask('--from', 'edge', ...args, '-o', 'json'))).sides[0].reason;
    expect(await verdict('--to', '100.64.0.53', '--proto', 'udp', '--port', '53')).toBe('server');
    expect(await verdict('--to', '100.64.0.9', '--port', '8444')).toBe('no-rule');
    expect(await verdict('--to', '100.64.0.9', '--proto', 'udp', '--port', '8443')).toBe('no-rule');
    expect(await verdict('--to', '100.64.0.10', '--port', '8443')).toBe('no-rule');
    const inbound = await json(ask('--from', '100.64.0.9', '--to', 'edge', '--port', '22', '-o', 'json'));
    expect(inbound.sides[0]).toMatchObject({ verdict: 'refused', reason: 'no-rule' });
  });

  it('says that containers are judged alike, or not at all', async () => {
    const refused = await done(ask('--from', '100.64.0.9', '--to', 'edge', '--port', '22'));
    expect(refused).toContain(
      'The same applies to a published container port on edge; the rules see the published port.\n',
    );
    await report({ containers: 'ignore' });
    const ignored = await done(ask('--from', '100.64.0.9', '--to', 'edge', '--port', '22'));
    expect(ignored).toContain('The rules do not apply to containers on edge: its agent ignores them.\n');
  });
});

describe('recently refused', () => {
  it('explain shows the last refusals between the ends with the nearest rule, to those who may read the traffic', async () => {
    await done(people.owner.run(['org', 'edit', people.place.org, '--observe', 'refused']));
    const tuple = { direction: 'in', verdict: 'refused', far: '100.64.0.9', protocol: 'tcp', port: 22, packets: 5 };
    await agent.expect(200, 'POST', path.replace(/status$/, 'flows'), {
      since: new Date(Date.now() - 60_000).toISOString(),
      until: new Date().toISOString(),
      observed: 'refused',
      tuples: [tuple, { ...tuple, far: '100.64.0.8', port: 23 }],
      not_recorded: 0,
    });
    const shown = await done(ask('100.64.0.9', 'edge', '8080'));
    expect(shown).toMatch(
      /Recently refused:\n .* edge refused tcp 22 from 100\.64\.0\.9, 5 packets: Now refused because no rule admits it\. The nearest is shut: .*8080.*\(its port is 8080, not 22\)\n$/,
    );
    expect((await people.owner.run(['explain', '--who', 'edge', '23'])).stderr).toContain('tcp 23 from 100.64.0.8');
    const { revision } = await people.place.owner.api.expect(200, 'GET', people.place.base);
    const past = ['explain', '--who', 'edge', '23', '--at-revision', String(revision)];
    expect((await people.owner.run(past)).stderr).not.toContain('tcp 23 from');
    const answer = await json(ask('100.64.0.9', 'edge', '8080', '-o', 'json'));
    expect(answer.recently_refused).toMatchObject([{ port: 22, packets: 5 }]);
    const others = await json(people.member.run(['explain', '100.64.0.9', 'edge', '8080', '-o', 'json']));
    expect(others).not.toHaveProperty('recently_refused');
    // The API says the same.
    const asked = `${people.place.base}/explain?from=100.64.0.9&to=${path.split('/').at(-2)}&port=8080`;
    const { recently_refused } = await people.place.owner.api.expect(200, 'GET', asked);
    expect(recently_refused).toEqual(answer.recently_refused);
    expect(await people.place.member.api.expect(200, 'GET', asked)).not.toHaveProperty('recently_refused');
    expect(await agent.expect(200, 'GET', asked)).not.toHaveProperty('recently_refused');
  });
});

describe('flows', () => {
  it('shows refused traffic with the nearest rule and what did not match, and only after an owner asked agents to record it', async () => {
    const empty = await done(people.owner.run(['flows', 'edge']));
    expect(empty).toContain('`ringfence org edit ORG --observe refused` or `all` asks agents to record it');
    await done(people.owner.run(['org', 'edit', people.place.org, '--observe', 'all', '--refuse-with', 'reject']));
    expect(await done(people.owner.run(['org', 'show']))).toMatch(/observe +all\n.*refuse with +reject\n/);
    // What is asked for already is not asked for again.
    expect(await done(people.owner.run(['flows', '--device', 'edge', '--port', '9']))).toBe(
      'No traffic was recorded. Agents record all traffic, and report it once a minute.\n',
    );
    const tuple = { direction: 'in', verdict: 'refused', far: '100.64.0.9', protocol: 'tcp', port: 22, packets: 5 };
    await agent.expect(200, 'POST', path.replace(/status$/, 'flows'), {
      since: new Date(Date.now() - 60_000).toISOString(),
      until: new Date().toISOString(),
      observed: 'all',
      tuples: [tuple, { ...tuple, verdict: 'admitted', port: 8080 }],
      not_recorded: 0,
    });
    const shown = await done(people.owner.run(['flows', 'edge', '--refused', '--since', '1h', '--no-headers']));
    expect(shown).toMatch(
      /edge +refused +from 100\.64\.0\.9 +tcp 22 +5 +Now refused because no rule admits it\. The nearest is shut: .*8080.*\(its port is 8080, not 22\)/,
    );
    expect(shown).not.toContain('admitted');
    const admitted = await json(people.owner.run(['flows', '--far', '100.64.0.9', '--port', '8080', '-o', 'json']));
    expect(admitted).toMatchObject([{ hostname: 'edge', decision: { rule: { group_name: 'shut' } } }]);
    expect(await json(people.member.run(['flows', '-o', 'json']))).toEqual([]);
    expect(await done(people.owner.run(['flows', 'edge', '--port', 'ssh', '--no-headers']))).toContain('tcp 22');
    expect(await people.owner.run(['flows', 'edge', '--port', 'shh'])).toMatchObject({ code: 2 });
  });

  it('propose says the rules as sentences with their evidence, and writes a policy file that makes a watch-only group', async () => {
    await done(people.owner.run(['org', 'edit', people.place.org, '--observe', 'all']));
    const admitted = { direction: 'in', verdict: 'admitted', far: '192.0.2.77', protocol: 'tcp', port: 8443 };
    await agent.expect(200, 'POST', path.replace(/status$/, 'flows'), {
      since: new Date(Date.now() - 60_000).toISOString(),
      until: new Date().toISOString(),
      observed: 'all',
      tuples: [
        { ...admitted, packets: 1 },
        { ...admitted, protocol: '47', port: undefined, packets: 2 },
      ],
      not_recorded: 0,
    });
    const file = `${await people.owner.file('draft', '')} it's.yaml`;
    const shown = await done(people.owner.run(['propose', 'edge', '--since', '1h', '--out', file]));
    expect(shown).toMatch(
      /^Allow inbound tcp 8443 from 192\.0\.2\.77\n    Seen: 1 packet on 1 device, with 1 far address, last .*\n    Check: 1 address of no device, each seen/m,
    );
    expect(shown).toMatch(
      /\n\nThere are no outbound rules: everything may go out\.\nThe group would refuse 2 of 3 adm/,
    );
    expect(shown).toContain(
      '    edge in protocol 47 from 192.0.2.77, 2 packets: no rule admits only this protocol or port\n',
    );
    expect(shown).toMatch(/: Admitted traffic was observed for .* \(\d+ %.*\)\./);
    expect(shown).toContain(`then: ringfence apply '${file.replace("'", `'\\''`)}'\n`);
    expect(await people.owner.run(['propose', 'edge', '--out', file])).toMatchObject({ code: 5 });
    expect(await people.owner.run(['propose', 'edge', 'label:db'])).toMatchObject({ code: 2 });
    expect(await people.member.run(['propose', 'edge'])).toMatchObject({ code: 4 });
    const empty = await people.owner.run(['propose', 'label:nothing', '--out', `${file}.2`]);
    expect(empty).toMatchObject({ code: 1, stdout: expect.stringContaining('No device carries these labels.') });

    await done(people.owner.run(['apply', file, '--yes']));
    const made = await json(people.owner.run(['group', 'show', 'proposed: edge', '-o', 'json']));
    expect(made).toMatchObject({ mode: 'observe', inbound_rules: [{ from_port: 8443 }] });
    const { security_groups } = await json(people.owner.run(['device', 'show', 'edge', '-o', 'json']));
    expect(security_groups).toHaveLength(2);
    expect(security_groups).toContain(made.id);
    const would = await done(people.owner.run(['group', 'observation', 'proposed: edge']));
    expect(would).toContain('The group would have refused 0 of 3 admitted packets');
  });

  it('propose names what the far end refused, and proposes it only when asked', async () => {
    await done(people.owner.run(['org', 'edit', people.place.org, '--observe', 'all']));
    const { base, owner } = people.place;
    const device = { public_key: 'far', hostname: 'far', tunnel_ip: '100.64.0.2' };
    const far = await owner.api.expect(201, 'POST', `${base}/devices`, device);
    const times = { since: new Date(Date.now() - 60_000).toISOString(), until: new Date().toISOString() };
    const send = (who: typeof agent, to: string, tuple: object): Promise<unknown> =>
      who.expect(200, 'POST', to, {
        ...times,
        observed: 'all',
        tuples: [{ protocol: 'tcp', port: 5432, packets: 4, ...tuple }],
        not_recorded: 0,
      });
    const flows = path.replace(/status$/, 'flows');
    await send(agent, flows, { direction: 'out', verdict: 'admitted', far: '100.64.0.2' });
    const farAgent = people.server.nobody.as(far.device_token);
    await send(farAgent, `${base}/devices/${far.id}/flows`, { direction: 'in', verdict: 'refused', far: '100.64.0.1' });
    const shown = await done(people.owner.run(['propose', 'edge']));
    expect(shown).toContain('The far end refused 1 connection, which gets no rule');
    expect(shown).toContain('    edge out tcp 5432 to 100.64.0.2, 4 packets\n');
    expect(shown).not.toContain('Allow');
    const asked = await done(people.owner.run(['propose', 'edge', '--include-refused']));
    expect(asked).toMatch(
      /^Allow outbound tcp 5432 to device:far\n.*\n    Check: The far end refused 4 of these packets$/m,
    );
    expect(asked).not.toContain('gets no rule');
  });

  it('follows: earlier traffic, then each new sum once as a line of JSON, and Ctrl-C is the way to end it', async () => {
    await done(people.owner.run(['org', 'edit', people.place.org, '--observe', 'refused']));
    const send = async (port: number, now = Date.now()): Promise<void> => {
      const tuple = { direction: 'in', verdict: 'refused', far: '100.64.0.9', protocol: 'tcp', port, packets: 5 };
      const times = { since: new Date(now - 60_000).toISOString(), until: new Date(now).toISOString() };
      const body = { ...times, observed: 'refused', tuples: [tuple], not_recorded: 0 };
      await agent.expect(200, 'POST', path.replace(/status$/, 'flows'), body);
    };
    await send(23, Date.now() - 30_000);
    await send(22);
    const following = people.owner.run(['flows', 'edge', '--follow', '-o', 'json'], {
      shown: { pattern: /"port":22/, act: () => void send(24) },
      until: { pattern: /"port":24[^]*\n/, signal: 'SIGINT' },
    });
    const { code, stdout } = await following;
    expect(code).toBe(0);
    const lines = stdout.trimEnd().split('\n');
    expect(lines.map((line) => JSON.parse(line).port)).toEqual([23, 22, 24]);
  });
});
