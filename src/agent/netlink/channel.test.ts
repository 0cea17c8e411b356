/** Proves that the channel survives its helper: absent, ending, silent or talking nonsense. */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { isRunning } from '../../../test/lib/processes.ts';
import { FakeClock } from '../../client/fake.fixture.ts';
import { NetlinkChannel } from './channel.ts';
import { FilterBatch } from './nftables/transaction.ts';

const netfilter = 12;
const request = { type: 0x101, payload: Uint8Array.of(0, 0, 0, 0) };

const open: NetlinkChannel[] = [];
afterEach(() => Promise.all(open.splice(0).map((channel) => channel.close())));

function channelOf(...argv: readonly string[]) {
  const clock = new FakeClock();
  const channel = new NetlinkChannel({ clock, argv });
  open.push(channel);
  return { clock, channel };
}

/** A helper that gives one connection of a listing, and ends the listing after it has answered another question. */
const listsUntilAsked = `
  let [input, listing] = [Buffer.alloc(0), Buffer.alloc(4)];
  const put = (socket, type, sequence, payload) => {
    const bytes = Buffer.alloc(21 + payload.length);
    bytes.writeUInt32LE(16 + payload.length, 0);
    bytes[4] = socket;
    bytes.writeUInt32LE(16 + payload.length, 5);
    bytes.writeUInt16LE(type, 9);
    sequence.copy(bytes, 13);
    payload.copy(bytes, 21);
    process.stdout.write(bytes);
  };
  const nothing = Buffer.alloc(4);
  const answer = (frame) => {
    put(12, 2, frame.subarray(13, 17), nothing);
    put(44, 3, listing, nothing);
  };
  process.stdin.on('data', (chunk) => {
    input = Buffer.concat([input, chunk]);
    while (input.length >= 5 && input.length >= 5 + input.readUInt32LE(0)) {
      const frame = input.subarray(0, 5 + input.readUInt32LE(0));
      input = input.subarray(frame.length);
      if (frame[4] === 44) put(44, 256, (listing = Buffer.from(frame.subarray(13, 17))), nothing);
      else answer(frame);
    }
  });
`;

