/** Proves that a withdrawn rule also ends the connections that it had admitted, and no others. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { connect, Namespace } from '../../../test/lib/netns.ts';
import { Talker } from '../../../test/lib/talker.ts';
import { systemClock } from '../../client/clock.ts';
import { parseInterfaceName } from '../../nft/names.ts';
import { policyOf, written } from '../../nft/policies.fixture.ts';
import type { CanonicalPolicy } from '../../policy/canonical.ts';
import { Enforcer } from '../kernel/enforcer.ts';
import { parseFlows } from './flows.ts';
import { RealNft } from '../kernel/real-nft.ts';
import { revokeFlows, type Revoked } from './revoke-flows.ts';
import { commandRunner } from './run-command.ts';

const both = policyOf([written('tcp', 2_200, 2_200), written('tcp', 8_000, 8_000), written('icmp', 0, 0)]);
const web = policyOf([written('tcp', 8_000, 8_000)]);
const webOutToo = policyOf([written('tcp', 8_000, 8_000)], [written('tcp', 8_000, 8_000)]);

/** Long enough for dozens of packets and several retransmissions. */
const aWhile = 1_500;

describe('a withdrawn rule', () => {
  let device: Namespace;
  let peer: Namespace;
  let scratch: string;
  let nft: RealNft;
  let enforcer: Enforcer;
  beforeEach(async () => {
    [device, peer] = await Promise.all([Namespace.create(), Namespace.create()]);
    await connect(
      { namespace: device, name: 'rf0', addresses: ['100.64.0.1/24', 'fd7f::1/64'] },
      { namespace: peer, name: 'rf0', addresses: ['100.64.0.2/24', 'fd7f::2/64'] },
    );
    await connect(
      { namespace: device, name: 'other', addresses: ['10.9.0.1/24'] },
      { namespace: peer, name: 'other', addresses: ['10.9.0.2/24'] },
    );
    scratch = await mkdtemp(join(tmpdir(), 'ringfence-revoke-'));
    nft = new RealNft({ clock: systemClock, scratch, prefix: device.inside([]) });
    enforcer = new Enforcer({ nft, random: Math.random });
    await put(both);
  });
  afterEach(async () => {
    await nft.close();
    await Promise.all([device.close(), peer.close()]);
    await rm(scratch, { recursive: true, force: true });
  });

  const put = (policy: CanonicalPolicy) =>
    enforcer.apply({ policy, interface: parseInterfaceName('rf0'), neighbourDiscovery: true });
  const revoke = (before: CanonicalPolicy, after: CanonicalPolicy): Promise<Revoked> =>
    revokeFlows(commandRunner(device.inside([])), { interface: 'rf0', before, after });
  const tracked = async (): Promise<number[]> => {
    const { stdout } = await device.run(['conntrack', '-L']);
    return parseFlows(stdout)
      .filter(({ protocol }) => protocol === 6)
      .map(({ reply }) => reply.sport)
      .toSorted((a, b) => a - b);
  };

  test('ends inbound connections that it had admitted, of both families, and they do not come back', async () => {
    await Talker.serve(device, 2_200, 8_000);
    const revoked = [await Talker.call(peer, '100.64.0.1', 2_200), await Talker.call(peer, 'fd7f::1', 2_200)];
    const admitted = [await Talker.call(peer, '100.64.0.1', 8_000), await Talker.call(peer, 'fd7f::1', 8_000)];
    const elsewhere = await Talker.call(peer, '10.9.0.1', 2_200);
    await put(web);
    for (const talker of revoked) expect(await talker.isHeard()).toBe(true);

    expect(await revoke(both, web)).toEqual({ count: 2 });

    await new Promise((resolve) => setTimeout(resolve, aWhile));
    for (const talker of revoked) expect(await talker.isHeard(aWhile)).toBe(false);
    for (const talker of [...admitted, elsewhere]) expect(await talker.isHeard()).toBe(true);
    // What is left on the port is the connection over the other interface.
    expect(await tracked()).toEqual([2_200, 8_000, 8_000]);
    expect(await revoke(both, web)).toEqual({ count: 0 });
  });

  test('ends outbound connections once outbound is closed to them', async () => {
    await Talker.serve(peer, 2_200, 8_000);
    const revoked = [await Talker.call(device, '100.64.0.2', 2_200), await Talker.call(device, 'fd7f::2', 2_200)];
    const admitted = await Talker.call(device, '100.64.0.2', 8_000);
    const elsewhere = await Talker.call(device, '10.9.0.2', 2_200);
    await put(webOutToo);
    expect(await revoke(both, webOutToo)).toEqual({ count: 2 });
    for (const talker of revoked) {
      await talker.next((line) => line.startsWith('closed'), 0);
      expect(await talker.isHeard(aWhile)).toBe(false);
    }
    for (const talker of [admitted, elsewhere]) expect(await talker.isHeard()).toBe(true);
  });

  test('ends a connection between link-local addresses of the interface', async () => {
    const { stdout } = await device.run(['ip', '-j', '-6', 'address', 'show', 'dev', 'rf0', 'scope', 'link']);
    const [, address] = /"local":"(fe80[^"]+)"/.exec(stdout) ?? [];
    await Talker.serve(device, 2_200);
    const talker = await Talker.call(peer, `${address}%rf0`, 2_200);
    await put(web);
    expect(await revoke(both, web)).toEqual({ count: 1 });
    await new Promise((resolve) => setTimeout(resolve, aWhile));
    expect(await talker.isHeard(aWhile)).toBe(false);
  });

  test('has nothing to end where there is no connection', async () => {
    await put(web);
    expect(await revoke(both, web)).toEqual({ count: 0 });
  });

  test('that cannot be followed up says why, and is in force all the same', async () => {
    await Talker.serve(device, 2_200);
    await Talker.call(peer, '100.64.0.1', 2_200);
    await put(web);
    const run = commandRunner(device.inside([]));
    const without = (missing: string) => (argv: readonly string[], input?: string) =>
      run(argv[0] === missing ? [`no-such-${missing}`, ...argv.slice(1)] : argv, input);
    const revocation = { interface: 'rf0', before: both, after: web };
    await expect(revokeFlows(without('conntrack'), revocation)).rejects.toMatchObject({ code: 'cannot_run' });
    expect(await revokeFlows(without('ss'), revocation)).toMatchObject({
      count: 1,
      trouble: expect.stringContaining('ss'),
    });
  });
});
