/** Proves that the channel survives its helper: absent, ending, silent or talking nonsense. */
import { afterEach, describe, expect, test } from 'vitest';
import { FakeClock } from '../../client/fake.fixture.ts';
import { NetlinkChannel } from './channel.ts';

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
      const asked = channel.send(netfilter, [request]).catch((error: unknown) => error);
      await clock.advance(10_000);
      expect(await asked).toMatchObject({ code: 'timed_out' });
    }
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

  test('that is closed takes no more questions and leaves no helper behind', async () => {
    const { channel } = channelOf('cat');
    await channel.close();
    await expect(channel.send(netfilter, [request])).rejects.toMatchObject({ code: 'closed' });
  });

  test('has nothing to ask where there are no requests', async () => {
    const { channel } = channelOf('no-such-helper');
    expect(await channel.send(netfilter, [])).toEqual([]);
    await channel.transact(netfilter, { begin: request, end: request }, []);
  });
});
