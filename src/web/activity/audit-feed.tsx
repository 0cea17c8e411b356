/** Owns the activity feed for owners: the audit log by day, newest first; new entries appear as they happen. */
import { Button, Checkbox, TextInput } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import { useParams } from '@tanstack/react-router';
import { useDeferredValue, useMemo, useState, type ReactNode } from 'react';
import { EventsIcon, SearchIcon } from '../components/icons.tsx';
import { Empty, ListState } from '../components/placeholders.tsx';
import { Segmented } from '../components/segmented.tsx';
import { Restore, type Target } from '../group/restore.tsx';
import { byDay, hasWords, isQuiet, searchText, topicChoices, topicOf } from '../model/activity.ts';
import { grouped } from '../model/number.ts';
import { plural } from '../model/rule-text.ts';
import { useRights, useSnapshot } from '../state/organization.ts';
import { useSession } from '../state/session.ts';
import { Entry } from './entry.tsx';
import { useSentenceNames } from './names.ts';

const pageSize = 100;

function useAudit(org: string) {
  const { client } = useSession();
  return useInfiniteQuery({
    queryKey: ['audit', org],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) =>
      client.request('listAudit', {
        params: { org_id: org },
        query: { limit: pageSize, ...(pageParam === undefined ? {} : { after: pageParam }) },
        signal,
      }),
    getNextPageParam: ({ next }) => next,
    // A user who has scrolled back is not disturbed by new entries.
    refetchInterval: ({ state }) => ((state.data?.pages.length ?? 0) > 1 ? false : 3_000),
  });
}

export function AuditFeed(): ReactNode {
  const { org } = useParams({ from: '/o/$org/activity' });
  const { groupById } = useSnapshot();
  const { governs } = useRights();
  const names = useSentenceNames();
  const [text, setText] = useState('');
  const [topic, setTopic] = useState('all');
  const [isLoud, setLoud] = useState(false);
  const [target, setTarget] = useState<Target>();
  const query = useAudit(org);
  const { data, fetchNextPage, hasNextPage, isFetchingNextPage } = query;
  const entries = useMemo(() => data?.pages.flatMap(({ value }) => value), [data]);
  const wanted = useDeferredValue(text).trim().toLowerCase();
  const shown = useMemo(
    () =>
      entries?.filter(
        (entry) =>
          (isLoud || !isQuiet(entry)) &&
          (topic === 'all' || topicOf(entry.operation) === topic) &&
          (wanted === '' || hasWords(searchText(entry, names), wanted)),
      ),
    [entries, isLoud, topic, wanted, names],
  );
  const group = target === undefined ? undefined : groupById.get(target.record.id);
  return (
    <>
      <div className="row">
        <TextInput
          className="grow"
          miw={220}
          aria-label="Search the activity"
          placeholder="Search by person, group, device, port, address or request"
          leftSection={<SearchIcon size={16} />}
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
        />
        <Checkbox
          label="Also what agents report"
          checked={isLoud}
          onChange={(event) => setLoud(event.currentTarget.checked)}
        />
      </div>
      <div>
        <Segmented aria-label="What about" value={topic} onChange={setTopic} data={topicChoices} />
      </div>
      <section className="card" aria-label="Activity">
        {entries === undefined ? <ListState query={query} loading="Loading the activity…" /> : null}
        {shown?.length === 0 ? (
          <Empty icon={<EventsIcon size={40} />} title={entries?.length === 0 ? 'Nothing yet' : 'Nothing matches'}>
            {entries?.length === 0
              ? 'Whatever somebody does in this organization is written down here.'
              : hasNextPage
                ? 'Nothing in what is loaded so far. Older entries can be loaded below.'
                : 'No entry has this in it.'}
          </Empty>
        ) : null}
        {byDay(shown ?? [], new Date()).map((day) => (
          <div key={day.name}>
            <h2 className="day">{day.name}</h2>
            <ul className="feed">
              {day.entries.map((entry) => (
                <Entry key={entry.id} entry={entry} org={org} names={names} restore={governs ? setTarget : undefined} />
              ))}
            </ul>
          </div>
        ))}
        {entries === undefined || entries.length === 0 ? null : (
          <div className="card-body row between">
            <span className="small dimmed">
              {shown?.length === entries.length
                ? plural(entries.length, 'entry', 'entries')
                : `${grouped(shown?.length ?? 0)} of ${plural(entries.length, 'entry', 'entries')}`}
              {hasNextPage ? ' loaded' : ''}
            </span>
            {hasNextPage ? (
              <Button variant="default" loading={isFetchingNextPage} onClick={() => void fetchNextPage()}>
                Load older entries
              </Button>
            ) : null}
          </div>
        )}
      </section>
      <Restore org={org} group={group} target={target} close={() => setTarget(undefined)} />
    </>
  );
}
