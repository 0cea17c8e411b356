/** Owns the audit for the organization's owner: who did what, when, from where and with which credential, newest first. */
import { Button, SegmentedControl, TextInput } from '@mantine/core';
import { useInfiniteQuery } from '@tanstack/react-query';
import { Link, useParams } from '@tanstack/react-router';
import { useDeferredValue, useMemo, useState, type ReactNode } from 'react';
import type { AuditEntry } from '../../api/audit.ts';
import { AuditIcon, SearchIcon } from '../components/icons.tsx';
import { actionText, changedFields } from '../../client/audit-text.ts';
import { auditText, credentialName, actionKind, hasWords, type ActionKind } from '../model/audit.ts';
import { plural } from '../model/rule-text.ts';
import { Empty, Failed, Loading } from '../components/placeholders.tsx';
import { Tag, type Tone } from '../components/tag.tsx';
import { Ago } from '../components/time.tsx';
import { deviceName } from '../state/live.ts';
import { useMembers, useSnapshot } from '../state/organization.ts';
import { useSession } from '../state/session.ts';

const pageSize = 100;
/** The end of an id: ids begin with the time they were made at, so that those of one day begin alike. */
const shortId = (id: string): string => id.slice(-8);
const tones: { readonly [K in ActionKind]: Tone } = { made: 'good', changed: 'accent', ended: 'bad', entered: 'plain' };

/** What was touched, by its name where it still has one. */
function Subject({ entry, org }: { readonly entry: AuditEntry; readonly org: string }): ReactNode {
  const { deviceById, groupById } = useSnapshot();
  const { data: members = [] } = useMembers();
  const id = entry.subject_id;
  if (id === undefined) return null;
  const device = deviceById.get(id);
  if (device !== undefined) {
    return (
      <Link className="plain-link" to="/o/$org/devices/$device" params={{ org, device: id }}>
        <strong>{deviceName(device)}</strong>
      </Link>
    );
  }
  const group = groupById.get(id);
  if (group !== undefined) {
    return (
      <Link className="plain-link" to="/o/$org/groups/$group" params={{ org, group: id }}>
        <strong>{group.group_name}</strong>
      </Link>
    );
  }
  const member = members.find(({ user_id }) => user_id === id);
  if (member !== undefined) return <strong>{member.username}</strong>;
  return (
    <span className="mono small" title={id}>
      {shortId(id)}
    </span>
  );
}

function Entry({ entry, org }: { readonly entry: AuditEntry; readonly org: string }): ReactNode {
  const fields = changedFields(entry);
  return (
    <li>
      <span className="small dimmed feed-time">
        <Ago at={entry.at} />
      </span>
      <div className="grow stack tight">
        <p className="row">
          <strong>{entry.username}</strong>
          <Tag tone={tones[actionKind(entry.operation)]}>{actionText(entry)}</Tag>
          <Subject entry={entry} org={org} />
          {fields.length === 0 ? null : <span className="small dimmed">{fields.join(', ')}</span>}
        </p>
        <p className="small dimmed">
          from <span className="mono">{entry.address}</span> with {credentialName(entry.credential.kind)}
          {entry.credential.id === undefined ? '' : ` ${shortId(entry.credential.id)}`} · request{' '}
          <span className="mono">{entry.request_id}</span>
        </p>
      </div>
      <span className="small dimmed mono">{entry.revision === undefined ? '' : `r${entry.revision}`}</span>
    </li>
  );
}

export function AuditPage(): ReactNode {
  const { org } = useParams({ from: '/o/$org/audit' });
  const { client } = useSession();
  const [text, setText] = useState('');
  const [kind, setKind] = useState('all');
  const { data, error, refetch, fetchNextPage, hasNextPage, isFetchingNextPage } = useInfiniteQuery({
    queryKey: ['audit', org],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam, signal }) =>
      client.request('listAudit', {
        params: { org_id: org },
        query: { limit: pageSize, ...(pageParam === undefined ? {} : { after: pageParam }) },
        signal,
      }),
    getNextPageParam: ({ next }) => next,
    // Whoever reads far back is not moved about.
    refetchInterval: ({ state }) => ((state.data?.pages.length ?? 0) > 1 ? false : 5_000),
  });
  const entries = useMemo(() => data?.pages.flatMap(({ value }) => value), [data]);
  const wanted = useDeferredValue(text).trim().toLowerCase();
  const shown = useMemo(
    () =>
      entries?.filter(
        (entry) => (kind === 'all' || actionKind(entry.operation) === kind) && hasWords(auditText(entry), wanted),
      ),
    [entries, kind, wanted],
  );
  return (
    <div className="page">
      <div className="page-head">
        <div>
          <h1>Audit</h1>
          <p className="dimmed">
            Every change, by whom, from where and with which credential. Only the owner reads it.
          </p>
        </div>
        <SegmentedControl
          aria-label="Which actions"
          value={kind}
          onChange={setKind}
          data={[
            { value: 'all', label: 'All' },
            { value: 'made', label: 'Made' },
            { value: 'changed', label: 'Changed' },
            { value: 'ended', label: 'Ended' },
          ]}
        />
      </div>
      <TextInput
        aria-label="Search the audit"
        placeholder="Search by person, action, field, address, id or request"
        leftSection={<SearchIcon size={16} />}
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
      />
      <section className="card" aria-label="Audit">
        {error !== null && entries === undefined ? <Failed error={error} retry={() => void refetch()} /> : null}
        {entries === undefined && error === null ? (
          <div className="card-body">
            <Loading what="Loading the audit…" />
          </div>
        ) : null}
        {shown?.length === 0 ? (
          <Empty icon={<AuditIcon size={40} />} title={entries?.length === 0 ? 'Nothing yet' : 'Nothing matches'}>
            {entries?.length === 0
              ? 'Whatever is changed in this organization is written down here.'
              : hasNextPage
                ? 'Nothing in what is loaded so far. Older entries can be loaded below.'
                : 'No entry has this in it.'}
          </Empty>
        ) : null}
        {shown === undefined || shown.length === 0 ? null : (
          <ul className="feed wraps">
            {shown.map((entry) => (
              <Entry key={entry.id} entry={entry} org={org} />
            ))}
          </ul>
        )}
        {entries === undefined || entries.length === 0 ? null : (
          <div className="card-body row between">
            <span className="small dimmed">
              {shown?.length === entries.length
                ? plural(entries.length, 'entry', 'entries')
                : `${(shown?.length ?? 0).toLocaleString('en')} of ${plural(entries.length, 'entry', 'entries')}`}
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
    </div>
  );
}
