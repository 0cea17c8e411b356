/** Owns the few flows that were refused last, on the pages of a device, of a group and of the fleet, and which flows have the button "Allow this". */
import { Link } from '@tanstack/react-router';
import { useMemo, lazy, Suspense, useState, type ReactNode } from 'react';
import { useFlows } from '../state/flows.ts';
import { useLive, useOrganization, useRights, useSnapshot } from '../state/organization.ts';
import { FlowList } from './flow-list.tsx';
import { flowRows } from './flow-search.ts';
import type { Flow } from '../../api/flows/flow.ts';
import { groupsOn } from '../model/device-policy.ts';
import { onDemand } from '../state/load-ahead.ts';
import { isAllowable } from './flow-draft.ts';

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

const AllowDialog = lazy(onDemand(async () => ({ default: (await import('./allow-dialog.tsx')).AllowDialog })));

interface AllowThis {
  /** What the button of a flow does; undefined where there is none: a rule is not what is missing, or the person may not write it. */
  readonly act: (flow: Flow) => ((flow: Flow) => void) | undefined;
  readonly dialog: ReactNode;
}

export function useAllowThis(): AllowThis {
  const { deviceById, groups, groupById } = useSnapshot();
  const { editDevice, editGroup } = useRights();
  const [flow, setFlow] = useState<Flow>();
  const mayAllow = (id: string): boolean => {
    const device = deviceById.get(id);
    if (device === undefined) return false;
    return (
      editDevice(device) ||
      groupsOn(device, { groups, groupById }).some(({ group }) => group !== undefined && editGroup(group))
    );
  };
  return {
    act: (one) => (isAllowable(one) && mayAllow(one.device_id) ? setFlow : undefined),
    dialog:
      flow === undefined ? null : (
        <Suspense>
          <AllowDialog flow={flow} close={() => setFlow(undefined)} />
        </Suspense>
      ),
  };
}
