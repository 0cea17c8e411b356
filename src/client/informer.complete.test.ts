/** Proves when an informer's copy is that of one revision, with no change half applied. */
import { describe, expect, it } from 'vitest';
import { turn, type FakeStream } from './fake.fixture.ts';
import { change, informed, tail } from './informer.fixture.ts';
import { device, group } from './records.fixture.ts';

describe('an informer that wants changes whole', () => {
  const complete = (revision: number) => ({ type: 'complete', revision });
  const answer = (_request: unknown, stream: FakeStream): Response => {
    stream.response.headers.set('preference-applied', 'complete-lines');
    return stream.response;
  };

  it('says between which documents its copy is that of one revision, wherever chunks end', async () => {
    const seen: string[] = [];
    const onComplete = (): void => void seen.push(`complete ${informer.revision}`);
    const options = { onComplete, answers: [answer] };
    const { informer, stream, seen: requests } = informed(['device', 'security-groups'], options);
    informer.onChange((changes) => seen.push(`${changes.length} ${informer.complete ? 'whole' : 'part'}`));
    await turn();
    expect(requests.at(-1)?.headers['prefer']).toContain('complete-lines');
    stream().send(change(device(1, 1), 'device'), tail('device'), tail('security-groups'));
    await turn();
    stream().send(complete(2));
    await turn();
    // A change, and the first part of the next one, in one chunk.
    stream().send(change(device(1, 3), 'device'), complete(3), change(device(1, 4), 'device'));
    await turn(3);
    stream().send(change(group(1, 5), 'security-groups'), complete(6));
    await turn();
    expect(seen).toEqual(['1 part', 'complete 2', '1 whole', 'complete 3', '1 part', '1 whole', 'complete 6']);
  });

  it('stays whole, or not, when a heartbeat or a request for a report comes alone, and takes the revision of it', async () => {
    const reports: string[] = [];
    const onReport = (revision: number): void =>
      void reports.push(`${revision} of ${informer.revision} ${informer.complete ? 'whole' : 'part'}`);
    const options = { onComplete: () => {}, onReport, answers: [answer] };
    const { informer, stream } = informed(['device'], options);
    const report = (revision: number) => ({ type: 'report', revision });
    await turn();
    stream().send(change(device(1, 1)), tail(), complete(2));
    await turn();
    for (const line of [{ type: 'heartbeat', revision: 2 }, report(3), change(device(1, 4)), report(4), complete(5)]) {
      stream().send(line);
      await turn(3);
    }
    expect([reports, informer.complete]).toEqual([['3 of 3 whole', '4 of 4 part'], true]);
  });

  it('is not whole after a cut in the middle of a change, until the rest has come', async () => {
    const { informer, stream, clock, asked } = informed(['device'], {
      onComplete: () => {},
      answers: [answer, answer],
    });
    await turn();
    stream().send(tail(), complete(1), change(device(1, 2)));
    await turn(3);
    stream().cut();
    await clock.advance(500);
    expect([informer.complete, asked()]).toEqual([false, [{ kind: 'device', gt_revision: 2 }]]);
    stream().send(change(device(2, 3)), tail());
    await turn();
    expect([informer.complete, informer.state.phase]).toEqual([false, 'live']);
    stream().send(complete(3));
    await turn();
    expect(informer.complete).toBe(true);
  });

  it('takes every chunk for whole where a server of an earlier version does not tell', async () => {
    const { informer, stream } = informed(['device'], { onComplete: () => {} });
    await turn();
    stream().send(change(device(1, 1)), tail());
    await turn();
    expect(informer.complete).toBe(true);
  });
});
