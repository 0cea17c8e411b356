/** Owns the activity feed for owners: the audit log by day, newest first; new entries appear as they happen. */
import { Button, Checkbox, TextInput } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import { useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { useCallback, useDeferredValue, useEffect, useMemo, useState, type ReactNode } from 'react';
import { Confirm, type Confirmation } from '../components/confirm.tsx';
import { FilterBar, FilterPicker, SearchField, type Choice, type FilterChip } from '../components/filter-bar.tsx';
import { EventsIcon } from '../components/icons.tsx';
import { Empty, ListState } from '../components/placeholders.tsx';
import { Segmented } from '../components/segmented.tsx';
import { Restore, type Target } from '../group/restore.tsx';
import { beginOf, isInSearch, isSearching, noSearch, type ActivitySearch } from '../model/activity-search.ts';
import { byDay, hasWords, isQuiet, searchText, topicChoices, topicOf } from '../model/activity.ts';
import { grouped } from '../../client/words/number.ts';
import { plural } from '../model/rule-text.ts';
import { deviceName } from '../state/live.ts';
import { useMembers, useRights, useSnapshot } from '../state/organization.ts';
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

/** Entries that fill a window, and pages that a search reads by itself: more where it knows where to end. */
const [enough, mostPages, mostPagesToBegin] = [20, 20, 200];

/** A search reads older entries by itself until it has found some, or all of its day, or all since what it names was made. */
function useOlder({
  search,
  found,
  query: { data, hasNextPage, isFetching, fetchNextPage },
}: {
  readonly search: ActivitySearch;
  readonly found: number;
  readonly query: ReturnType<typeof useAudit>;
}): void {
  const pages = data?.pages;
  const oldest = pages?.at(-1)?.value.at(-1)?.at;
  const begin = beginOf(search);
  const isSpanOpen = begin !== undefined && oldest !== undefined && Date.parse(oldest) >= begin;
  const isWanted =
    isSearching(search) &&
    hasNextPage &&
    !isFetching &&
    (pages?.length ?? 0) < (begin === undefined ? mostPages : mostPagesToBegin) &&
    (begin === undefined ? found < enough : isSpanOpen);
  useEffect(() => {
    if (isWanted) void fetchNextPage();
  }, [isWanted, fetchNextPage]);
}

function ActivityFilters({
  search,
  children,
}: {
  readonly search: ActivitySearch;
  /** What else can be chosen. */
  readonly children: ReactNode;
}): ReactNode {
  const navigate = useNavigate({ from: '/o/$org/activity' });
  const { devices, groups } = useSnapshot();
  const { data: members = [] } = useMembers();
  const filter = useCallback(
    (next: { readonly [Name in keyof ActivitySearch]?: string | undefined }): void =>
      void navigate({
        search: (before) =>
          Object.fromEntries(Object.entries({ ...before, ...next }).filter(([, value]) => value !== undefined)),
        replace: true,
      }),
    [navigate],
  );
  const onSearch = useCallback((q: string | undefined) => filter({ q }), [filter]);
  const people = members.map(({ user_id, username }): Choice => ({ value: user_id, label: username }));
  const deviceChoices = devices.map((device): Choice => ({ value: device.id, label: deviceName(device) }));
  const groupChoices = groups.map(({ id, group_name }): Choice => ({ value: id, label: group_name }));
  const chip = (of: string, name: keyof ActivitySearch, choices: readonly Choice[] = []): readonly FilterChip[] => {
    const value = search[name];
    const label = choices.find((choice) => choice.value === value)?.label;
    return value === undefined ? [] : [{ of, value: label ?? value, clear: () => filter({ [name]: undefined }) }];
  };
  return (
    <FilterBar
      label="Activity"
      search={
        <SearchField
          label="Search the activity"
          placeholder="Person, group or device"
          q={search.q}
          onChange={onSearch}
        />
      }
      chips={[
        ...chip('Person', 'by', people),
        ...chip('Device', 'device', deviceChoices),
        ...chip('Group', 'group', groupChoices),
        ...chip('Day', 'day'),
      ]}
      clearAll={isSearching(search) ? { label: 'Show everything', act: () => filter(noSearch) } : undefined}
    >
      <FilterPicker of="person" all="Everyone" data={people} value={search.by} onChange={(by) => filter({ by })} />
      <FilterPicker
        of="device"
        all="Every device"
        data={deviceChoices}
        value={search.device}
        onChange={(device) => filter({ device })}
      />
      <FilterPicker
        of="group"
        all="Every group"
        data={groupChoices}
        value={search.group}
        onChange={(group) => filter({ group })}
      />
      <TextInput
        type="date"
        aria-label="Filter by day"
        value={search.day ?? ''}
        onChange={(event) => filter({ day: event.currentTarget.value === '' ? undefined : event.currentTarget.value })}
      />
      {children}
    </FilterBar>
  );
}

export function AuditFeed(): ReactNode {
  const { org } = useParams({ from: '/o/$org/activity' });
  const { groupById } = useSnapshot();
  const { governs } = useRights();
  const names = useSentenceNames();
  const search = useSearch({ from: '/o/$org/activity' });
  const [topic, setTopic] = useState('all');
  const [isLoud, setLoud] = useState(false);
  const [target, setTarget] = useState<Target>();
  const [confirmation, setConfirmation] = useState<Confirmation>();
  const query = useAudit(org);
  const { data, fetchNextPage, hasNextPage, isFetchingNextPage } = query;
  const entries = useMemo(() => data?.pages.flatMap(({ value }) => value), [data]);
  const narrowed = useDeferredValue(search);
  const wanted = (narrowed.q ?? '').trim().toLowerCase();
  const shown = useMemo(
    () =>
      entries?.filter(
        (entry) =>
          (isLoud || !isQuiet(entry)) &&
          (topic === 'all' || topicOf(entry.operation) === topic) &&
          isInSearch(entry, narrowed) &&
          (wanted === '' || hasWords(searchText(entry, names), wanted)),
      ),
    [entries, isLoud, topic, narrowed, wanted, names],
  );
  useOlder({ search: narrowed, found: shown?.length ?? 0, query });
  const group = target === undefined ? undefined : groupById.get(target.record.id);
  return (
    <>
      <ActivityFilters search={search}>
        <Checkbox
          label="Also what agents report"
          checked={isLoud}
          onChange={(event) => setLoud(event.currentTarget.checked)}
        />
      </ActivityFilters>
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
                <Entry
                  key={entry.id}
                  entry={entry}
                  org={org}
                  names={names}
                  restore={governs ? setTarget : undefined}
                  confirm={governs ? setConfirmation : undefined}
                />
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
      <Confirm confirmation={confirmation} close={() => setConfirmation(undefined)} />
      <Restore org={org} group={group} target={target} close={() => setTarget(undefined)} />
    </>
  );
}
