/**
 * Owns the question that comes with a service: from where, or to where. Any address is allowed only as an explicit
 * answer.
 */
import { Button } from '@mantine/core';
import { useMemo, useState, type ReactNode } from 'react';
import { Dialog, DialogFoot } from '../components/dialog.tsx';
import type { Direction } from '../../policy/rule.ts';
import type { Service } from '../../policy/services.ts';
import { allDevicesChip, labelChip } from '../model/far-end.ts';
import { countLabels } from '../model/labels.ts';
import { plural } from '../model/rule-text.ts';
import { useSnapshot } from '../state/organization.ts';
import { FarEndInput } from './far-end-input.tsx';

const shownLabels = 12;

export function FarEndQuestion({
  service,
  direction,
  close,
  add,
}: {
  readonly service: Service;
  readonly direction: Direction;
  /** Closes it, and gives the focus back. */
  readonly close: () => void;
  readonly add: (ranges: readonly string[]) => void;
}): ReactNode {
  const { devices } = useSnapshot();
  const [chips, setChips] = useState<readonly string[]>([]);
  const labels = useMemo(
    // The narrowest first: a rule should admit no more than it must.
    () => [...countLabels(devices)].toSorted(([, a], [, b]) => a - b).slice(0, shownLabels),
    [devices],
  );
  const word = direction === 'inbound' ? 'From' : 'To';
  const finish = (ranges: readonly string[]): void => {
    add(ranges);
    close();
  };
  return (
    <Dialog close={close} title={`${service.name}: ${word.toLowerCase()} whom?`}>
      <div className="stack">
        {labels.length === 0 && devices.length === 0 ? null : (
          <div className="tags" role="group" aria-label="Devices by what they are">
            {labels.map(([label, count]) => (
              <Button key={label} size="compact-sm" variant="default" onClick={() => finish([labelChip([label])])}>
                {label} <span className="dimmed">&nbsp;{plural(count, 'device')}</span>
              </Button>
            ))}
            <Button size="compact-sm" variant="default" onClick={() => finish([allDevicesChip])}>
              all devices
            </Button>
          </div>
        )}
        <FarEndInput
          label={word}
          description="Addresses, prefixes, label:app, device:web-1"
          placeholder="10.0.0.0/8, label:app …"
          suggest="all"
          chips={chips}
          onChange={setChips}
          error={undefined}
        />
        <DialogFoot cancel={close}>
          <Button variant="default" onClick={() => finish([])}>
            Any address
          </Button>
          <Button disabled={chips.length === 0} onClick={() => finish(chips)}>
            Add the rule
          </Button>
        </DialogFoot>
      </div>
    </Dialog>
  );
}
