/**
 * Owns the restore of an older state of a group: what it would change, on which devices, warnings, and the restore
 * itself.
 */
import { Button, Modal } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { Device } from '../../api/device.ts';
import type { SecurityGroup, WrittenGroup } from '../../api/group.ts';
import { RingfenceError } from '../../client/error.ts';
import { DialogFoot } from '../components/dialog-foot.tsx';
import { Ago } from '../components/time.tsx';
import { notify } from '../components/toast.tsx';
import { adviceOn } from '../model/advice.ts';
import { contentOf } from '../model/draft.ts';
import { difference } from '../model/group-diff.ts';
import { plural } from '../model/rule-text.ts';
import { writeOrAsk } from '../state/opening.ts';
import { useDeviceNames } from '../state/fleet.ts';
import { useSession } from '../state/session.ts';
import { useWrite } from '../state/write.ts';
import { Changes } from './changes.tsx';

/** The state to go back to. */
export interface Target {
  readonly record: SecurityGroup;
  readonly revision: number;
  readonly at: string;
}

function What({
  group,
  target,
  devices,
}: {
  readonly group: SecurityGroup | undefined;
  readonly target: Target;
  readonly devices: readonly Device[];
}): ReactNode {
  const names = useDeviceNames();
  const then = contentOf(target.record);
  const now = group === undefined ? undefined : contentOf(group);
  const advice = adviceOn(then, names).filter(({ tone }) => tone === 'warn');
  return (
    <>
      <p>
        {group === undefined ? 'The group is deleted now. It comes back ' : 'The group becomes what it was '}
        <Ago at={target.at} />, as a new revision: nothing is lost, and the way forward is another restore.
      </p>
      <Changes of={difference(now ?? { ...then, inbound_rules: [], outbound_rules: [] }, then)} />
      <p className="small dimmed">
        {devices.length === 0
          ? 'No device uses it: no traffic changes.'
          : `It takes effect at once on ${plural(devices.length, 'device')}.`}
      </p>
      {advice.map(({ text }) => (
        <p key={text} className="note note-warn">
          {text}
        </p>
      ))}
    </>
  );
}

export function Restore({
  org,
  group,
  target,
  devices,
  close,
}: {
  readonly org: string;
  /** The current group; undefined where it is deleted. */
  readonly group: SecurityGroup | undefined;
  readonly target: Target | undefined;
  readonly devices: readonly Device[];
  readonly close: () => void;
}): ReactNode {
  const { client } = useSession();
  const queries = useQueryClient();
  const put = (id: string, revision: number, ifMatch: number | undefined): Promise<WrittenGroup> =>
    writeOrAsk((asked) =>
      client.history.restore(org, id, { revision }, { ...(ifMatch !== undefined && { ifMatch }), ...asked }),
    );
  const { start, busy, fault, forget } = useWrite(async ({ record, revision }: Target) => {
    // The dialog shows what is written: a save by someone else meanwhile is not overwritten.
    const before = group?.revision;
    const saved = await put(record.id, revision, before).catch((error: unknown) => {
      throw error instanceof RingfenceError && error.code === 'precondition_failed'
        ? new Error('Someone saved this group a moment ago. Look at the changes again, then restore.')
        : error;
    });
    notify(
      [`${saved.group_name} is restored.`, ...(saved.warnings ?? []).map(({ detail }) => detail)].join(' '),
      before === undefined ? undefined : () => put(record.id, before, saved.revision),
    );
    close();
    await queries.invalidateQueries({ queryKey: ['audit', org] });
  });
  const leave = (): void => {
    forget();
    close();
  };
  return (
    <Modal
      opened={target !== undefined}
      onClose={leave}
      title={target === undefined ? '' : `Restore ${target.record.group_name}?`}
      size="lg"
    >
      {target === undefined ? null : (
        <div className="stack">
          <What group={group} target={target} devices={devices} />
          <DialogFoot fault={fault} cancel={leave}>
            <Button loading={busy} onClick={() => start(target)} data-autofocus>
              Restore it
            </Button>
          </DialogFoot>
        </div>
      )}
    </Modal>
  );
}
