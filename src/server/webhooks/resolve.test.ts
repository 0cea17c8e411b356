/** Proves that lookups of receivers' names cannot occupy the threads of the process, also with hostile name servers. */
import { expect, test } from 'vitest';
import { addressFinder, type NameSources } from './resolve.ts';

const failure = (code: string): Error => Object.assign(new Error(code), { code });
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** DNS that answers so for each family, and a system that answers when the test says so. */
function world(dns: { readonly 4: string | readonly string[]; readonly 6: string | readonly string[] }) {
  const asked: { readonly host: string; readonly answer: (address: string) => void; readonly fail: () => void }[] = [];
  const sources: NameSources = {
    dns: async (_, family) => {
      const answer = dns[family];
      if (typeof answer === 'string') throw failure(answer);
      return answer;
    },
    system: (host) =>
      new Promise((resolve, reject) =>
        asked.push({
          host,
          answer: (address) => resolve([{ address, family: 4 }]),
          fail: () => reject(failure('EAI_AGAIN')),
        }),
      ),
  };
  return { asked, find: addressFinder(sources) };
}

test('a name that DNS knows is not asked of the system', async () => {
  const { asked, find } = world({ 4: ['192.0.2.1', '192.0.2.2'], 6: 'ENODATA' });
  expect(await find('hooks.test')).toEqual([
    { address: '192.0.2.1', family: 4 },
    { address: '192.0.2.2', family: 4 },
  ]);
  expect(asked).toEqual([]);
});

test('a name server that is silent takes no thread, and hides no address that the other family has', async () => {
  const silent = world({ 4: 'ETIMEOUT', 6: 'ENODATA' });
  await expect(silent.find('hooks.test')).rejects.toThrow('ETIMEOUT');
  expect(silent.asked).toEqual([]);
  const half = world({ 4: ['192.0.2.1'], 6: 'ETIMEOUT' });
  expect(await half.find('hooks.test')).toEqual([{ address: '192.0.2.1', family: 4 }]);
});

test('names that only the system may know are asked two at a time, also when some fail', async () => {
  const { asked, find } = world({ 4: 'ENOTFOUND', 6: 'ENOTFOUND' });
  const all = Promise.allSettled(['a', 'b', 'c', 'd'].map(find));
  await turn();
  expect(asked.map(({ host }) => host)).toEqual(['a', 'b']);
  asked[1]?.fail();
  await turn();
  expect(asked.map(({ host }) => host)).toEqual(['a', 'b', 'c']);
  asked[0]?.answer('10.0.0.1');
  await turn();
  expect(asked.map(({ host }) => host)).toEqual(['a', 'b', 'c', 'd']);
  asked[2]?.answer('10.0.0.3');
  asked[3]?.answer('10.0.0.4');
  expect((await all).map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'fulfilled']);
  // Those that are done have left their places.
  const last = find('e');
  await turn();
  asked.at(-1)?.answer('10.0.0.5');
  expect(await last).toEqual([{ address: '10.0.0.5', family: 4 }]);
});
