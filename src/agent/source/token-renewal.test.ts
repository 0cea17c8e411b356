/** Proves that an enrolled device gets another token when the server asks for one, and is never left with none that works. */
import { describe, expect, test } from 'vitest';
import { parseDeviceId, parseOrganizationId } from '../../policy/ids.ts';
import type { Identity } from './identity.ts';
import { TokenRenewal } from './token-renewal.ts';

const identity: Identity = {
  organization: parseOrganizationId('00000000-0000-4000-8000-000000000001'),
  device: parseDeviceId('00000000-0000-4000-8000-000000000002'),
  token: 'old',
  publicKey: 'k',
};

function world(known: Identity = identity) {
  let disk = known;
  let isFull = false;
  let minted = 0;
  const sent: object[] = [];
  const due = { isDue: true };
  const renewal = new TokenRenewal({
    identity: known,
    folder: {
      save: (next) => {
        if (isFull) return Promise.reject(new Error('no space left'));
        disk = next;
        return Promise.resolve();
      },
    },
    mint: () => {
      minted += 1;
      return { secret: `new ${minted}`, digest: `digest ${minted}` };
    },
    log: () => {},
  });
  const send = (report: object): Promise<unknown> => {
    sent.push(report);
    return Promise.resolve(due.isDue ? { renew_token: true } : {});
  };
  return {
    renewal,
    sent,
    due,
    report: () => renewal.report({ state: 'applied' }, send),
    disk: () => disk,
    fill: (full: boolean) => (isFull = full),
  };
}

describe('the token of an enrolled device', () => {
  test('stays while the server does not ask for another', async () => {
    const { renewal, sent, due, report, disk } = world();
    due.isDue = false;
    await report();
    expect([renewal.token, sent, disk()]).toEqual(['old', [{ state: 'applied' }], identity]);
  });

  test('is another once the server has its digest and the disk has the token, with the one before beside it', async () => {
    const { renewal, sent, report, disk } = world();
    await report();
    expect(sent).toEqual([
      { state: 'applied' },
      { state: 'applied', next_token_digest: 'digest 1' },
      { state: 'applied' },
    ]);
    expect([renewal.token, disk()]).toEqual(['new 1', { ...identity, token: 'new 1', previousToken: 'old' }]);
  });

  test('stays the old one while the disk is full, and the same one is offered again', async () => {
    const { renewal, sent, report, disk, fill } = world();
    fill(true);
    await report();
    expect([renewal.token, disk()]).toEqual(['old', identity]);
    fill(false);
    await report();
    expect(sent.at(-2)).toMatchObject({ next_token_digest: 'digest 1' });
    expect(renewal.token).toBe('new 1');
  });

  test('stays the old one where the answer to the offer is lost', async () => {
    const { renewal, sent } = world();
    const failing = renewal.report({ state: 'applied' }, (report) => {
      sent.push(report);
      return sent.length > 1 ? Promise.reject(new Error('connection reset')) : Promise.resolve({ renew_token: true });
    });
    await expect(failing).rejects.toThrow('connection reset');
    expect(renewal.token).toBe('old');
  });

  test('is the one before where a restored server refuses the new one, and the next one after that', async () => {
    const { renewal, report, disk } = world({ ...identity, token: 'new', previousToken: 'old' });
    renewal.refused('new');
    expect(renewal.token).toBe('old');
    // An answer to an earlier request, with the token that is not in use any more.
    renewal.refused('new');
    expect(renewal.token).toBe('old');
    await report();
    expect([renewal.token, disk().previousToken]).toEqual(['new 1', 'old']);
    renewal.refused('new 1');
    renewal.refused('old');
    expect(renewal.token).toBe('new 1');
  });
});
