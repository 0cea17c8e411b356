/** Proves the connections between workers: complete messages in order, and no wait for a worker that does not read. */
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { expect, onTestFinished, test, vi } from 'vitest';
import { WorkerPeerLinks } from './worker-peer-links.ts';
import { socketPair } from './socket-pair.ts';

/** A bound, no measure. */
const soon = { timeout: 60_000 };

async function pair(): Promise<readonly [Socket, Socket]> {
  const ends = await socketPair();
  onTestFinished(() => ends.forEach((socket) => socket.destroy()));
  return ends;
}

function linksWith(...sockets: readonly Socket[]) {
  const links = new WorkerPeerLinks();
  const heard: unknown[] = [];
  for (const socket of sockets) links.add(socket);
  links.listen((message) => heard.push(message));
  return { links, heard };
}

test('messages arrive whole and in order on both ends, whatever they hold and however they are cut on the way', async () => {
  const [left, right] = await pair();
  const [one, other] = [linksWith(left), linksWith(right)];
  const messages = [{ text: 'a\nb\u2028"\\ä😀' }, { large: '😀'.repeat(50_000) }, [], 'x', { last: true }];
  for (const message of messages) one.links.send(message);
  other.links.send('back');
  await vi.waitFor(() => expect(other.heard.length).toBe(messages.length), soon);
  expect(other.heard).toEqual(messages);
  await vi.waitFor(() => expect(one.heard).toEqual(['back']), soon);
  // Cut in the middle of a character and of a line.
  const bytes = Buffer.from('"ä"\n"b"\n"c');
  for (const part of [bytes.subarray(0, 2), bytes.subarray(2)]) {
    left.write(part);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  left.write('"\n');
  await vi.waitFor(() => expect(other.heard.slice(messages.length)).toEqual(['ä', 'b', 'c']), soon);
});

test('one that does not read keeps little waiting and nobody else, and hears whole messages when it reads again', async () => {
  const [toStuck, stuck] = await pair();
  const [toOther, otherEnd] = await pair();
  const { links } = linksWith(toStuck, toOther);
  const other = linksWith(otherEnd);
  const late = linksWith(stuck);
  stuck.pause();
  const message = (n: number) => ({ n, text: 'x'.repeat(100_000) });
  const count = 60;
  for (let n = 0; n < count; n += 1) {
    links.send(message(n));
    await vi.waitFor(() => expect(other.heard.length).toBe(n + 1), soon);
    expect(toStuck.writableLength).toBeLessThanOrEqual(1024 * 1024);
  }
  stuck.resume();
  await vi.waitFor(() => expect(toStuck.writableLength).toBe(0), soon);
  links.send('after');
  await vi.waitFor(() => expect(late.heard.at(-1) === 'after').toBe(true), soon);
  expect(late.heard.length).toBeLessThan(count);
  const numbers = late.heard.slice(0, -1).map((one) => (one as { n: number }).n);
  expect(numbers).toEqual(numbers.map((_, n) => n));
});

test('one that is gone is forgotten, and what it began to say is not heard', async () => {
  const [left, right] = await pair();
  const { links, heard } = linksWith(left);
  right.write('"half');
  right.destroy();
  await once(left, 'close');
  links.send('to nobody');
  expect(heard).toEqual([]);
  links.close();
});

test('nothing is left of how two sockets were connected', async () => {
  const ours = async () => (await readdir(tmpdir())).filter((name) => name.startsWith('ringfence-pair-'));
  const before = await ours();
  await pair();
  expect((await ours()).filter((name) => !before.includes(name))).toEqual([]);
});
