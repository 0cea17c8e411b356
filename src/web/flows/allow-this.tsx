/** Owns which flows have the button "Allow this", and its dialog, whose code comes when it is wanted. */
import { lazy, Suspense, useState, type ReactNode } from 'react';
import type { Flow } from '../../api/flows/flow.ts';
import { groupsOn } from '../model/device-policy.ts';
import { onDemand } from '../state/load-ahead.ts';
import { useRights, useSnapshot } from '../state/organization.ts';
import { isAllowable } from './flow-draft.ts';

const AllowDialog = lazy(onDemand(async () => ({ default: (await import('./allow-dialog.tsx')).AllowDialog })));

export interface AllowThis {
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
