/** Proves what a person reads on a real terminal after a mistake: one line that names the mistake and what to type instead. */
import { expect, it } from 'vitest';
import { freePort } from '../lib/free-port.ts';
import { done, usePeople } from './people.fixture.ts';

const people = usePeople();

interface Mistake {
  readonly typed: readonly string[];
  readonly code: number;
  readonly said: string;
}

it('typos, a wrong scheme and a server that is down are each one line that helps', async () => {
  const { owner, server } = people;
  await done(owner.run(['group', 'create', 'web', '--in', 'https']));
  const before = await done(owner.run(['group', 'show', 'web', '-o', 'json']));
  const { host } = new URL(server.url);
  const nowhere = `http://127.0.0.1:${await freePort()}`;
  const typo = (typed: readonly string[], said: string): Mistake => ({ typed, code: 2, said });
  const mistakes: readonly Mistake[] = [
    typo(
      ['group', 'create', 'app', '--in', 'ssh form label:app'],
      '`form` is not understood; did you mean `from`: `ssh from label:app`?',
    ),
    typo(
      ['group', 'allow', 'web', 'in', 'ssh', 'form', 'label:app'],
      '`form` is not understood; did you mean `from`: `ssh from label:app`?',
    ),
    typo(
      ['group', 'allow', 'web', 'in', 'ssh', 'from', 'lable:app'],
      '`lable:app` is not an address; did you mean `label:app`?',
    ),
    typo(
      ['group', 'allow', 'web', 'in', 'postgress'],
      '`postgress` is not a protocol (did you mean `postgres`?); known: tcp, udp, icmp, icmpv4, icmpv6, ipv4, ipv6, ip, or a service like ssh',
    ),
    typo(['group', 'revert', '--help'], "unknown command 'revert' (Did you mean restore?)"),
    typo(['group', 'revert', 'web'], "unknown command 'revert' (Did you mean restore?)"),
    typo(['group', 'deny', 'web', 'in', 'ssh'], "unknown command 'deny' (Did you mean revoke?)"),
    typo(['label', 'add', 'db', 'web-1'], "unknown command 'add' (Did you mean device label add?)"),
    {
      typed: ['group', 'list', '--server', `https://${host}`],
      code: 1,
      said: `cannot reach https://${host}: the server speaks HTTP, not HTTPS; use http://${host}`,
    },
    {
      typed: ['group', 'list', '--server', nowhere],
      code: 1,
      said: `cannot reach ${nowhere}: connection refused (ECONNREFUSED); is the server running?`,
    },
  ];
  const seen = await Promise.all(
    mistakes.map(async ({ typed }) => {
      const { code, stdout } = await owner.inTerminal([...typed, '--no-color']);
      return { typed, code, stdout };
    }),
  );
  expect(seen).toEqual(mistakes.map(({ typed, code, said }) => ({ typed, code, stdout: `ringfence: ${said}\n` })));
  expect(await done(owner.run(['group', 'show', 'web', '-o', 'json']))).toBe(before);
});

it('a person whom the server does not know, and cannot invite, can still be added: the answer says how', async () => {
  const { owner } = people;
  const { code, stderr } = await owner.run(['member', 'add', 'kim@example.org']);
  expect({ code, stderr }).toEqual({
    code: 3,
    stderr: [
      'ringfence: user kim@example.org does not exist, and this server has no identity provider at which an invited person could sign in',
      '  An administrator can create the user, and a token for the person:',
      '    ringfence user create kim@example.org',
      '    ringfence token create first --user kim@example.org',
      '',
    ].join('\n'),
  });
});

it('a change that changes nothing says so, for an organization and a device as for a group', async () => {
  const { owner } = people;
  await done(owner.run(['device', 'create', 'same', '--public-key', 'same', '--label', 'app']));
  for (const words of [
    ['device', 'edit', 'same', '--label', 'app'],
    ['org', 'edit', '--observe', 'refused'],
  ]) {
    const first = await done(owner.run(words));
    const second = await done(owner.run(words));
    expect({ words, second }).toEqual({ words, second: 'Nothing to change: already up to date.\n' });
    expect(first).toContain(words[0] === 'org' ? 'Changed organization' : 'Nothing to change');
  }
});
