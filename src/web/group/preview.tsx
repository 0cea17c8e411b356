/** Owns the preview: what a save would change, on which devices, and the resulting nftables text. */
import { Button, Modal, Tabs } from '@mantine/core';
import { useMemo, type ReactNode } from 'react';
import type { Device } from '../../api/device.ts';
import { difference } from '../model/group-diff.ts';
import type { Content } from '../model/draft.ts';
import { policyOfContent } from '../model/device-policy.ts';
import { plural } from '../model/rule-text.ts';
import { useFleet } from '../state/fleet.ts';
import { deviceName } from '../state/live.ts';
import { Changes } from './changes.tsx';
import { Compiled } from '../components/ruleset.tsx';
import { Tag } from '../components/tag.tsx';

const shownDevices = 40;

export function Preview({
  opened,
  close,
  before,
  after,
  devices,
  save,
  busy,
}: {
  readonly opened: boolean;
  readonly close: () => void;
  readonly before: Content;
  readonly after: Content;
  readonly devices: readonly Device[];
  readonly save: () => void;
  readonly busy: boolean;
}): ReactNode {
  const changes = difference(before, after);
  const fleet = useFleet();
  const policy = useMemo(() => policyOfContent(after, fleet), [after, fleet]);
  return (
    <Modal opened={opened} onClose={close} title="What would change" size="xl">
      <div className="stack">
        <Tabs defaultValue="rules">
          <Tabs.List>
            <Tabs.Tab value="rules">{plural(changes.count, 'change')}</Tabs.Tab>
            <Tabs.Tab value="devices">{plural(devices.length, 'device')}</Tabs.Tab>
            <Tabs.Tab value="nftables">nftables</Tabs.Tab>
          </Tabs.List>
          <Tabs.Panel value="rules" pt="md">
            <Changes of={changes} />
          </Tabs.Panel>
          <Tabs.Panel value="devices" pt="md">
            {devices.length === 0 ? (
              <p className="dimmed">No device uses this group yet: saving it changes no traffic.</p>
            ) : (
              <div className="tags">
                {devices.slice(0, shownDevices).map((device) => (
                  <Tag key={device.id}>{deviceName(device)}</Tag>
                ))}
                {devices.length > shownDevices ? <Tag>and {devices.length - shownDevices} more</Tag> : null}
              </div>
            )}
          </Tabs.Panel>
          <Tabs.Panel value="nftables" pt="md">
            <p className="small dimmed">
              What an agent loads on a device that has only this group, with <code>wg0</code> as its interface.
            </p>
            <Compiled policy={policy} />
          </Tabs.Panel>
        </Tabs>
        <div className="row end">
          <Button variant="default" onClick={close}>
            Go on editing
          </Button>
          <Button onClick={save} loading={busy} disabled={changes.count === 0}>
            Save these changes
          </Button>
        </div>
      </div>
    </Modal>
  );
}
