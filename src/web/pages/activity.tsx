/** Owns the activity page: the audit log for owners, and live changes for members. */
import { useDeferredValue, useEffect, useMemo, useState, type ReactNode } from 'react';
import { useRights, deviceName, useMembers, useSnapshot } from '../state/organization.ts';
import { Page, Ago } from '../components/page.tsx';
import { Button, Checkbox, SegmentedControl, TextInput } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import { useParams, useSearch } from '@tanstack/react-router';
import { Confirm, type Confirmation } from '../components/dialog.tsx';
import {
  deviceChoices,
  groupChoices,
  memberChoices,
  FilterBar,
  useFilter,
  type FilterColumn,
} from '../components/filter-bar.tsx';
import { EventsIcon } from '../components/icons.tsx';
import { Empty, ListState } from '../components/placeholders.tsx';
import { Restore, type Target } from '../group/restore.tsx';
import {
  beginOf,
  isInSearch,
  isSearching,
  byDay,
  hasWords,
  isQuiet,
  searchText,
  topicChoices,
  topicOf,
  type ActivitySearch,
} from '../model/activity.ts';
import { grouped, plural } from '../../client/words/number.ts';
import { useSession } from '../state/session.ts';
import { foldEntries } from '../../client/words/log-lines.ts';
import { Deed, useSentenceNames, Words } from '../activity/entry.tsx';
import type { Change } from '../../client/cache.ts';
import { changeSentence, type Names, type Sentence } from '../../client/words/sentence.ts';

export function ActivityPage(): ReactNode {
  const { isOwner } = useRights();
  return (
    <Page
      title="Activity"
      about={
        isOwner
          ? 'Who did what, with before and after. Changes of groups and devices can be taken back.'
          : 'What changes while this page is open.'
      }
    >
      {isOwner ? <AuditFeed /> : <LiveFeed />}
    </Page>
  );
}

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
  const filter = useFilter();
  const { devices, groups } = useSnapshot();
  const { data: members = [] } = useMembers();
  const columns: readonly FilterColumn[] = [
    { name: 'by', title: 'Person', placeholder: 'Everyone', choices: memberChoices(members) },
    { name: 'device', title: 'Device', placeholder: 'Every device', choices: deviceChoices(devices) },
    { name: 'group', title: 'Group', placeholder: 'Every group', choices: groupChoices(groups) },
    {
      name: 'day',
      title: 'Day',
      field: (
        <TextInput
          type="date"
          aria-label="Filter by day"
          value={search.day ?? ''}
          onChange={(event) => filter({ day: event.currentTarget.value || undefined })}
        />
      ),
    },
  ];
  return (
    <FilterBar
      label="Activity"
      search={{ name: 'q', title: 'Search the activity', placeholder: 'Person, group or device' }}
      columns={columns}
      values={{ ...search }}
      filter={filter}
      clear="Show everything"
    >
      {children}
    </FilterBar>
  );
}

function AuditFeed(): ReactNode {
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
        <SegmentedControl aria-label="What about" value={topic} onChange={setTopic} data={[...topicChoices]} />
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
            <ul className="rows feed">
              {foldEntries(day.entries).map((deed) => (
                <Deed
                  key={deed[0].id}
                  entries={deed}
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
      {target === undefined ? null : <Restore group={group} target={target} close={() => setTarget(undefined)} />}
    </>
  );
}

/** Undefined for what only an agent cares about. */
function sentenceOfChange(change: Change, names: Names): Sentence | undefined {
  const noun = change.kind === 'device' ? 'device' : 'group';
  if (change.type === 'updated') return changeSentence(change.old, change.new, names);
  const record = change.type === 'deleted' ? change.old : change.new;
  const subject = 'group_name' in record ? record.group_name : deviceName(record);
  return { before: `${change.type === 'deleted' ? 'deleted' : 'added'} ${noun}`, subject, after: '' };
}

function LiveFeed(): ReactNode {
  const { feed } = useSnapshot();
  const names = useSentenceNames();
  const told = feed.flatMap(({ number, at, change }) => {
    const sentence = sentenceOfChange(change, names);
    return sentence === undefined ? [] : [{ number, at, id: change.id, sentence }];
  });
  return (
    <section className="card" aria-label="Activity">
      {told.length === 0 ? (
        <Empty icon={<EventsIcon size={40} />} title="Nothing has changed yet">
          Changes appear here as they happen. Only owners see who made them and what was there before.
        </Empty>
      ) : (
        <ul className="rows feed" aria-live="polite">
          {told.map(({ number, at, id, sentence }) => (
            <li key={number} className="deed">
              <span className="small dimmed feed-time">
                <Ago at={at} />
              </span>
              <p className="grow breaks">
                <Words who={undefined} sentence={sentence} subjectId={id} />
              </p>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
