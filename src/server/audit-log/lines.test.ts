/** Proves that no line of the audit log holds a character that a terminal would obey. */
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { parseDeviceId, parseOrganizationId } from '../../policy/ids.ts';
import { auditLines } from './lines.ts';

test('the name of a device reaches a terminal only in characters that it shows, also in lines of refused traffic', () => {
  const hostname = 'db\u009b31m\u202e-1';
  const time = '2026-11-18T12:00:00.000Z';
  const sum = { direction: 'in', verdict: 'refused', family: 4, far: 1n, protocol: 6, port: 22, packets: 1 } as const;
  const report = {
    organization_id: parseOrganizationId(randomUUID()),
    device_id: parseDeviceId(randomUUID()),
    hostname,
    since: time,
    until: time,
    part: 0,
    sums: [{ place: 0, sum }],
  };
  const text = auditLines({ entries: [], refused: [report], lost: 1, places: [] }, time);
  expect(text).not.toMatch(/[\u0080-\u009f\u202e]/u);
  const lines = text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as object);
  expect(lines).toMatchObject([
    { type: 'lost', entries: 1 },
    { type: 'refused', hostname },
  ]);
});