describe('a channel', () => {
  test.each([
    ['is not installed', ['no-such-helper']],
    ['ends at once', ['sh', '-c', 'echo no right to that >&2; exit 13']],
  ])('whose helper %s says so, and does not try again at once', async (_, argv) => {
    const { channel, clock } = channelOf(...argv);
    await expect(channel.send(netfilter, [request])).rejects.toMatchObject({ code: 'missing' });
    await expect(channel.send(netfilter, [request])).rejects.toMatchObject({
      message: 'the netlink helper cannot be started',
    });
    await clock.advance(60_000);
    await expect(channel.send(netfilter, [request])).rejects.toMatchObject({
      code: 'missing',
      message: /ended|ENOENT/,
    });
  });

  test('gives up a helper that does not answer, and starts another', async () => {
    // It reads the requests and answers nothing.
    const { channel, clock } = channelOf('sh', '-c', 'cat > /dev/null');
    for (let attempt = 0; attempt < 2; attempt += 1) {
      let failure: unknown;
      channel.send(netfilter, [request]).catch((error: unknown) => (failure = error));
      // The question is put to a new helper once the one before has really ended: only then does its time run.
      await vi.waitFor(async () => {
        await clock.advance(5_000);
        expect(failure).toMatchObject({ code: 'timed_out', message: 'the kernel did not answer over netlink' });
      }, 60_000);
      // A request without a reply does not hold up other requests.
      await expect(channel.send(netfilter, [request])).rejects.toMatchObject({ code: 'missing' });
      const { pid = 0 } = channel;
      await vi.waitFor(() => expect(isRunning(pid)).toBe(false), 60_000);
      await clock.advance(60_000);
    }
  });

  test('asks nobody else before a helper that it gave up has ended, and then another', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'rf-channel-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    // A process that holds its output open, so that it does not count as ended before that one has.
    const script = 'tail -f /dev/null & echo $! > "$1/new"; mv "$1/new" "$1/$$"; exec cat > /dev/null';
    const { channel, clock } = channelOf('sh', '-c', script, 'sh', folder);
    const holder = (): Promise<string> => vi.waitFor(() => readFile(join(folder, String(channel.pid)), 'utf8'), 10_000);
    const ask = (): Promise<unknown> => channel.send(netfilter, [request]).catch((error: unknown) => error);
    const first = ask();
    const firstHolder = await holder();
    await clock.advance(10_000);
    expect(await first).toMatchObject({ message: 'the kernel did not answer over netlink' });
    const given = channel.pid;
    await clock.advance(60_000);
    const second = ask();
    await clock.advance(9_000);
    channel.start();
    expect(channel.pid).toBe(given);
    process.kill(Number(firstHolder));
    await vi.waitFor(() => expect(channel.pid).not.toBe(given), 10_000);
    const secondHolder = await holder();
    await clock.advance(10_000);
    expect(await second).toMatchObject({ message: 'the kernel did not answer over netlink' });
    await clock.advance(60_000);
    const third = ask();
    await clock.advance(10_000);
    expect(await third).toMatchObject({ message: 'the netlink helper does not answer and cannot be stopped' });
    process.kill(Number(secondHolder));
  });

  test('refuses bytes that are no messages', async () => {
    const { channel } = channelOf(
      'sh',
      '-c',
      String.raw`read -r x; printf '\020\000\000\000\014\377\377\377\377aaaaaaaaaaaa'; cat`,
    );
    const asked = channel.send(netfilter, [{ ...request, payload: Uint8Array.of(10) }]);
    await expect(asked).rejects.toMatchObject({ code: 'malformed' });
  });

  test('answers other questions while a listing is under way', async () => {
    const { channel } = channelOf(process.execPath, '-e', listsUntilAsked);
    const asked: Promise<readonly number[]>[] = [];
    await channel.dump(netfilter, request, () => asked.push(channel.send(netfilter, [request])));
    expect(await Promise.all(asked)).toEqual([[0]]);
  });

  test('whose helper ends while a listing is under way says so to everybody who waits', async () => {
    const { channel } = channelOf(process.execPath, '-e', listsUntilAsked.replace('answer(frame)', 'process.exit(0)'));
    const asked: Promise<unknown>[] = [];
    const listing = channel.dump(netfilter, request, () => {
      asked.push(channel.send(netfilter, [request]).catch((error: unknown) => error));
    });
    await expect(listing).rejects.toMatchObject({ code: 'interrupted' });
    expect(await Promise.all(asked)).toMatchObject([{ code: 'interrupted' }]);
  });

  test('can be started before there is anything to ask, and once only', async () => {
    const { channel } = channelOf(process.execPath, '-e', listsUntilAsked);
    expect(channel.running).toBe(false);
    channel.start();
    const { pid } = channel;
    channel.start();
    expect(channel.running).toBe(false);
    expect(await channel.isRunning(60_000)).toBe(true);
    expect(await channel.send(netfilter, [request])).toEqual([0]);
    expect(channel.pid).toBe(pid);
    await channel.close();
    channel.start();
    expect(channel.pid).toBe(pid);
    const missing = channelOf('no-such-helper');
    missing.channel.start();
    await expect(missing.channel.send(netfilter, [request])).rejects.toMatchObject({ code: 'missing' });
    missing.channel.start();
  });

  test('that is closed takes no more questions and leaves no helper behind', async () => {
    const { channel } = channelOf('cat');
    await channel.close();
    await expect(channel.send(netfilter, [request])).rejects.toMatchObject({ code: 'closed' });
  });

  test('has nothing to ask where there are no requests', async () => {
    const { channel } = channelOf('no-such-helper');
    expect(await channel.send(netfilter, [])).toEqual([]);
    await new FilterBatch().run(channel);
  });
});
