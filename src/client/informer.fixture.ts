/** Owns a running informer in tests: the streams that it opened, fed by hand, and what it reported. */
import type { WatchKind } from '../api/kinds.ts';
import { FakeStream, fakeNetwork, type RecordedRequest } from './fake.fixture.ts';
import { createInformer, type InformerOptions } from './informer.ts';
import { organization } from './records.fixture.ts';

type FakeResponder = (request: RecordedRequest, stream: FakeStream) => Response;

/**
 * A running informer, the streams it opened and what it reported. `answers` override the stream that a request would
 * get.
 */
export function informed<K extends WatchKind>(
  kinds: readonly K[],
  { answers = [], ...options }: Partial<InformerOptions<K>> & { readonly answers?: (FakeResponder | undefined)[] } = {},
) {
  const streams: FakeStream[] = [];
  const network = fakeNetwork((request) => {
    const stream = new FakeStream(request.signal);
    streams.push(stream);
    const answer = answers[streams.length - 1];
    return answer === undefined ? stream.response : answer(request, stream);
  });
  const informer = createInformer({ client: network.client, organization, kinds, ...options });
  const told: string[] = [];
  const phases: string[] = [];
  informer.onChange((changes) => {
    for (const change of changes) {
      const name = (id: string): string => `${id.startsWith('d') ? 'device' : 'group'} ${Number(id.slice(-12))}`;
      const from = change.type === 'added' ? '' : `${change.old.revision}>`;
      const to = change.type === 'deleted' ? (change.revision ?? 'missing') : change.new.revision;
      told.push(`${change.type} ${name(change.id)} ${from}${to}`);
    }
  });
  informer.onState(({ phase }) => {
    if (phases.at(-1) !== phase) phases.push(phase);
  });
  const abort = new AbortController();
  const ended = informer.run({ signal: abort.signal }).then(
    () => 'stopped',
    (error: unknown) => error,
  );
  const stream = (index = streams.length - 1): FakeStream => {
    const found = streams[index];
    if (found === undefined) throw new Error(`stream ${index} was not opened`);
    return found;
  };
  const asked = (): unknown => network.seen.at(-1)?.body;
  return { ...network, informer, told, phases, streams, stream, asked, abort, ended };
}

export const change = (value: object, kind?: WatchKind) => ({ type: 'change', ...(kind && { kind }), value });
export const gone = (value: object, kind?: WatchKind) => ({ type: 'delete', ...(kind && { kind }), value });
export const tail = (kind?: WatchKind) => ({ type: 'tail', ...(kind && { kind }) });
