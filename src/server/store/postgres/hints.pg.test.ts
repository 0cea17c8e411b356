/** Proves that a server says once that it cannot listen for hints, and when it can again. */
import { expect, onTestFinished, test, vi } from 'vitest';
import { randomUUID } from 'node:crypto';
import { startOwnPostgres } from '../../../../test/lib/postgres.ts';
import { PipelinedConnections } from './connection.ts';
import { Hints } from './hints.ts';
import { Primary } from './primary.ts';

test('a way to listen that leads nowhere is warned about once, and so is its return', async () => {
  const postgres = await startOwnPostgres();
  onTestFinished(() => postgres.stop());
  const url = await postgres.freshUrl();
  const warnings: string[] = [];
  const [primary, at] = [new Primary(url), new Primary(url)];
  const open = vi.spyOn(at, 'open').mockRejectedValue(new Error('nobody is there'));
  const onWarning = (message: string): unknown => warnings.push(message);
  const ordinary = new PipelinedConnections(1, { primary, onWarning });
  onTestFinished(() => ordinary.close());
  const hints = new Hints({ primary, listenAt: { at, ordinary, newId: randomUUID }, onWarning });
  onTestFinished(() => hints.close());
  await hints.start();
  await vi.waitFor(() => expect(open.mock.calls.length).toBeGreaterThan(2), { timeout: 60_000 });
  expect(warnings).toEqual([expect.stringContaining('they are polled until that works again')]);
  open.mockRestore();
  await vi.waitFor(() => expect(warnings).toHaveLength(2), { timeout: 60_000 });
  expect(warnings[1]).toBe('changes of other servers are heard of at once again');
});
