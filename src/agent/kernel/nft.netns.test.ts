/** Proves that the real packet filter keeps the promises of the port, and goes on when nft is taken from under it. */
import { mkdtemp, readdir, readFile, readlink, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Namespace } from '../../../test/lib/netns.ts';
import { signalIfRunning } from '../../../test/lib/processes.ts';
import { systemClock, type Clock } from '../../client/clock.ts';
import type { Command } from '../../nft/ast.ts';
import { parseObjectName } from '../../nft/names.ts';
import { NetlinkChannel } from '../netlink/channel.ts';
import { NftError } from './nft.ts';
import { nftContract } from './nft-contract.fixture.ts';
import { RealNft, type RealNftOptions } from './real-nft.ts';

async function openInNamespace(options: Partial<RealNftOptions> = {}) {
  const namespace = await Namespace.create();
  const scratch = await mkdtemp(join(tmpdir(), 'ringfence-nft-'));
  const nft = new RealNft({ clock: systemClock, scratch, prefix: namespace.inside([]), ...options });
  const close = async (): Promise<void> => {
    await nft.close().catch(() => {});
    await namespace.close();
    await rm(scratch, { recursive: true, force: true });
  };
  return { nft, namespace, scratch, close };
}

nftContract('the real packet filter', () => openInNamespace());
nftContract('the real packet filter with a netlink helper that runs', async () => {
  const namespace = await Namespace.create();
  const scratch = await mkdtemp(join(tmpdir(), 'ringfence-nft-'));
  const prefix = namespace.inside([]);
  const netlink = new NetlinkChannel({ clock: systemClock, prefix });
  const listTables = { type: (10 << 8) | 1, payload: Uint8Array.of(1, 0, 0, 0) };
  await netlink.dump(12, listTables, () => {});
  const nft = new RealNft({ clock: systemClock, scratch, prefix, netlink });
  const close = async (): Promise<void> => {
    await Promise.all([nft.close(), netlink.close()]);
    await namespace.close();
    await rm(scratch, { recursive: true, force: true });
  };
  return { nft, close };
});
nftContract('the real packet filter with an nft that is replaced all the time', () =>
  openInNamespace({ lifetime: 2, heavy: 400 }),
);

const table = [{ kind: 'addTable' }] as const;
const removal = [{ kind: 'addTable' }, { kind: 'deleteTable' }] as const;
/** A batch too long for a line. */
const large: readonly Command[] = [
  ...table,
  ...Array.from({ length: 200 }, (_, i) => ({ kind: 'addChain' as const, name: parseObjectName(`from-${i}`) })),
];

/** The process ids of every nft inside the namespace. */
async function nftProcesses(namespace: Namespace): Promise<number[]> {
  const own = await readlink(`/proc/${namespace.pid}/ns/net`);
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(
    pids.map(async (pid) => {
      try {
        const [net, name] = await Promise.all([readlink(`/proc/${pid}/ns/net`), readFile(`/proc/${pid}/comm`, 'utf8')]);
        return net === own && name === 'nft\n' ? Number(pid) : undefined;
      } catch {
        return undefined; // It ended meanwhile.
      }
    }),
  );
  return found.filter((pid) => pid !== undefined);
}

test('an nft that took a large batch ends, because it would keep the memory, and is known as ours afterwards', async () => {
  const { nft, namespace, close } = await openInNamespace({ heavy: 1_000 });
  try {
    await nft.run(table);
    const before = await nftProcesses(namespace);
    expect(before).toHaveLength(1);
    await nft.run(large);
    expect(await nftProcesses(namespace)).toEqual([]);
    await nft.run(removal);
    expect(await nftProcesses(namespace)).toHaveLength(1);
    expect(before.map((pid) => nft.owns(pid))).toEqual([true]);
  } finally {
    await close();
  }
});

test('an nft that has listed many recorded tuples ends too, and the next listing asks another', async () => {
  const { nft, namespace, close } = await openInNamespace();
  try {
    const elements = Array.from({ length: 2_000 }, (_, i) => `10.0.${i >> 8}.${i & 255} . tcp . ${i}`).join(', ');
    const set = `set seen { type ipv4_addr . inet_proto . inet_service; elements = { ${elements} }; };`;
    await namespace.run(['nft', '-f', '-'], `table inet service { ${set} }\n`);
    for (const _ of [1, 2]) {
      expect(await nft.listSet('service', parseObjectName('seen'))).toHaveLength(2_000);
      expect(await nftProcesses(namespace)).toEqual([]);
    }
  } finally {
    await close();
  }
});

