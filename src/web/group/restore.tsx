/** Owns the timeline of a group, and the way back to an older state: who gains and loses access by it, what to look at twice, then the step itself. */
import { useQueryClient } from '@tanstack/react-query';
import { useMemo, useState, type ReactNode } from 'react';
import type { SecurityGroup, WrittenGroup } from '../../api/group.ts';
import { RingfenceError } from '../../client/error.ts';
import { ChangePreview } from '../change/change-preview.tsx';
import { DialogButton, FormDialog } from '../components/dialog.tsx';
import { Ago, SmallButton } from '../components/page.tsx';
import { notify, writeOrAsk, useWrite } from '../state/write.tsx';
import { adviceOn } from '../model/advice.ts';
import { contentOf, difference } from '../model/draft.ts';
import { countLabels } from '../model/far-end.ts';
import { restoreChange } from './restore-change.ts';
import { devicesNamed, devicesOf } from '../../organization/of-records.ts';
import { plural } from '../../client/words/number.ts';
import { useDeviceNames, useSnapshot, useRights, useLive } from '../state/organization.ts';
import { useSession } from '../state/session.ts';
import { TryDialog, type TrialQuery } from '../trial/try-dialog.tsx';
import { Changes } from './preview.tsx';
import type { GroupState } from '../../api/history/states.ts';
import { groupChanges } from '../../client/words/changes.ts';
import { History } from '../components/history.tsx';

/** The state to go back to. */
export interface Target {
  readonly record: SecurityGroup;
  readonly revision: number;
  readonly at: string;
}

function What({ group, target }: { readonly group: SecurityGroup | undefined; readonly target: Target }): ReactNode {
  const names = useDeviceNames();
  const { devices } = useSnapshot();
  const then = contentOf(target.record);
  const now = group === undefined ? undefined : contentOf(group);
  const changes = difference(now ?? { ...then, inbound_rules: [], outbound_rules: [] }, then);
  const advice = adviceOn(then, names).filter(({ tone }) => tone === 'warn');
  const change = useMemo(
    () =>
      restoreChange(target.record, {
        now: group,
        isGone: names.isGone,
        labels: new Set(countLabels(devices).keys()),
        time: Date.now(),
      }),
    [target, group, names, devices],
  );
  return (
    <>
      <ChangePreview change={change} />
      {advice.map(({ text }) => (
        <p key={text} className="note note-warn">
          {text}
        </p>
      ))}
      <details className="disclosure" open>
        <summary>{plural(changes.count, 'change')} of the group</summary>
        <Changes of={changes} />
      </details>
      <p className="small dimmed">
        {group === undefined ? 'The group is deleted now. It comes back ' : 'The group becomes what it was '}
        <Ago at={target.at} />, as a new revision. You can restore the present state later.
      </p>
    </>
  );
}

interface RestoreProps {
  /** As it is now; undefined where it is deleted. */
  readonly group: SecurityGroup | undefined;
  readonly target: Target;
  readonly close: () => void;
}

export function Restore({ group, target, close }: RestoreProps): ReactNode {
  const { id: org } = useLive();
  const { devices, groups } = useSnapshot();
  const { client } = useSession();
  const queries = useQueryClient();
  const put = (id: string, revision: number, ifMatch: number | undefined, trial?: TrialQuery): Promise<WrittenGroup> =>
    writeOrAsk((agreed) =>
      client.history.restore(org, id, { revision }, { ...(ifMatch !== undefined && { ifMatch }), ...trial, ...agreed }),
    );
  /** The dialog shows what is written: a save by someone else meanwhile is not overwritten. */
  const restore = async (trial?: TrialQuery): Promise<WrittenGroup> => {
    const { record, revision } = target;
    const saved = await put(record.id, revision, group?.revision, trial).catch((error: unknown) => {
      throw error instanceof RingfenceError && error.code === 'precondition_failed'
        ? new Error('Someone saved this group a moment ago. Look at the changes again, then restore.')
        : error;
    });
    close();
    await queries.invalidateQueries({ queryKey: ['audit', org] });
    return saved;
  };
  const write = useWrite(async () => {
    const before = group?.revision;
    const saved = await restore();
    notify(
      [`${saved.group_name} is restored.`, ...(saved.warnings ?? []).map(({ detail }) => detail)].join(' '),
      before === undefined ? undefined : () => put(target.record.id, before, saved.revision),
    );
  });
  return (
    <FormDialog
      title={`Restore ${target.record.group_name}?`}
      size="xl"
      close={close}
      write={write}
      action="Restore it"
      others={
        <DialogButton
          name="Try it first"
          dialog={(done) => (
            <TryDialog
              title={`Try the older state of ${target.record.group_name}`}
              of={[
                ...devicesOf(target.record.id, devices, groups),
                ...devicesNamed(target.record.applies_to ?? [], devices),
              ]}
              close={done}
              start={restore}
            />
          )}
        />
      }
    >
      <What group={group} target={target} />
    </FormDialog>
  );
}

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
          <SmallButton onClick={() => setTarget(state)} aria-label={`Restore this: revision ${state.revision}`}>
            Restore this
          </SmallButton>
        ) : null
      }
    >
      {target === undefined ? null : <Restore group={group} target={target} close={() => setTarget(undefined)} />}
    </History>
  );
}
