/**
 * Owns the groups of one device: which apply, attach, detach, order. Each step takes effect at once and can be undone,
 * or is tried first.
 */
import { ActionIcon, Checkbox, Select } from '@mantine/core';
import { useState, type ReactNode } from 'react';
import type { Device } from '../../api/device.ts';
import { CrossIcon, DownIcon, GroupIcon, UpIcon } from '../components/icons.tsx';
import { deviceName, useSnapshot, useRights, useLive } from '../state/organization.ts';
import { writeOrAsk, useWrite, notify } from '../state/write.tsx';
import { useSession } from '../state/session.ts';
import { groupsOf } from '../../organization/of-records.ts';
import { plural } from '../../client/words/number.ts';
import { Tag, Card } from '../components/page.tsx';
import { TryDialog, type TrialQuery } from '../trial/try-dialog.tsx';
import { GroupLink } from '../components/record-link.tsx';

const moved = (list: readonly string[], index: number, by: 1 | -1): readonly string[] => {
  const next = [...list];
  const [taken] = next.splice(index, 1);
  if (taken !== undefined) next.splice(index + by, 0, taken);
  return next;
};

export function DeviceGroups({ device }: { readonly device: Device }): ReactNode {
  const { id: org } = useLive();
  const snapshot = useSnapshot();
  const { client } = useSession();
  const rights = useRights();
  const list: readonly string[] = device.security_groups ?? [];
  const mayEdit = rights.editDevice(device);
  const onTrial = device.trial !== undefined;
  const [isTrying, setTrying] = useState(false);
  /** The list to try, once the time is chosen. */
  const [tried, setTried] = useState<readonly string[]>();
  const nameOf = (id: string): string => snapshot.groupById.get(id)?.group_name ?? 'a group that you may not see';

  const put = (security_groups: readonly string[], ifMatch: number, trial?: TrialQuery): Promise<Device> =>
    writeOrAsk((agreed) =>
      client.devices.update(org, device.id, { security_groups }, { ifMatch, ...trial, ...agreed }),
    );
  const { start, busy: isWriting } = useWrite(
    async ({ next, message }: { readonly next: readonly string[]; readonly message: string }) => {
      const { revision } = await put(next, device.revision);
      notify(message, () => put(list, revision));
    },
    'The groups stay as they were',
  );
  const busy = isWriting || onTrial;
  const change = (next: readonly string[], message: string): void =>
    isTrying ? setTried(next) : start({ next, message });
  const choices = snapshot.groups.filter((group) => rights.attachable(group, device) && !list.includes(group.id));
  const name = deviceName(device);
  const { groups: deciding, forbid, require, watchOnly } = groupsOf(device, snapshot.groups);
  const byLabel = deciding.flatMap(({ by, group }) => (by === 'label' && group !== undefined ? [group] : []));
  const isWatchOnly = (id: string): boolean => watchOnly.some((group) => group.id === id);
  const further = [...byLabel, ...forbid, ...require, ...watchOnly].filter(({ id }) => !list.includes(id));
  const count = deciding.filter(({ by }) => by !== 'default').length;
  return (
    <Card
      title="What applies"
      label="Groups"
      about={
        count === 0 ? (
          <Tag>default group</Tag>
        ) : (
          <Tag tone="accent">{plural(count, 'group')} instead of the default</Tag>
        )
      }
    >
      <div className="card-body stack">
        {onTrial ? (
          <p className="note note-warn" role="status">
            These groups are on trial. They can be changed again once someone keeps or reverts them, or the time is
            over.
          </p>
        ) : null}
        {list.length + byLabel.length === 0 ? (
          <p>
            The list is empty, so the organization's default group{' '}
            {snapshot.defaultGroup === undefined ? null : (
              <GroupLink id={snapshot.defaultGroup.id}>{snapshot.defaultGroup.group_name}</GroupLink>
            )}{' '}
            applies. The first group you attach replaces it.
          </p>
        ) : (
          <>
            <p className="dimmed small">
              {count === 0
                ? 'These groups are watch only and decide nothing, so the default group of the organization applies.'
                : 'These groups admit traffic together: one matching rule is enough. The default group does not apply.'}
            </p>
            <ol className="rows pick-list" hidden={list.length === 0}>
              {list.map((id, index) => (
                <li key={id}>
                  <GroupIcon />
                  <GroupLink className="plain-link clip grow" id={id}>
                    {nameOf(id)}
                  </GroupLink>
                  {isWatchOnly(id) ? <Tag tone="warn">watch only</Tag> : null}
                  {mayEdit ? (
                    <>
                      <ActionIcon
                        aria-label={`Move ${nameOf(id)} up`}
                        disabled={busy || index === 0}
                        onClick={() => change(moved(list, index, -1), 'The order is changed.')}
                      >
                        <UpIcon size={16} />
                      </ActionIcon>
                      <ActionIcon
                        aria-label={`Move ${nameOf(id)} down`}
                        disabled={busy || index === list.length - 1}
                        onClick={() => change(moved(list, index, 1), 'The order is changed.')}
                      >
                        <DownIcon size={16} />
                      </ActionIcon>
                      <ActionIcon
                        aria-label={`Detach ${nameOf(id)}`}
                        disabled={busy}
                        onClick={() =>
                          change(
                            list.filter((other) => other !== id),
                            list.length === 1 && !isWatchOnly(id)
                              ? `${nameOf(id)} is off ${name}; the default group applies again.`
                              : `${nameOf(id)} is off ${name}.`,
                          )
                        }
                      >
                        <CrossIcon size={16} />
                      </ActionIcon>
                    </>
                  ) : null}
                </li>
              ))}
            </ol>
          </>
        )}
        {further.length === 0 ? null : (
          <ul className="rows pick-list" aria-label="Groups by label">
            {further.map(({ id, name: groupName, guardrail }) => (
              <li key={id}>
                <GroupIcon />
                <GroupLink className="plain-link clip grow" id={id}>
                  {groupName}
                </GroupLink>
                {isWatchOnly(id) ? <Tag tone="warn">watch only</Tag> : null}
                {guardrail === undefined ? <Tag>by label</Tag> : <Tag tone="warn">guardrail: {guardrail}</Tag>}
              </li>
            ))}
          </ul>
        )}
        {!mayEdit ? (
          <p className="small dimmed">Only the device's user and the organization's owner choose its groups.</p>
        ) : choices.length === 0 ? (
          <p className="small dimmed">
            No further group can be attached: a device takes its own user's groups and those of the organization.
          </p>
        ) : (
          <Select
            label="Attach a group"
            placeholder="Choose a group"
            searchable
            disabled={busy}
            data={choices.map(({ id, group_name, user_id }) => ({
              value: id,
              label: user_id === undefined ? `${group_name} (organization)` : group_name,
            }))}
            value={null}
            onChange={(id) => {
              if (id !== null) change([...list, id], `${nameOf(id)} applies to ${name}.`);
            }}
          />
        )}
        {mayEdit && !onTrial && list.length + choices.length > 0 ? (
          <Checkbox
            label="Try it first: a change is taken back unless someone keeps it"
            checked={isTrying}
            onChange={(event) => setTrying(event.currentTarget.checked)}
          />
        ) : null}
        {tried === undefined ? null : (
          <TryDialog
            title={`Try other groups on ${name}`}
            close={() => setTried(undefined)}
            start={(trial) => put(tried, device.revision, trial)}
          />
        )}
      </div>
    </Card>
  );
}
