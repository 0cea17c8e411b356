/** Owns the few flows that were refused last, on the pages of a device, of a group and of the fleet, with the way to all of them. */
import { Link } from '@tanstack/react-router';
import { useMemo, type ReactNode } from 'react';
import { useFlows } from '../state/flows.ts';
import { useLive, useOrganization } from '../state/organization.ts';
import { useAllowThis } from './allow-this.tsx';
import { FlowList } from './flow-list.tsx';
import { flowRows } from './flow-rows.ts';

const shownRows = 4;
/** The same traffic comes every minute: so many sums make a few rows. */
const sums = 60;
const everyMs = 30_000;

/** Nothing where traffic is not recorded, or nothing was refused. */
export function RecentlyRefused({
  device,
  group,
}: {
  /** Only of this device. */
  readonly device?: string;
  /** Only of devices with this group. */
  readonly group?: string;
}): ReactNode {
  const { id: org } = useLive();
  const observe = useOrganization()?.observe;
  const isRecorded = observe === 'refused' || observe === 'all';
  const { data } = useFlows(
    () =>
      isRecorded
        ? {
            verdict: 'refused',
            ...(device !== undefined && { device_id: device }),
            ...(group !== undefined && { group_id: group }),
          }
        : undefined,
    `recently refused ${device ?? ''} ${group ?? ''}`,
    { limit: sums, everyMs },
  );
  const rows = useMemo(() => flowRows(data?.pages.flatMap(({ value }) => value) ?? []).slice(0, shownRows), [data]);
  const allow = useAllowThis();
  if (rows.length === 0) return null;
  return (
    <section className="card" aria-label="Recently refused">
      {allow.dialog}
      <div className="card-head card-head-dense">
        <h2>Recently refused</h2>
        <Link
          className="link small"
          to="/o/$org/flows"
          params={{ org }}
          search={{ ...(device !== undefined && { device }), ...(group !== undefined && { group }) }}
        >
          All refused flows
        </Link>
      </div>
      <FlowList rows={rows} label="Recently refused" allow={allow.act} />
    </section>
  );
}
