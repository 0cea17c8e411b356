/** Proves that an informer lists everything once more when asked, keeps parts of records, and follows a server that knows no views. */
import { describe, expect, it } from 'vitest';
import { FakeStream, fakeNetwork, problem, turn } from './fake.fixture.ts';
import { change, gone, informed, tail } from './informer.fixture.ts';
import { createInformer } from './informer.ts';
import { device, deviceId, group, organization } from './records.fixture.ts';

describe('a new listing on request', () => {
  it('shows what was not kept before, and is live again only when it is whole', async () => {
    let all = false;
    const kept = informed(['device', 'security-groups'], { keep: (_, { id }) => all || id !== deviceId(2) });
    const { informer, stream, streams, told, phases, asked } = kept;
    const listing = [
      change(device(1, 1), 'device'),
      change(device(2, 2), 'device'),
      tail('device'),
      change(group(1, 3), 'security-groups'),
      tail('security-groups'),
    ];
    await turn(3);
    stream().send(...listing);
    await turn(3);
    expect(told).toEqual(['added device 1 1', 'added group 1 3']);
    all = true;
    informer.relist();
    expect(informer.state.phase).toBe('connecting');
    await turn(5);
    expect(streams).toHaveLength(2);
    expect(asked()).toEqual([{ kind: 'device' }, { kind: 'security-groups' }]);
    stream().send(...listing.slice(0, 3));
    await turn(3);
    expect(informer.state.phase).toBe('listing');
    stream().send(...listing.slice(3));
    await turn(3);
    expect(told).toEqual(['added device 1 1', 'added group 1 3', 'added device 2 2']);
    expect(phases).toEqual(['connecting', 'listing', 'live', 'connecting', 'listing', 'live']);
  });

  it('may be asked for by a handler, while the first is being told', async () => {
    const { informer, stream, streams, told } = informed(['device']);
    let once = true;
    informer.onState(({ phase }) => {
      if (phase === 'live' && once) {
        once = false;
        informer.relist();
      }
    });
    await turn(3);
    stream().send(change(device(1, 1)), tail());
    await turn(5);
    expect(streams).toHaveLength(2);
    expect(informer.state.phase).toBe('connecting');
    stream().send(change(device(2, 2)), tail());
    await turn(3);
    expect(told).toEqual(['added device 1 1', 'added device 2 2', 'deleted device 1 1>missing']);
    expect(informer.state.phase).toBe('live');
  });

  it('comes with the next stream where none is open', async () => {
    const { informer, stream, asked, clock } = informed(['device'], { answers: [undefined, () => problem(503, {})] });
    await turn(3);
    stream().send(change(device(1, 1)), tail());
    await turn(3);
    stream().cut();
    await turn(3);
    informer.relist();
    await clock.advance(30_000);
    expect(asked()).toEqual([{ kind: 'device' }]);
  });
});

it('a part of a record may be kept, and its deletion is told', async () => {
  const { informer, stream, told } = informed(['device'], { keep: (_, record) => ({ ...record, hostname: 'cut' }) });
  await turn(3);
  stream().send(change(device(1, 1)), tail());
  await turn(3);
  expect(informer.view('device').get(deviceId(1))?.hostname).toBe('cut');
  stream().send(gone(device(1, 2)));
  await turn(3);
  expect(told).toEqual(['added device 1 1', 'deleted device 1 1>2']);
});

it('a server that knows no view gives whole records, and is asked for the view again with the next stream', async () => {
  const streams: FakeStream[] = [];
  const { client, seen, clock } = fakeNetwork((request) => {
    const items = request.body as readonly { readonly view?: string }[];
    const at = items.findIndex(({ view }) => view !== undefined);
    if (at >= 0) {
      const errors = [{ pointer: `/${at}/view`, code: 'unknown_field', detail: 'Unknown field.' }];
      return problem(422, { code: 'invalid', errors });
    }
    const stream = new FakeStream(request.signal);
    streams.push(stream);
    return stream.response;
  });
  const informer = createInformer({ client, organization, kinds: ['device'], deviceView: 'identity' });
  const abort = new AbortController();
  const ended = informer.run({ signal: abort.signal });
  await turn(5);
  streams[0]?.send(change(device(1, 1, { hostname: 'whole' })), tail());
  await turn(5);
  expect(informer.state.phase).toBe('live');
  expect(informer.view('device').get(deviceId(1))?.hostname).toBe('whole');
  streams[0]?.cut();
  await clock.advance(2_000);
  await turn(5);
  expect(seen.map(({ body }) => body)).toEqual([
    [{ kind: 'device', view: 'identity' }],
    [{ kind: 'device' }],
    [{ kind: 'device', view: 'identity', gt_revision: 1 }],
    [{ kind: 'device', gt_revision: 1 }],
  ]);
  abort.abort();
  await ended;
});
