/** Proves that members of maps change the same way over netlink and through nft, also where the helper is not there or is lost. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Namespace } from '../../../test/lib/netns.ts';
import { systemClock } from '../../client/clock.ts';
import type { Command } from '../../nft/ast.ts';
import { parseObjectName } from '../../nft/names.ts';
import { NetlinkChannel } from '../netlink/channel.ts';
import { RealNft } from './real-nft.ts';

const [map, inA, inB] = ['peers4', 'in-a', 'in-b'].map((name) => parseObjectName(name));
if (map === undefined || inA === undefined || inB === undefined) throw new Error('no names');
const add = (...elements: (readonly [bigint, typeof inA])[]): Command => ({
  kind: 'addElements',
  map,
  family: 4,
  elements,
});
const remove = (...addresses: bigint[]): Command => ({ kind: 'deleteElements', map, family: 4, addresses });
const [first, second, third] = [0x6440_0001n, 0x6440_0002n, 0x6440_0003n];

describe.each(['over netlink', 'through nft alone', 'without a helper'] as const)('members of a map, %s', (way) => {
  let namespace: Namespace;
  let folder: string;
  let channel: NetlinkChannel | undefined;
  let nft: RealNft;
  beforeEach(async () => {
    namespace = await Namespace.create();
    folder = await mkdtemp(join(tmpdir(), 'ringfence-elements-'));
    const prefix = namespace.inside([]);
    const helper = way === 'over netlink' ? {} : { argv: ['no-such-helper'] };
    channel = way === 'through nft alone' ? undefined : new NetlinkChannel({ clock: systemClock, prefix, ...helper });
    nft = new RealNft({ clock: systemClock, scratch: folder, prefix, ...(channel && { netlink: channel }) });
    const ruleset = `table inet service { counter in-a { }; counter in-b { }; map peers4 { type ipv4_addr : counter; }; }`;
    await namespace.run(['nft', '-f', '-'], `${ruleset.replaceAll('; ', '\n')}\n`);
  });
  afterEach(async () => {
    await Promise.all([nft.close(), channel?.close()]);
    await namespace.close();
    await rm(folder, { recursive: true, force: true });
  });
  const held = async (): Promise<string> => {
    const { stdout } = await namespace.run(['nft', 'list', 'map', 'inet', 'service', 'peers4']);
    return /elements = \{([^}]*)\}/.exec(stdout)?.[1]?.replaceAll(/\s+/g, ' ').trim() ?? '';
  };

  test('join and leave, each batch whole or not at all, and the port knows its own changes', async () => {
    await nft.run([add([first, inA], [second, inB])]);
    expect(await held()).toBe('100.64.0.1 : "in-a", 100.64.0.2 : "in-b"');
    await nft.run([add([third, inA]), remove(first)]);
    expect(await held()).toBe('100.64.0.2 : "in-b", 100.64.0.3 : "in-a"');
    await expect(nft.run([add([first, inA]), remove(first, 0x6440_0009n)])).rejects.toMatchObject({ code: 'refused' });
    expect(await held()).toBe('100.64.0.2 : "in-b", 100.64.0.3 : "in-a"');
    if (way !== 'over netlink') return;
    const helper = channel?.pid ?? 0;
    expect(nft.owns(helper)).toBe(true);
    process.kill(helper, 'SIGKILL');
    await nft.run([remove(second)]);
    expect(await held()).toBe('100.64.0.3 : "in-a"');
  });
});
