/** Proves that the fleet knows the current addresses of every peer and reports each change of them once. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseAddress, type Address } from '../address.ts';
import { hasAddress } from '../range.ts';
import type { Peer } from '../rule.ts';
import { deviceIds, fleetChange, peer, textOf } from './fleet.fixture.ts';
import { Fleet } from './fleet.ts';
import { deviceIdentity, type DeviceIdentity } from './identity.ts';
import { matches, peerKey } from './selector.ts';

const db: Peer = { labels: ['db'] };
const device = (id: string, labels: readonly string[], ...addresses: string[]): DeviceIdentity =>
  deviceIdentity({ id, labels, addresses });
const texts = (addresses: readonly Address[]): string[] => addresses.map(textOf);

function holds(fleet: Fleet, of: Peer, text: string): boolean {
  const address = parseAddress(text);
  if ('fault' in address) throw new Error(text);
  return hasAddress(fleet.addressesOf(of)[address.family === 4 ? 'v4' : 'v6'], address.value);
}

describe('a selector', () => {
  it('names devices that carry all of its labels, and no others', () => {
    expect(matches({ labels: ['db', 'prod'] }, ['db', 'eu', 'prod'])).toBe(true);
    expect(matches({ labels: ['db', 'prod'] }, ['db'])).toBe(false);
    expect(matches({ all_devices: true }, [])).toBe(true);
  });

  it('is the same in whatever order its labels are written', () => {
    expect(peerKey({ labels: ['prod', 'db'] })).toBe(peerKey({ labels: ['db', 'prod'] }));
    expect(peerKey({ labels: ['db'] })).not.toBe(peerKey({ device_id: 'db' }));
  });
});

describe('the own addresses of a device', () => {
  it('are those of its record and the host part of its tunnel address, each once; what is no address is none', () => {
    const record = { id: 'a', tunnel_ip: '100.64.0.1/10', addresses: ['fd00::1', '100.64.0.1', 'nonsense'] };
    expect(texts(deviceIdentity(record).addresses)).toEqual(['100.64.0.1', 'fd00::1']);
    expect(deviceIdentity({ id: 'a', tunnel_ip: '' }).addresses).toEqual([]);
  });
});

describe('the fleet', () => {
  it('tells what a peer gains and loses as labels and addresses change', () => {
    const fleet = new Fleet([device('a', ['web'], '10.0.0.1')]);
    expect(holds(fleet, db, '10.0.0.1')).toBe(false);
    expect(fleet.set(device('a', ['db'], '10.0.0.1')).map(({ gained }) => texts(gained))).toEqual([['10.0.0.1']]);
    expect(holds(fleet, db, '10.0.0.1')).toBe(true);
    const [moved] = fleet.set(device('a', ['db'], '10.0.0.2', 'fd00::2'));
    expect(texts(moved?.gained ?? [])).toEqual(['10.0.0.2', 'fd00::2']);
    expect(texts(moved?.lost ?? [])).toEqual(['10.0.0.1']);
    expect(fleet.set(device('a', ['db', 'web'], '10.0.0.2', 'fd00::2'))).toEqual([]);
    expect(fleet.delete('a').map(({ lost }) => texts(lost))).toEqual([['10.0.0.2', 'fd00::2']]);
  });

  it('keeps an address that two devices share until the last of them leaves', () => {
    const fleet = new Fleet([device('a', ['db'], '10.0.0.1'), device('b', ['db'], '10.0.0.1')]);
    expect(holds(fleet, db, '10.0.0.1')).toBe(true);
    expect(fleet.delete('a')).toEqual([]);
    expect(holds(fleet, db, '10.0.0.1')).toBe(true);
    expect(fleet.set(device('b', [], '10.0.0.1')).map(({ lost }) => texts(lost))).toEqual([['10.0.0.1']]);
  });

  it('tells no more of a peer that it was told to forget', () => {
    const fleet = new Fleet();
    fleet.addressesOf(db);
    fleet.keepOnly([{ all_devices: true }]);
    expect(fleet.set(device('a', ['db'], '10.0.0.1'))).toEqual([]);
    expect(holds(fleet, db, '10.0.0.1')).toBe(true);
  });

  it('agrees with a look at every device, and its changes add up, whatever happens', () => {
    fc.assert(
      fc.property(
        fc.array(fleetChange, { maxLength: 30 }),
        fc.array(peer, { minLength: 1, maxLength: 5 }),
        (changes, peers) => {
          const fleet = new Fleet();
          const devices = new Map<string, DeviceIdentity>();
          const told = new Map<string, Set<string>>();
          for (const each of peers) {
            fleet.addressesOf(each);
            told.set(peerKey(each), new Set());
          }
          for (const change of changes) {
            const happened = 'gone' in change ? fleet.delete(change.gone) : fleet.set(change);
            if ('gone' in change) devices.delete(change.gone);
            else devices.set(change.id, change);
            for (const { peer: of, gained, lost } of happened) {
              const known = told.get(peerKey(of));
              for (const text of texts(gained)) expect(known?.has(text)).toBe(false);
              for (const text of texts(lost)) expect(known?.has(text)).toBe(true);
              for (const text of texts(lost)) known?.delete(text);
              for (const text of texts(gained)) known?.add(text);
            }
          }
          for (const each of peers) {
            const named = [...devices.values()].filter(({ id, labels }) =>
              'device_id' in each ? each.device_id === id : matches(each, labels),
            );
            const expected = new Set(named.flatMap(({ addresses }) => texts(addresses)));
            expect(told.get(peerKey(each))).toEqual(expected);
            expect(new Set(fleet.devicesOf(each).map(({ id }) => id))).toEqual(new Set(named.map(({ id }) => id)));
            for (const text of expected) expect(holds(fleet, each, text)).toBe(true);
            const count = (family: 'v4' | 'v6'): number =>
              fleet.addressesOf(each)[family].reduce((sum, { first, last }) => sum + Number(last - first) + 1, 0);
            expect(count('v4') + count('v6')).toBe(expected.size);
          }
          expect(fleet.size).toBe(devices.size);
          for (const id of deviceIds) expect(fleet.get(id)).toBe(devices.get(id));
        },
      ),
    );
  });
});
