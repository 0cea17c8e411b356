/** Proves in which order connections are ended, while others are still being listed. */
import { describe, expect, test } from 'vitest';
import { policyOf, written } from '../../nft/policies.fixture.ts';
import type { FlowTable } from './flow-table.ts';
import { parseFlows, type Flow } from './flows.ts';
import { rememberingAddresses } from './remembered-addresses.ts';
import { revokeFlows, type Blocked, type EndingFlow } from './revoke-flows.ts';
import type { RouteTable } from './route-table.ts';

const line = (from: string, port: number): string =>
  `tcp 6 299 ESTABLISHED src=${from} dst=100.64.0.1 sport=${port} dport=22 src=100.64.0.1 dst=${from} sport=22 dport=${port} mark=0`;
const flows = (...lines: readonly string[]): readonly Flow[] => parseFlows(lines.join('\n'));
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

const revocation = {
  interface: 'rf0',
  before: [policyOf([written('tcp', 22, 22)])],
  after: policyOf([written('tcp', 22, 22, '100.64.0.9')]),
};

const fixedAddresses: Pick<RouteTable, 'readLocal'> = {
  readLocal: async () => ({
    addresses: new Map([
      ['100.64.0.1', true],
      ['10.9.0.1', false],
    ]),
    interface: { name: 'rf0', index: 7 },
  }),
};

/** A fake kernel that lists these parts, one per turn of the event loop, and records the calls. */
function world(
  parts: readonly (readonly Flow[])[],
  fault?: { readonly at: 'block' | 'forget' | 'list' },
  routes: Pick<RouteTable, 'readLocal'> = fixedAddresses,
) {
  const told: string[] = [];
  const fail = (at: string): void => {
    if (fault?.at === at) throw new Error(`cannot ${at}`);
  };
  const ports = (all: readonly Flow[]): string => all.map(({ original }) => original.sport).join(' ');
  const block = async (local: readonly EndingFlow[]): Promise<Blocked> => {
    const elsewhere = local.filter(({ isElsewhere }) => isElsewhere === true).map(({ flow }) => flow);
    const all = local.map(({ flow }) => flow);
    told.push(`block ${ports(all)}${elsewhere.length === 0 ? '' : `, elsewhere ${ports(elsewhere)}`}`);
    fail('block');
    const toForget = all.filter(({ original }) => original.sport > 90);
    return { count: all.length - elsewhere.length, toForget, beyond: 0 };
  };
  const table: FlowTable = {
    listSockets: () => Promise.resolve(),
    async list(_, visit) {
      for (const part of parts) {
        told.push('listed');
        visit(part);
        await turn();
      }
      fail('list');
      told.push('all listed');
    },
    async forget(all) {
      told.push(`forget ${ports(all)}`);
      fail('forget');
    },
  };
  return { told, revoke: () => revokeFlows({ routes, table, block }, revocation) };
}

describe('connections that are no longer admitted', () => {
  test('are judged by the connection that they belong to, where a helper of the kernel expected them', async () => {
    const related = (source: string, port: number, dport: number): Flow[] =>
      flows(line(source, port)).map((flow) => {
        const original = { src: source, dst: '100.64.0.1', sport: 40_000, dport };
        const [there, here] = [
          { ...flow.original, dport: 1_024 },
          { ...flow.reply, sport: 1_024 },
        ];
        return { ...flow, original: there, reply: here, master: { protocol: 6, original } };
      });
    const { told, revoke } = world([[...related('100.64.0.2', 1, 22), ...related('100.64.0.9', 2, 22)]]);
    expect(await revoke()).toEqual({ count: 1 });
    expect(told).toContain('block 1');
  });

  test('are also those between an address of this device and one that was its own a short while ago', async () => {
    const shared = '100.64.0.2';
    const addresses = new Map([
      ['100.64.0.1', true],
      [shared, true],
    ]);
    const routes = rememberingAddresses(
      { readLocal: async () => ({ addresses: new Map(addresses), interface: { name: 'rf0', index: 7 } }) },
      () => 0,
    );
    const { told, revoke } = world([flows(line(shared, 1))], undefined, routes);
    // While both are here, it stays inside.
    expect(await revoke()).toEqual({ count: 0 });
    addresses.delete(shared);
    expect(await revoke()).toEqual({ count: 1 });
    expect(told).toContain('block 1');
  });

  test('end while others are still being listed, the first at once; no route is asked for, and what has another address is known as elsewhere', async () => {
    const away = flows(line('100.64.0.4', 3).replaceAll('100.64.0.1', '10.9.0.1'));
    const { told, revoke } = world([
      [...flows(line('100.64.0.2', 1), line('100.64.0.9', 2)), ...away],
      flows(line('100.64.0.2', 4), line('100.64.0.3', 95)),
      flows(line('100.64.0.9', 6)),
      flows(line('100.64.0.2', 7)),
    ]);
    expect(await revoke()).toEqual({ count: 4 });
    expect(told).toEqual([
      'listed',
      'block 1 3, elsewhere 3',
      'listed',
      'listed',
      'listed',
      'all listed',
      'block 4 95 7',
      'forget 95',
    ]);
  });

  test.each(['block', 'forget'] as const)('are not passed over in silence where the kernel does not %s', async (at) => {
    const { told, revoke } = world([flows(line('100.64.0.2', 91)), flows(line('100.64.0.2', 92))], { at });
    await expect(revoke()).rejects.toThrow(`cannot ${at}`);
    expect(told.filter((each) => each.startsWith('block'))).toEqual(['block 91']);
  });

  test('that were listed end although the listing fails, which is told', async () => {
    const { told, revoke } = world([flows(line('100.64.0.2', 1))], { at: 'list' });
    await expect(revoke()).rejects.toThrow('cannot list');
    expect(told).toContain('block 1');
  });
});
