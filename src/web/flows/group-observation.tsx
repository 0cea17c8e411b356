/** Owns what a watch-only group would have done with the observed traffic, on its page, and why that is not known where it is not. */
import { useQuery, type UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { SecurityGroup } from '../../api/group.ts';
import type { Organization } from '../../api/organization.ts';
import type { GroupObservation } from '../../api/usage/group-observation.ts';
import { asDecided, coverageWords, wouldWords } from '../../client/words/observation.ts';
import { isEnforced } from '../../policy/effective.ts';
import { ListState } from '../components/placeholders.tsx';
import { Ago, Card } from '../components/page.tsx';
import { plural } from '../../client/words/number.ts';
import { useOrganization, useRights } from '../state/organization.ts';
import { useAskedOnChange } from '../state/overview.ts';
import { useSession } from '../state/session.ts';
import { FlowList } from './flow-list.tsx';
import { flowRows } from './flow-search.ts';
import { RecordButton } from './observe-setting.tsx';

const question = 'observation';
/** Agents report once a minute. */
const everyMs = 60_000;
const shownSums = 20;

function Sums({
  title,
  of,
  empty,
}: {
  readonly title: string;
  readonly of: GroupObservation['would_refuse'];
  /** Why there are none. */
  readonly empty: ReactNode;
}): ReactNode {
  const more = of.sums - of.flows.length;
  return (
    <section aria-label={title}>
      <div className="card-head card-head-dense">
        <h3>{title}</h3>
        {of.packets === 0 ? null : <span className="small dimmed">{plural(of.packets, 'packet')}</span>}
      </div>
      {of.flows.length === 0 ? (
        <div className="card-body row between">{empty}</div>
      ) : (
        <FlowList rows={flowRows(of.flows.map(asDecided))} label={title} would />
      )}
      {more > 0 ? <p className="card-body small dimmed">And {plural(more, 'more connection')}.</p> : null}
    </section>
  );
}

function Found({
  found,
  observe,
}: {
  readonly found: GroupObservation;
  readonly observe: Organization['observe'] | undefined;
}): ReactNode {
  if (found.devices === 0)
    return (
      <p className="card-body">
        No device would have the group, so there is no traffic to compare. Attach it to devices, or let it apply by
        label.
      </p>
    );
  const isAdmittedKnown = observe === 'all' && found.observed > 0;
  const isRefusedKnown = (observe === 'all' || observe === 'refused') && found.observed_refused > 0;
  const notReported = 'No device has reported traffic yet. Agents report once a minute.';
  return (
    <>
      <div className="card-body stack tight">
        {isAdmittedKnown ? <p>{wouldWords(found)}</p> : null}
        <p className="small dimmed">{coverageWords(found)}</p>
      </div>
      <Sums
        title="Would have refused"
        of={found.would_refuse}
        empty={
          isAdmittedKnown ? (
            'Nothing of the admitted traffic that was observed.'
          ) : observe === 'all' ? (
            notReported
          ) : (
            <>
              <span>Admitted traffic is not recorded, so it is not known what the group would have refused.</span>
              <RecordButton observe="all" />
            </>
          )
        }
      />
      <Sums
        title="Would have admitted"
        of={found.would_admit}
        empty={
          isRefusedKnown
            ? 'Nothing of the refused traffic that was observed.'
            : observe === 'all' || observe === 'refused'
              ? notReported
              : 'Refused traffic is not recorded, so it is not known what the group would have admitted.'
        }
      />
    </>
  );
}

/** For owners and the user of the group. */
export function useGroupObservation(group: SecurityGroup, isAsked = true): UseQueryResult<GroupObservation> {
  const { client } = useSession();
  useAskedOnChange(question);
  return useQuery({
    queryKey: [question, group.org_id, group.id],
    queryFn: ({ signal }) => client.groups.observation(group.org_id, group.id, { limit: shownSums, signal }),
    refetchInterval: everyMs,
    enabled: isAsked,
  });
}

/** For owners and the user of the group. */
export function WatchedGroup({ group }: { readonly group: SecurityGroup }): ReactNode {
  const { isOwner, me } = useRights();
  const observe = useOrganization()?.observe;
  const mayRead = isOwner || group.user_id === me.id;
  const isWatched = !isEnforced(group) && mayRead;
  const query = useGroupObservation(group, isWatched);
  if (!isWatched) return null;
  const { data } = query;
  return (
    <Card
      title="What this group would have done"
      about={
        data === undefined ? null : (
          <span className="small dimmed">
            since <Ago at={data.since} />
          </span>
        )
      }
    >
      <ListState query={query} loading="Comparing the traffic…" />
      {data === undefined ? null : <Found found={data} observe={observe} />}
    </Card>
  );
}
