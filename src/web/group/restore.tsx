/** Owns the way back to an older state of a group: what it would change, on which devices, what to look at twice, then the step itself. */
import { Button, Modal } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useState, type ReactNode } from 'react';
import type { Device } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { RingfenceError } from '../../client/error.ts';
import { DialogFoot } from '../components/dialog-foot.tsx';
import { sentence } from '../components/sentence.ts';
import { Ago } from '../components/time.tsx';
import { notify } from '../components/toast.tsx';
import { adviceOn } from '../model/advice.ts';
import { contentOf } from '../model/draft.ts';
import { difference } from '../model/group-diff.ts';
import { plural } from '../model/rule-text.ts';
import { writeOrAsk } from '../state/opening.ts';
import { useDeviceNames } from '../state/fleet.ts';
import { useSession } from '../state/session.ts';
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
  /** As it stands now; undefined where it is deleted. */
  readonly group: SecurityGroup | undefined;
  readonly target: Target | undefined;
  readonly devices: readonly Device[];
  readonly close: () => void;
}): ReactNode {
  const { client } = useSession();
  const queries = useQueryClient();
  const [busy, setBusy] = useState(false);
  const [fault, setFault] = useState<string>();
  const leave = (): void => {
    setFault(undefined);
    close();
  };
  const restore = async ({ record, revision }: Target): Promise<void> => {
    setBusy(true);
    setFault(undefined);
    try {
      // What is shown here is what is written: whoever saved meanwhile is not overwritten.
      const saved = await writeOrAsk((asked) =>
        client.history.restore(
          org,
          record.id,
          { revision },
          {
            ...(group !== undefined && { ifMatch: group.revision }),
            ...asked,
          },
        ),
      );
      const before = group?.revision;
      notify(
        [`${saved.group_name} is restored.`, ...(saved.warnings ?? []).map(({ detail }) => detail)].join(' '),
        before === undefined
          ? undefined
          : () =>
              writeOrAsk((asked) =>
                client.history.restore(org, record.id, { revision: before }, { ifMatch: saved.revision, ...asked }),
              ),
      );
      leave();
      await queries.invalidateQueries({ queryKey: ['audit', org] });
    } catch (error) {
      setFault(
        error instanceof RingfenceError && error.code === 'precondition_failed'
          ? 'Someone saved this group a moment ago. Look at the changes again, then restore.'
          : sentence(error),
      );
    } finally {
      setBusy(false);
    }
  };
  return (
    <Modal
      opened={target !== undefined}
      onClose={leave}
      title={target === undefined ? '' : `Restore ${target.record.group_name}?`}
      size="lg"
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      {target === undefined ? null : (
        <div className="stack">
          <What group={group} target={target} devices={devices} />
          <DialogFoot fault={fault} cancel={leave}>
            <Button loading={busy} onClick={() => void restore(target)} data-autofocus>
              Restore it
            </Button>
          </DialogFoot>
        </div>
      )}
    </Modal>
  );
}
