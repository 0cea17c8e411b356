/**
 * Owns the confirmation before a write that leaves devices with the default group: which devices, and what then applies
 * to them.
 */
import { Button, Modal } from '@mantine/core';
import type { ReactNode } from 'react';
import { DialogFoot } from '../components/dialog-foot.tsx';
import { plural } from '../model/rule-text.ts';
import { deviceName } from '../state/live.ts';
import type { OpeningQuestion } from '../state/opening.ts';
import { useSnapshot } from '../state/organization.ts';

export function OpeningDialog({ question }: { readonly question: OpeningQuestion }): ReactNode {
  const { devices, defaultGroup } = useSnapshot();
  const { refusal, answer } = question;
  const count = refusal.devices.length + refusal.moreDevices;
  const named = refusal.devices.map((id) => {
    const device = devices.find((one) => one.id === id);
    return { id, name: device === undefined ? id : deviceName(device) };
  });
  return (
    <Modal opened onClose={() => answer(false)} title={`Leave ${plural(count, 'device')} with the default group?`}>
      <div className="stack">
        <p>
          After this change no other group applies to {count === 1 ? 'this device' : 'these devices'}, so the default
          group {defaultGroup?.group_name} does. It admits everything unless somebody changed it.
        </p>
        <ul className="pick-list scrolls pick-scroll" aria-label="Devices that would open">
          {named.map(({ id, name }) => (
            <li key={id}>
              <strong className="clip">{name}</strong>
            </li>
          ))}
        </ul>
        {refusal.moreDevices === 0 ? null : <p>And {plural(refusal.moreDevices, 'more device')}.</p>}
        <DialogFoot cancel={() => answer(false)} focusCancel>
          <Button color="red.9" onClick={() => answer(true)}>
            Change it anyway
          </Button>
        </DialogFoot>
      </div>
    </Modal>
  );
}