describe('the real packet filter', () => {
  let opened: Awaited<ReturnType<typeof openInNamespace>>;
  beforeEach(async () => {
    opened = await openInNamespace();
  });
  afterEach(() => opened.close());

  /** Another way to nft inside the same namespace. */
  const another = (options: Partial<RealNftOptions>): RealNft =>
    new RealNft({
      clock: systemClock,
      scratch: opened.scratch,
      prefix: opened.namespace.inside([]),
      ...options,
    });

  test('uses one nft for all calls, knows it as its own, and leaves none behind', async () => {
    const { nft, namespace, scratch } = opened;
    await nft.run(table);
    const [pid, ...others] = await nftProcesses(namespace);
    expect(others).toEqual([]);
    expect(nft.owns(pid ?? 0)).toBe(true);
    expect(nft.owns(process.pid)).toBe(false);
    await nft.run(large);
    await nft.list();
    expect(await nftProcesses(namespace)).toEqual([pid]);
    await nft.close();
    expect(await nftProcesses(namespace)).toEqual([]);
    expect(await readdir(scratch)).toEqual([]);
  });

  test('starts nft again after it was killed', async () => {
    const { nft, namespace } = opened;
    for (let i = 0; i < 5; i++) {
      await nft.run(table);
      for (const pid of await nftProcesses(namespace)) signalIfRunning(pid, 'SIGKILL');
      // The call that meets the end of nft may fail; the one after it works.
      await nft.run(table).catch((error: unknown) => expect(error).toMatchObject({ code: 'interrupted' }));
      await nft.run(table);
      expect(await nft.list()).toBeDefined();
    }
  });

  test('killed in the middle of a batch, nft has done all of it or nothing', async () => {
    const { nft, namespace } = opened;
    const outcomes = new Set<string>();
    // Which moment meets the middle is for the machine to say: on until one did.
    for (let i = 0; i < 40 || (i < 1_000 && !outcomes.has('interrupted')); i++) {
      await nft.run(removal);
      const pids = await nftProcesses(namespace);
      const running = nft.run(large).then(
        () => 'done',
        (error: unknown) => (error instanceof NftError ? error.code : String(error)),
      );
      await new Promise((resolve) => setTimeout(resolve, (i % 8) / 2));
      for (const pid of pids) signalIfRunning(pid, 'SIGKILL');
      const outcome = await running;
      outcomes.add(outcome);
      expect(['done', 'interrupted']).toContain(outcome);
      // The killed process was the only one that could answer, so the first listing may meet its end, too.
      const chains = (await nft.list().catch(() => nft.list()))?.chains.size ?? 0;
      expect(outcome === 'done' ? [200] : [0, 200]).toContain(chains);
    }
    expect(outcomes).toContain('interrupted');
  });

  test('says when there is no nft', async () => {
    const nft = another({ program: 'no-such-nft' });
    await expect(nft.run(table)).rejects.toMatchObject({ code: 'missing' });
    await expect(nft.list()).rejects.toMatchObject({ code: 'missing' });
    await nft.close();
  });

  test('says when the right to change the filter is missing', async () => {
    const { namespace } = opened;
    const nft = another({ prefix: namespace.inside(['setpriv', '--reuid=65534', '--bounding-set=-all']) });
    await expect(nft.run(table)).rejects.toMatchObject({ code: 'not_permitted' });
    await expect(nft.list()).rejects.toMatchObject({ code: 'not_permitted' });
    await nft.close();
    expect(await opened.nft.list()).toBeUndefined();
  });

  test('says when a large batch cannot be written down, and still takes small ones', async () => {
    const nft = another({ scratch: '/proc/no-such-directory' });
    await expect(nft.run(large)).rejects.toMatchObject({ code: 'no_scratch' });
    expect(await nft.list()).toBeUndefined();
    await nft.run(table);
    expect(await nft.list()).toBeDefined();
    await nft.close();
  });

  test('gives up on an nft that does not answer, and ends it', async () => {
    const { namespace } = opened;
    const nft = another({ prefix: namespace.inside(['sh', '-c', 'exec sleep 1000', 'sh']), timeout: 200 });
    await expect(nft.run(table)).rejects.toMatchObject({ code: 'timed_out' });
    await nft.close();
    const { stdout } = await namespace.attempt(['pgrep', '--ns', String(namespace.pid), '--nslist', 'net', 'sleep']);
    expect(stdout).toBe('');
  });

  test('waits the longer the larger a batch is, says how large it was, and waits longer the next time', async () => {
    const { namespace } = opened;
    const waits: number[] = [];
    // Time is up at once, however long it was to be.
    const clock: Clock = {
      ...systemClock,
      after: (milliseconds, call) => {
        waits.push(milliseconds);
        return systemClock.after(1, call);
      },
    };
    const nft = another({ clock, prefix: namespace.inside(['sh', '-c', 'exec sleep 1000', 'sh']) });
    const chains = Array.from({ length: 40_000 }, (_, i) => ({
      kind: 'addChain' as const,
      name: parseObjectName(`from-${i}`),
    }));
    await expect(nft.run(chains)).rejects.toMatchObject({
      code: 'timed_out',
      message: expect.stringMatching(/did not answer within \d+ s about a batch of 1\d\d\d kB/) as string,
    });
    await expect(nft.run(chains)).rejects.toMatchObject({ code: 'timed_out' });
    const [once = 0, twice] = waits.filter((milliseconds) => milliseconds > 60_000);
    expect(once).toBeGreaterThan(75_000);
    expect(twice).toBe(once * 2);
    await nft.close();
  });

  test('lists its own table only, and sees what others put into it', async () => {
    const { nft, namespace } = opened;
    await namespace.run(['nft', 'add table inet other; add chain inet other from-x']);
    expect(await nft.list()).toBeUndefined();
    await nft.run(table);
    await namespace.run(['nft', 'add chain inet service strange; add rule inet service strange counter drop']);
    const chain = (await nft.list())?.chains.get('strange');
    expect(chain?.rules.map(({ kind }) => kind)).toEqual(['foreign']);
  });
});
