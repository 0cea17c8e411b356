/** Proves that processes of a server share what they know of the primary: none accepts one that another process saw replaced. */
import { expect, onTestFinished, test, vi } from 'vitest';
import { DatabaseNode } from '../../../../test/lib/database-node.ts';
import { freePort } from '../../../../test/lib/free-port.ts';
import { NewestTimeline } from '../../workers/newest-timeline.ts';
import { Primary } from './primary.ts';

test('a process that begins after another one saw a promotion refuses the old primary, and one that has a connection to it ends it', async () => {
  const old = await DatabaseNode.primary();
  onTestFinished(() => old.remove());
  const promoted = await old.standby();
  onTestFinished(() => promoted.remove());
  await promoted.promote();
  const nobody = await freePort();
  const urlOf = (...ports: readonly number[]): string =>
    `postgres://ringfence@${ports.map((port) => `127.0.0.1:${port}`).join(',')}/postgres`;

  // As the primary process does: what one process has seen reaches the others.
  const told: number[] = [];
  const here = new NewestTimeline((timeline) => there.hear(timeline));
  const there = new NewestTimeline((timeline) => told.push(timeline));
  const left = await new Primary(urlOf(old.port, nobody), { timeline: there }).open();
  onTestFinished(() => left.destroy());
  const ended = vi.fn<() => void>();
  left.client.on('end', ended);
  expect(told).toEqual([1]);

  const found = await new Primary(urlOf(old.port, promoted.port), { timeline: here }).open();
  onTestFinished(() => found.end());
  expect([here.newest, there.newest]).toEqual([2, 2]);
  await vi.waitFor(() => expect(ended).toHaveBeenCalled(), { timeout: 60_000 });
  const replacement = new Primary(urlOf(old.port, nobody), { timeline: there });
  await expect(replacement.open()).rejects.toThrow(/another primary has replaced it/);
  expect(told).toEqual([1]);

  // Without that knowledge it would be accepted. With one host nothing is compared: a restored snapshot may be on an older timeline.
  for (const unaware of [new Primary(urlOf(old.port, nobody)), new Primary(urlOf(old.port), { timeline: there })]) {
    const connection = await unaware.open();
    await connection.end();
  }
});
