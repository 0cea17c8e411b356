/** Owns the history of a record on its page: every state with its author, its time and its changes, in pages. */
import { Button } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { Line } from '../../client/words/changes.ts';
import { Lines, Revision, Tag, Ago, Card } from './page.tsx';
import { ListState } from './placeholders.tsx';

const pageSize = 10;

/** A state of the record. */
interface Moment {
  readonly type: string;
  readonly revision: number;
  readonly at: string;
  readonly by_server?: unknown;
  readonly username?: string | undefined;
}

export function History<State extends Moment>({
  title,
  about,
  of: { org_id, id, revision },
  load,
  linesOf,
  verb,
  action,
  children,
}: {
  readonly title: string;
  readonly about: string;
  readonly of: { readonly org_id: string; readonly id: string; readonly revision: number };
  /** Reads a page of states, the newest first. */
  readonly load: (
    query: { readonly limit: number; readonly after?: string },
    signal: AbortSignal,
  ) => Promise<{ readonly value: readonly State[]; readonly next?: string | undefined }>;
  /** What changed since the state before it. */
  readonly linesOf: (before: State | undefined, state: State) => readonly Line[];
  /** What the first state is called: `created it`. */
  readonly verb: string;
  /** What can be done with a state that is not the present one. */
  readonly action?: (state: State) => ReactNode;
  readonly children?: ReactNode;
}): ReactNode {
  const query = useInfiniteQuery({
    queryKey: ['history', org_id, id, revision],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) =>
      load({ limit: pageSize, ...(pageParam === undefined ? {} : { after: pageParam }) }, signal),
    getNextPageParam: ({ next }) => next,
    placeholderData: (before) => before,
  });
  const { data, fetchNextPage, hasNextPage, isFetchingNextPage } = query;
  const states = data?.pages.flatMap(({ value }) => value);
  // With more to load, the last one cannot be compared with the one before it yet.
  const shown = hasNextPage ? states?.slice(0, -1) : states;
  const verbOf = (state: State, before: State | undefined, isLast: boolean): string => {
    if (state.type === 'delete') return 'deleted it ';
    return (isLast || before?.type === 'delete') && state.username !== undefined ? `${verb} ` : '';
  };
  return (
    <Card title={title} about={<span className="small dimmed">{about}</span>}>
      {states === undefined ? (
        <ListState query={query} loading="Loading the history…" />
      ) : (
        <ol className="timeline">
          {shown?.map((state, index) => (
            <li key={state.revision} className="moment">
              <div className="row between">
                <p>
                  <strong>
                    {state.by_server === true ? 'The server' : (state.username ?? 'Before the history began')}
                  </strong>{' '}
                  <span className="dimmed small">
                    {verbOf(state, states[index + 1], index === states.length - 1)}
                    <Ago at={state.at} /> · revision <Revision of={state.revision} />
                  </span>
                </p>
                {index === 0 ? <Tag tone="accent">now</Tag> : action?.(state)}
              </div>
              {state.type === 'delete' ? null : <Lines lines={linesOf(states[index + 1], state)} />}
            </li>
          ))}
        </ol>
      )}
      {hasNextPage ? (
        <div className="card-body row end">
          <Button variant="default" loading={isFetchingNextPage} onClick={() => void fetchNextPage()}>
            Load older states
          </Button>
        </div>
      ) : null}
      {children}
    </Card>
  );
}
