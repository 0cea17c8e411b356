/** Owns the menu of known services that adds a rule: the service, then its far end. Any address is allowed only as an explicit answer. */
import { Button, Menu } from '@mantine/core';
import { useRef, useState, useMemo, type ReactNode } from 'react';
import type { Direction } from '../../policy/rule.ts';
import { services, type Service } from '../../policy/services.ts';
import { DownIcon } from '../components/icons.tsx';
import { serviceRule, type DraftRule } from '../model/draft.ts';
import { Dialog, DialogFoot } from '../components/dialog.tsx';
import { allDevicesChip, labelChip, countLabels } from '../model/far-end.ts';
import { plural } from '../../client/words/number.ts';
import { useSnapshot } from '../state/organization.ts';
import { FarEndInput } from './far-end-input.tsx';
import { SmallButton } from '../components/page.tsx';

export function AddService({
  direction,
  add,
}: {
  readonly direction: Direction;
  readonly add: (rule: DraftRule) => void;
}): ReactNode {
  const [asked, setAsked] = useState<Service>();
  const button = useRef<HTMLButtonElement>(null);
  return (
    <>
      <Menu position="bottom-start" width={240}>
        <Menu.Target>
          <Button
            ref={button}
            variant="subtle"
            rightSection={<DownIcon size={16} />}
            aria-label={`Add service, ${direction}`}
          >
            Add service
          </Button>
        </Menu.Target>
        <Menu.Dropdown mah={320} className="scrolls">
          {services.map((service) => (
            <Menu.Item
              key={service.name}
              onClick={() => setAsked(service)}
              rightSection={
                <span className="small dimmed mono">
                  {service.port === 0 ? '' : `${service.ip_protocol} ${service.port}`}
                </span>
              }
            >
              {service.name}
            </Menu.Item>
          ))}
        </Menu.Dropdown>
      </Menu>
      {asked === undefined ? null : (
        <FarEndQuestion
          service={asked}
          direction={direction}
          close={() => {
            setAsked(undefined);
            // The menu's item, which had the focus before the dialog, is gone.
            button.current?.focus();
          }}
          add={(ranges) => add({ ...serviceRule(asked), ranges })}
        />
      )}
    </>
  );
}

const shownLabels = 12;

function FarEndQuestion({
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
              <SmallButton key={label} onClick={() => finish([labelChip([label])])}>
                {label} <span className="dimmed">&nbsp;{plural(count, 'device')}</span>
              </SmallButton>
            ))}
            <SmallButton onClick={() => finish([allDevicesChip])}>all devices</SmallButton>
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
