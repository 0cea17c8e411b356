/** Proves what is read out of `nft monitor`: who changed what of ours, and nothing of others. */
import { describe, expect, test } from 'vitest';
import type { TableName } from '../../nft/ast.ts';
import { MonitorReader, type MonitorEvent } from './monitor-events.ts';

function read(...lines: string[]): MonitorEvent[] {
  const reader = new MonitorReader();
  return lines.flatMap((line) => reader.read(line) ?? []);
}
const end = '# new generation 7 by process 4711 (nft)';

const changes: readonly [string, { tables: readonly TableName[]; chains: readonly string[] } | undefined][] = [
  ['add table inet service', { tables: ['service'], chains: [] }],
  ['add table inet service { flags dormant; }', { tables: ['service'], chains: [] }],
  ['delete table inet service', { tables: ['service'], chains: [] }],
  ['delete table inet service-forward', { tables: ['service-forward'], chains: [] }],
  [
    'insert rule inet service-forward service-forward-inbound accept',
    { tables: [], chains: ['service-forward-inbound'] },
  ],
  ['add chain inet service strange', { tables: [], chains: ['strange'] }],
  [
    'add chain inet service service-inbound { type filter hook input priority filter; policy drop; }',
    { tables: [], chains: ['service-inbound'] },
  ],
  ['insert rule inet service service-inbound accept', { tables: [], chains: ['service-inbound'] }],
  ['replace rule inet service from-a accept', { tables: [], chains: ['from-a'] }],
  ['delete rule inet service service-inbound handle 8', { tables: [], chains: ['service-inbound'] }],
  ['add set inet service x { type ipv4_addr; } ', { tables: [], chains: [] }],
  ['add element inet service x { 1.2.3.4 }', { tables: [], chains: [] }],
  ['delete set inet service __set0', { tables: [], chains: [] }],
  ['add ct helper inet service ftp { type "ftp" protocol tcp; }', { tables: [], chains: [] }],
  ['add table inet services', undefined],
  ['add table ip service', undefined],
  ['add rule inet other service-inbound accept', undefined],
  ['add rule ip6 service service-inbound accept', undefined],
  ['add rule inet other x comment "add rule inet service y accept"', undefined],
];

describe('events', () => {
  test.each(changes)('%s', (line, change) => {
    const [event] = read(line, end);
    expect(event).toEqual({
      kind: 'generation',
      generation: {
        number: 7,
        author: { pid: 4711, name: 'nft' },
        change: change && { tables: new Set(change.tables), chains: new Set(change.chains) },
        lines: change === undefined ? [] : [line.trim()],
      },
    });
  });

  test('of a set that is emptied are the first few, and what comes with them is not missed', () => {
    const emptied = Array.from({ length: 2_000 }, (_, n) => `delete element inet service in-admitted-port4-1 { ${n} }`);
    const [event] = read(
      ...emptied,
      'delete element inet service-ended tuple4 { 1 }',
      'insert rule inet service service-inbound accept',
      'delete table inet service-forward',
      end,
    );
    expect(event).toMatchObject({
      generation: {
        change: { tables: new Set(['service-forward']), chains: new Set(['service-inbound']) },
        ended: true,
        lines: emptied.slice(0, 5),
      },
    });
    expect(read('delete element inet service-ended tuple4 { 1 }', end)).toMatchObject([
      { generation: { ended: true } },
    ]);
  });

  test('of one change are gathered, and the next change starts anew', () => {
    const events = read(
      'delete rule inet service service-inbound handle 8',
      'add chain ip other x',
      'delete chain inet service from-a',
      end,
      'add chain ip other y',
      '# new generation 8 by process 1 (strange (name))',
    );
    expect(events).toMatchObject([
      { generation: { number: 7, change: { chains: new Set(['service-inbound', 'from-a']) } } },
      { generation: { number: 8, author: { pid: 1, name: 'strange (name)' }, change: undefined, lines: [] } },
    ]);
  });

  test('keep a few short lines, however much was changed', () => {
    const many = Array.from({ length: 1_000 }, (_, i) => `add rule inet service from-${i} ${'x'.repeat(10_000)}`);
    const [event] = read(...many, end);
    if (event?.kind !== 'generation') throw new Error('no generation');
    expect(event.generation.lines.length).toBe(5);
    expect(Math.max(...event.generation.lines.map((line) => line.length))).toBe(300);
    expect(event.generation.change?.chains.size).toBe(1_000);
  });

  test('that were lost are reported as lost', () => {
    expect(read('# WARNING: lost events')).toEqual([{ kind: 'lost', why: 'WARNING: lost events' }]);
  });

  test('of a kernel that does not name the author', () => {
    expect(read('add table inet service', '# new generation 7')).toMatchObject([{ generation: { author: undefined } }]);
  });
});
