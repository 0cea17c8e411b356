/** Owns the actions on selected devices: a bar at the foot of the page that opens one dialog for each action. */
import { Button, CloseButton, Menu } from '@mantine/core';
import { useState, type ReactNode } from 'react';
import type { Device } from '../../api/device.ts';
import { DownIcon, TrashIcon } from '../components/icons.tsx';
import type { BulkAction } from '../model/bulk.ts';
import { grouped } from '../../client/words/number.ts';
import { plural } from '../model/rule-text.ts';
import { useRights } from '../state/organization.ts';
import { BulkDialog } from './bulk-dialog.tsx';

export type BulkKind = BulkAction['kind'];

export function BulkBar({
  devices,
  hidden,
  clear,
}: {
  readonly devices: readonly Device[];
  /** How many of them the filters hide. */
  readonly hidden: number;
  readonly clear: () => void;
}): ReactNode {
  const { governs } = useRights();
  const [kind, setKind] = useState<BulkKind>();
  return (
    <>
      {devices.length === 0 ? null : (
        <section className="save-bar" aria-label="Selected devices">
          <span className="grow">
            <strong>{plural(devices.length, 'device')} selected</strong>
            {hidden === 0 ? null : <span className="small dimmed"> · {grouped(hidden)} not in sight</span>}
          </span>
          <Menu position="top-end">
            <Menu.Target>
              <Button variant="default" rightSection={<DownIcon size={14} />}>
                Groups
              </Button>
            </Menu.Target>
            <Menu.Dropdown>
              <Menu.Item onClick={() => setKind('add-group')}>Add a group…</Menu.Item>
              <Menu.Item onClick={() => setKind('remove-group')}>Remove a group…</Menu.Item>
            </Menu.Dropdown>
          </Menu>
          {governs ? (
            <Menu position="top-end">
              <Menu.Target>
                <Button variant="default" rightSection={<DownIcon size={14} />}>
                  Labels
                </Button>
              </Menu.Target>
              <Menu.Dropdown>
                <Menu.Item onClick={() => setKind('add-labels')}>Add labels…</Menu.Item>
                <Menu.Item onClick={() => setKind('remove-labels')}>Remove labels…</Menu.Item>
              </Menu.Dropdown>
            </Menu>
          ) : null}
          <Button
            variant="default"
            className="danger"
            leftSection={<TrashIcon size={16} />}
            onClick={() => setKind('delete')}
          >
            Delete
          </Button>
          <CloseButton aria-label="Clear the selection" onClick={clear} />
        </section>
      )}
      {kind === undefined ? null : (
        <BulkDialog kind={kind} selected={devices} close={() => setKind(undefined)} finished={clear} />
      )}
    </>
  );
}
