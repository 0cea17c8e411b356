/** Owns the timeline of a group: every state with its rule changes, and a restore. */
import { Button } from '@mantine/core';
import { useState, type ReactNode } from 'react';
import type { SecurityGroup } from '../../api/group.ts';
import type { GroupState } from '../../api/history/states.ts';
import { groupChanges } from '../../client/words/changes.ts';
import { History } from '../components/history.tsx';
import { useDeviceNames } from '../state/fleet.ts';
import { useRights } from '../state/organization.ts';
import { useSession } from '../state/session.ts';
import { Restore, type Target } from './restore.tsx';

const recordOf = (state: GroupState | undefined): SecurityGroup | undefined =>
  state === undefined || state.type === 'delete' ? undefined : state.record;

export function Timeline({ group }: { readonly group: SecurityGroup }): ReactNode {
  const { client } = useSession();
  const { editGroup } = useRights();
  const names = useDeviceNames();
  const [target, setTarget] = useState<Target>();
  const { org_id, id } = group;
  return (
    <History<GroupState>
      title="Timeline"
      about="Every state is kept, and each can be restored."
      of={group}
      load={(query, signal) =>
        client.request('listSecurityGroupHistory', { params: { org_id, sg_id: id }, query, signal })
      }
      linesOf={(before, state) => groupChanges(recordOf(before), recordOf(state), names)}
      verb="created it"
      action={(state) =>
        editGroup(group) && state.type === 'change' ? (
          <Button
            size="compact-sm"
            variant="default"
            onClick={() => setTarget(state)}
            aria-label={`Restore this: revision ${state.revision}`}
          >
            Restore this
          </Button>
        ) : null
      }
    >
      {target === undefined ? null : (
        <Restore org={org_id} group={group} target={target} close={() => setTarget(undefined)} />
      )}
    </History>
  );
}
