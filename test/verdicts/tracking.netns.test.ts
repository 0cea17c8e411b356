/** Proves what becomes of answers where another program meddles with connection tracking, and that an operator learns of it. */
import { expect, test } from 'vitest';
import { TrackingAdvice } from '../../src/agent/host/tracking-advice.ts';
import { commandRunner } from '../../src/agent/host/run-command.ts';
import { Talker } from '../lib/talker.ts';
import { VerdictLab } from '../lib/verdict-lab.ts';
import { apply } from './device.ts';

const settings = (count: number) => async (name: string) => (name === 'nf_conntrack_count' ? String(count) : '1000');

test('a program that exempts packets from tracking has answers refused, and the status says so', async () => {
  const lab = await VerdictLab.open();
  try {
    await Talker.serve(lab.peer, 7_002);
    const call = (bound = {}) => Talker.call(lab.device, '100.64.0.2', 7_002, bound);
    await apply(lab, [{ inbound: [] }]);
    let now = 0;
    const advice = new TrackingAdvice({
      run: commandRunner(lab.device.inside([])),
      read: settings(10),
      monotonic: () => now,
    });
    expect(await (await call()).isHeard()).toBe(true);
    expect(await advice.warnings()).toEqual([]);
    await lab.device.run([
      'nft',
      'table ip raw { comment "no notrack here"; chain out { type filter hook output priority raw; tcp dport 7002 notrack comment "a word"; }; }',
    ]);
    await expect(call({ within: 1_500 })).rejects.toThrow('never heard');
    // All rules are read again only after ten minutes.
    expect(await advice.warnings()).toEqual([]);
    now += 11 * 60_000;
    expect(await advice.warnings()).toEqual([expect.stringContaining('`notrack` in ip raw')]);
  } finally {
    await lab.close();
  }
});

test.each([
  [899, []],
  [950, [expect.stringContaining('95 % full: a full one drops new connections on every interface')]],
])('a table of connections that holds %i of 1,000 is worth a word, or none', async (count, warnings) => {
  const run = async () => ({ code: 0, stdout: 'table inet service {\n}\n', stderr: '' });
  const advice = new TrackingAdvice({ run, read: settings(count), monotonic: () => 0 });
  expect(await advice.warnings()).toEqual(warnings);
});
