/** Owns the history of a device: each state of what decides its policy, with author and time. */
import { Button } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { Device } from '../../api/device.ts';
import type { DevicePolicy, DevicePolicyState } from '../../api/history/states.ts';
import { deviceChanges, type Line } from '../../client/words/changes.ts';
import { unseenGroup } from '../../client/words/sentence.ts';
import { Lines } from '../components/lines.tsx';
import { ListState } from '../components/placeholders.tsx';
import { Tag } from '../components/tag.tsx';
import { Ago } from '../components/time.tsx';
import { useNames, useSnapshot } from '../state/organization.ts';
import { useSession } from '../state/session.ts';

const pageSize = 10;

const recordOf = (state: DevicePolicyState | undefined): DevicePolicy | undefined =>
  state === undefined || state.type === 'delete' ? undefined : state.record;

export function DeviceHistory({ device }: { readonly device: Device }): ReactNode {
  const { client } = useSession();
  const { groupById } = useSnapshot();
  const userOf = useNames();
  const { organization_id: org_id, id, revision } = device;
  const query = useInfiniteQuery({
    queryKey: ['history', org_id, id, revision],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) =>
      client.request('listDeviceHistory', {
        params: { org_id, device_id: id },
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
  const nameOf = (group: string): string => groupById.get(group)?.group_name ?? unseenGroup;
  const linesOf = (before: DevicePolicy | undefined, after: DevicePolicy | undefined): readonly Line[] => [
    ...(after === undefined || before?.user_id === after.user_id
      ? []
      : before === undefined
        ? [['+', `user ${userOf(after.user_id)}`] as const]
        : [['~', `user ${userOf(before.user_id)} → ${userOf(after.user_id)}`] as const]),
    // What a new device does not have yet says nothing: its labels may give it groups though its own list is empty.
    ...deviceChanges(before, after, nameOf, ['user_id']).filter(
      ([sign, text]) => sign !== '+' || (!text.endsWith(' ""') && text !== 'groups default'),
    ),
  ];
  return (
    <section className="card" aria-label="History">
      <div className="card-head">
        <h2>History</h2>
        <span className="small dimmed">Addresses, labels, groups, user and isolation, with their authors.</span>
      </div>
      {states === undefined ? (
        <ListState query={query} loading="Loading the history…" />
      ) : (
        <ol className="timeline">
          {shown?.map((state, index) => (
            <li key={state.revision} className="moment">
              <div className="row between">
                <p>
                  <strong>{state.by_server ? 'The server' : (state.username ?? 'Before the history began')}</strong>{' '}
                  <span className="dimmed small">
                    {index === states.length - 1 && state.username !== undefined ? 'added it ' : ''}
                    <Ago at={state.at} /> · revision {state.revision}
                  </span>
                </p>
                {index === 0 ? <Tag tone="accent">now</Tag> : null}
              </div>
              <Lines lines={linesOf(recordOf(states[index + 1]), recordOf(state))} />
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
    </section>
  );
}
