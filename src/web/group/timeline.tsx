/** Owns the timeline of a group: every state with its author, its time, its rule changes, and a restore. */
import { Button } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import { useState, type ReactNode } from 'react';
import type { SecurityGroup } from '../../api/group.ts';
import type { GroupState } from '../../api/history/states.ts';
import { groupChanges } from '../../client/words/changes.ts';
import { Lines } from '../components/lines.tsx';
import { ListState } from '../components/placeholders.tsx';
import { Tag } from '../components/tag.tsx';
import { Ago } from '../components/time.tsx';
import { useDeviceNames } from '../state/fleet.ts';
import { useRights } from '../state/organization.ts';
import { useSession } from '../state/session.ts';
import { Restore, type Target } from './restore.tsx';

const pageSize = 10;

const standing = (state: GroupState | undefined): SecurityGroup | undefined =>
  state === undefined || state.type === 'delete' ? undefined : state.record;

function State({
  state,
  before,
  isLast,
  current,
  restore,
}: {
  readonly state: GroupState;
  /** The state before it; undefined for the first, and where it is not loaded yet. */
  readonly before: GroupState | undefined;
  /** Whether the history begins here. */
  readonly isLast: boolean;
  readonly current: boolean;
  readonly restore: (() => void) | undefined;
}): ReactNode {
  const names = useDeviceNames();
  const isNew = isLast || before?.type === 'delete';
  const lines = state.type === 'delete' ? [] : groupChanges(standing(before), state.record, names);
  return (
    <li className="moment">
      <div className="row between">
        <p>
          <strong>{state.by_server ? 'The server' : (state.username ?? 'Before the history began')}</strong>{' '}
          <span className="dimmed small">
            {state.type === 'delete' ? 'deleted it ' : isNew && state.username !== undefined ? 'created it ' : ''}
            <Ago at={state.at} /> · revision {state.revision}
          </span>
        </p>
        {current ? (
          <Tag tone="accent">now</Tag>
        ) : restore === undefined ? null : (
          <Button
            size="compact-sm"
            variant="default"
            onClick={restore}
            aria-label={`Restore this: revision ${state.revision}`}
          >
            Restore this
          </Button>
        )}
      </div>
      {state.type === 'delete' ? null : <Lines lines={lines} />}
    </li>
  );
}

export function Timeline({ group }: { readonly group: SecurityGroup }): ReactNode {
  const { client } = useSession();
  const { editGroup } = useRights();
  const [target, setTarget] = useState<Target>();
  const { org_id, id, revision } = group;
  const query = useInfiniteQuery({
    queryKey: ['history', org_id, id, revision],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) =>
      client.request('listSecurityGroupHistory', {
        params: { org_id, sg_id: id },
        query: { limit: pageSize, ...(pageParam === undefined ? {} : { after: pageParam }) },
        signal,
      }),
    getNextPageParam: ({ next }) => next,
    placeholderData: (before) => before,
  });
  const { data, fetchNextPage, hasNextPage, isFetchingNextPage } = query;
  const states = data?.pages.flatMap(({ value }) => value);
  // With more to load, the last one cannot be compared with the one before it yet.
  const shown = hasNextPage ? states?.slice(0, -1) : states;
  return (
    <section className="card" aria-label="Timeline">
      <div className="card-head">
        <h2>Timeline</h2>
        <span className="small dimmed">Every state is kept, and each can be restored.</span>
      </div>
      {states === undefined ? (
        <ListState query={query} loading="Loading the timeline…" />
      ) : (
        <ol className="timeline">
          {shown?.map((state, index) => (
            <State
              key={state.revision}
              state={state}
              before={states[index + 1]}
              isLast={index === states.length - 1}
              current={state.revision === revision}
              restore={editGroup(group) && state.type === 'change' ? () => setTarget(state) : undefined}
            />
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
      <Restore org={org_id} group={group} target={target} close={() => setTarget(undefined)} />
    </section>
  );
}
