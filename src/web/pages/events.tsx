/** Owns the feed: what changed in the organization since this page was opened, as it happens. */
import { SegmentedControl } from '@mantine/core';
import { Link, useParams } from '@tanstack/react-router';
import { useState, type ReactNode } from 'react';
import type { Change } from '../../client/cache.ts';
import { EventsIcon } from '../components/icons.tsx';
import { difference } from '../model/group-diff.ts';
import { contentOf } from '../model/draft.ts';
import { Empty } from '../components/placeholders.tsx';
import { Tag, type Tone } from '../components/tag.tsx';
import { Ago } from '../components/time.tsx';
import { deviceName, type FeedEntry } from '../state/live.ts';
import { useSnapshot } from '../state/organization.ts';

const words: { readonly [T in Change['type']]: readonly [Tone, string] } = {
  added: ['good', 'added'],
  updated: ['accent', 'changed'],
  deleted: ['bad', 'removed'],
};

const recordOf = (change: Change) => (change.type === 'deleted' ? change.old : change.new);

export function nameOfChange(change: Change): string {
  const record = recordOf(change);
  return 'group_name' in record ? record.group_name : deviceName(record);
}

/** What a person would say had changed. */
function summary(change: Change): string {
  if (change.type !== 'updated') return '';
  if (change.kind === 'security-groups') {
    const { inbound, outbound, name, description } = difference(contentOf(change.old), contentOf(change.new));
    const parts = [
      ...(['inbound', 'outbound'] as const).flatMap((direction) => {
        const { added, removed } = direction === 'inbound' ? inbound : outbound;
        return added.length + removed.length === 0 ? [] : [`${direction} +${added.length} −${removed.length}`];
      }),
      ...(name === undefined ? [] : ['name']),
      ...(description === undefined ? [] : ['description']),
    ];
    return parts.join(', ');
  }
  const before = change.old;
  const after = change.new;
  const lists = (before.security_groups ?? []).join() !== (after.security_groups ?? []).join();
  const fields = (Object.keys(after) as (keyof typeof after)[]).filter(
    (field) =>
      !['revision', 'updated_at', 'security_groups'].includes(field) &&
      JSON.stringify(before[field]) !== JSON.stringify(after[field]),
  );
  return [...(lists ? ['groups'] : []), ...fields.map((field) => field.replaceAll('_', ' '))].join(', ');
}

function Entry({ entry, org }: { readonly entry: FeedEntry; readonly org: string }): ReactNode {
  const { change } = entry;
  const [tone, word] = words[change.type];
  const name = nameOfChange(change);
  const revision = change.type === 'deleted' ? change.revision : change.new.revision;
  return (
    <li>
      <span className="small dimmed feed-time">
        <Ago at={entry.at} />
      </span>
      <Tag tone={tone}>{word}</Tag>
      <span className="grow clip">
        <span className="dimmed">{change.kind === 'device' ? 'Device ' : 'Group '}</span>
        {change.type === 'deleted' ? (
          <strong>{name}</strong>
        ) : change.kind === 'device' ? (
          <Link className="plain-link" to="/o/$org/devices/$device" params={{ org, device: change.id }}>
            <strong>{name}</strong>
          </Link>
        ) : (
          <Link className="plain-link" to="/o/$org/groups/$group" params={{ org, group: change.id }}>
            <strong>{name}</strong>
          </Link>
        )}{' '}
        <span className="small dimmed">{summary(change)}</span>
      </span>
      <span className="small dimmed mono">{revision === undefined ? '' : `r${revision}`}</span>
    </li>
  );
}

export function EventsPage(): ReactNode {
  const { org } = useParams({ from: '/o/$org/events' });
  const { feed } = useSnapshot();
  const [kind, setKind] = useState('all');
  const shown = feed.filter(({ change }) => kind === 'all' || change.kind === kind);
  return (
    <div className="page">
      <div className="page-head">
        <div>
          <h1>Events</h1>
          <p className="dimmed">
            Every change since you opened this page, over the same stream that the agents follow.
          </p>
        </div>
        <SegmentedControl
          aria-label="Which events"
          value={kind}
          onChange={setKind}
          data={[
            { value: 'all', label: 'All' },
            { value: 'device', label: 'Devices' },
            { value: 'security-groups', label: 'Groups' },
          ]}
        />
      </div>
      <section className="card" aria-label="Events">
        {shown.length === 0 ? (
          <Empty icon={<EventsIcon size={40} />} title="Nothing has changed yet">
            Leave this page open: changes by people, agents and programs appear here as they happen.
          </Empty>
        ) : (
          <ul className="feed" aria-live="polite">
            {shown.map((entry) => (
              <Entry key={entry.number} entry={entry} org={org} />
            ))}
          </ul>
        )}
      </section>
    </div>
  );
}
