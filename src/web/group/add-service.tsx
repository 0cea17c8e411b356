/** Owns the menu of known services that adds a rule: the service, then its far end. */
import { Button, Menu } from '@mantine/core';
import { useRef, useState, type ReactNode } from 'react';
import type { Direction } from '../../policy/rule.ts';
import { services, type Service } from '../../policy/services.ts';
import { DownIcon } from '../components/icons.tsx';
import { serviceRule, type DraftRule } from '../model/draft.ts';
import { FarEndQuestion } from './far-end-question.tsx';

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
