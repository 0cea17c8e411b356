/** Owns the last changes on the overview: who did what, for owners; which records changed, for members. */
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useMemo, type ReactNode } from 'react';
import { actorName } from '../../client/words/action.ts';
import { sentenceOf } from '../../client/words/sentence.ts';
import { Words } from '../activity/entry.tsx';
import { useSentenceNames } from '../activity/names.ts';
import { Ago } from '../components/time.tsx';
import { Card } from '../components/page.tsx';
import { isQuiet } from '../model/activity.ts';
import { deviceName } from '../state/live.ts';
import { useRights, useSnapshot } from '../state/organization.ts';
import { useAskedOnChange } from '../state/overview.ts';
import { useSession } from '../state/session.ts';

const shownChanges = 7;
/** For what makes no event: members, keys, sign-ins. */
const everyMs = 15_000;

/** What people did; what only repeats itself is left to the page of all activity. */
function Deeds({ org }: { readonly org: string }): ReactNode {
  const { client } = useSession();
  const names = useSentenceNames();
  useAskedOnChange('last changes');
  const { data } = useQuery({
    queryKey: ['last changes', org],
    queryFn: ({ signal }) => client.audit.list(org, { limit: 40, signal }),
    refetchInterval: everyMs,
  });
  const entries = data?.filter((entry) => !isQuiet(entry)).slice(0, shownChanges);
  if (entries?.length === 0) return <p className="card-body small dimmed">Nothing has changed yet.</p>;
  return (
    <ul className="feed feed-dense">
      {entries?.map((entry) => (
        <li key={entry.id}>
          <span className="grow words">
            <Words who={actorName(entry)} sentence={sentenceOf(entry, names)} subjectId={entry.subject_id} org={org} />
          </span>
          <span className="small dimmed">
            <Ago at={entry.at} />
          </span>
        </li>
      ))}
    </ul>
  );
}

function Records({ org }: { readonly org: string }): ReactNode {
  const { devices, groups } = useSnapshot();
  const latest = useMemo(() => {
    const all = [
      ...devices.map((device) => ({ kind: 'device' as const, name: deviceName(device), ...device })),
      ...groups.map((group) => ({ kind: 'group' as const, name: group.group_name, ...group })),
    ];
    return all.toSorted((a, b) => b.revision - a.revision).slice(0, shownChanges);
  }, [devices, groups]);
  return (
    <ul className="feed feed-dense">
      {latest.map(({ id, kind, name, updated_at }) => (
        <li key={id}>
          <span className="grow">
            {kind === 'device' ? 'Device ' : 'Group '}
            {kind === 'device' ? (
              <Link className="plain-link" to="/o/$org/devices/$device" params={{ org, device: id }}>
                <strong>{name}</strong>
              </Link>
            ) : (
              <Link className="plain-link" to="/o/$org/groups/$group" params={{ org, group: id }}>
                <strong>{name}</strong>
              </Link>
            )}
          </span>
          <span className="small dimmed">
            <Ago at={updated_at} />
          </span>
        </li>
      ))}
    </ul>
  );
}

export function LastChanges({ org }: { readonly org: string }): ReactNode {
  const { isOwner } = useRights();
  return (
    <Card
      title="Last changes"
      dense
      about={
        <Link className="link small" to="/o/$org/activity" params={{ org }}>
          All activity
        </Link>
      }
    >
      {isOwner ? <Deeds org={org} /> : <Records org={org} />}
    </Card>
  );
}
