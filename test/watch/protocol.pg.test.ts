/** Runs every example of docs/watch-protocol.md: compares what curl prints with what the page says, and what the follower holds with the database. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { mortal } from '../lib/mortal.ts';
import { watching } from '../lib/watching.ts';

const page = readFileSync(new URL('../../docs/watch-protocol.md', import.meta.url), 'utf8');
const world = watching();

interface Example {
  readonly command: string;
  readonly lines: readonly string[];
}

/** A shell block followed by a text block is an example with its output. */
const examples: readonly Example[] = [...page.matchAll(/```sh\n([^`]*)```\n\n```text\n([^`]*)```/g)].map(
  ([, command = '', text = '']) => ({ command, lines: text.trimEnd().split('\n') }),
);

/** `…` matches any text. */
const pattern = (line: string): RegExp =>
  new RegExp(`^${line.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replaceAll('…', '.*')}$`);

/** A command under way, and the lines that it has printed. */
class Running {
  readonly #child: ChildProcess;
  readonly ended: Promise<void>;
  #out = '';
  #err = '';
  over = false;

  constructor(command: string, env: NodeJS.ProcessEnv) {
    const child = spawn(...mortal('bash', ['-c', `exec ${command}`]), { env: { ...process.env, ...env } });
    child.stdout.on('data', (chunk: Buffer) => (this.#out += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (this.#err += chunk.toString()));
    this.ended = once(child, 'close').then(() => void (this.over = true));
    this.#child = child;
  }

  get lines(): readonly string[] {
    if (this.#err !== '') throw new Error(this.#err);
    return this.#out.split('\n').filter((line) => line !== '');
  }

  async until(what: string, so: () => boolean): Promise<void> {
    for (const end = Date.now() + 60_000; !so(); await sleep(10)) {
      if (Date.now() > end) throw new Error(`waited for ${what} in vain; printed: ${this.lines.join('\n')}`);
    }
  }

  async stop(): Promise<void> {
    this.#child.kill();
    await this.ended;
  }
}

test('the examples of the protocol page print what the page says, and nothing more (reference 4.3)', async () => {
  const place = await world.place();
  const gate = await world.newDevice(place, { hostname: 'gate' });
  await world.newDevice(place, { hostname: 'shop' });
  const old = await world.newDevice(place, { hostname: 'old' });
  await world.remove(place, old.id);
  expect(gate.revision).toBe(2);
  const env = {
    RINGFENCE_SERVER: world.server.url,
    RINGFENCE_TOKEN: place.member.token,
    RINGFENCE_ORG: place.org,
  };
  expect(examples.length).toBeGreaterThanOrEqual(4);
  const running = examples.map((example) => ({ ...example, run: new Running(example.command, env) }));
  for (const { run, lines } of running) {
    await run.until(`${lines.length} lines`, () => run.lines.length >= lines.length || run.over);
  }
  // What comes next on every stream is this change: whatever was printed too much has come before it.
  await world.newDevice(place, { hostname: 'the mark' });
  for (const { run, lines } of running) {
    await run.until('the mark', () => run.over || run.lines.some((line) => line.includes('the mark')));
    const printed = run.lines.filter((line) => !line.includes('the mark'));
    expect(printed).toHaveLength(lines.length);
    for (const [index, line] of lines.entries()) expect(printed[index]).toMatch(pattern(line));
    await run.stop();
  }
});

/** The connection around the page's bookkeeping: one stream for each line of input, until the device of this name is there. */
const following = `
import json, os, sys, urllib.error, urllib.request

def follow(until):
    body = json.dumps(request())
    url = os.environ["RINGFENCE_SERVER"] + "/api/organizations/" + os.environ["RINGFENCE_ORG"] + "/events"
    headers = {"Authorization": "Bearer " + os.environ["RINGFENCE_TOKEN"], "Content-Type": "application/json", "Prefer": "history-tokens"}
    def shown():
        return {"asked": json.loads(body), "held": {name: {id: value["revision"] for id, value in kind.held.items()} for name, kind in kinds.items()}}
    try:
        stream = urllib.request.urlopen(urllib.request.Request(url, body.encode(), headers))
    except urllib.error.HTTPError as error:
        if error.code != 410:
            raise
        on_410()
        print(json.dumps({"gone": True, **shown()}), flush=True)
        return follow(until)
    with stream:
        for line in stream:
            if line.strip():
                on_line(json.loads(line))
            if all(kind.tail_seen for kind in kinds.values()) and until in [held["hostname"] for held in kinds["device"].held.values()]:
                print(json.dumps(shown()), flush=True)
                return
    raise RuntimeError("the stream has ended")

for line in sys.stdin:
    command = json.loads(line)
    if "after" in command:
        kinds["device"].after, kinds["device"].token = command["after"], None
    follow(command["until"])
`;

test('the follower of the protocol page holds what the database holds, after a resume and after a 410 too (reference 4.3)', async () => {
  const [, follower] = /```python\n([^]*?)```/.exec(page) ?? [];
  if (follower === undefined) throw new Error('the page has no follower');
  const place = await world.place();
  const [gate, shop] = [
    await world.newDevice(place, { hostname: 'gate' }),
    await world.newDevice(place, { hostname: 'shop' }),
  ];
  const child = spawn(...mortal('python3', ['-c', `${follower}\n${following}`]), {
    env: {
      ...process.env,
      RINGFENCE_SERVER: world.server.url,
      RINGFENCE_TOKEN: place.owner.token,
      RINGFENCE_ORG: place.org,
    },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let complaint = '';
  child.stderr.on('data', (chunk: Buffer) => (complaint += chunk.toString()));
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  const next = async () => {
    const { value, done } = await lines.next();
    if (done === true) throw new Error(`the follower ended: ${complaint}`);
    return JSON.parse(value) as Readonly<Record<string, unknown>>;
  };
  const follow = (command: object): Promise<Readonly<Record<string, unknown>>> => {
    child.stdin.write(`${JSON.stringify(command)}\n`);
    return next();
  };
  const revisions = async (path: string): Promise<Readonly<Record<string, number>>> => {
    const all: readonly { id: string; revision: number }[] = await place.owner.api.expect(200, 'GET', path);
    return Object.fromEntries(all.map(({ id, revision }) => [id, revision]));
  };
  const stored = async () => ({
    'security-groups': await revisions(`${place.base}/security_groups`),
    device: await revisions(`${place.base}/devices`),
  });
  const fresh = [{ kind: 'security-groups' }, { kind: 'device' }];
  try {
    expect(await follow({ until: 'shop' })).toEqual({ asked: fresh, held: await stored() });

    await world.remove(place, gate.id);
    await world.newDevice(place, { hostname: 'second' });
    const before = await follow({ until: 'second' });
    expect(before).toEqual({
      asked: fresh.map(({ kind }) => ({ kind, gt_revision: expect.any(Number), token: expect.any(String) })),
      held: await stored(),
    });

    // The organization has no such revision, as after a restored backup.
    await world.remove(place, shop.id);
    await world.newDevice(place, { hostname: 'third' });
    const gone = await follow({ until: 'third', after: 1_000_000 });
    expect(gone).toMatchObject({ gone: true, held: before['held'] });
    expect(await next()).toEqual({ asked: fresh, held: await stored() });
  } finally {
    child.kill();
    await once(child, 'close');
  }
});
