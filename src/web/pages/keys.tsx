/** Owns the enrollment keys of an organization: what each admits, for how long, and its revocation. */
import { Button } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useParams } from '@tanstack/react-router';
import { useState, type ReactNode } from 'react';
import type { EnrollmentKey } from '../../api/user.ts';
import { KeyIcon, PlusIcon } from '../components/icons.tsx';
import { groupsOf } from '../../organization/of-records.ts';
import { groupsOn, type GroupOn } from '../model/device-policy.ts';
import { plural } from '../model/rule-text.ts';
import { AddDevice, keysKey } from '../device/add-device.tsx';
import { Confirm, type Confirmation } from '../components/dialog.tsx';
import { Empty, ListState } from '../components/placeholders.tsx';
import { Tag, Ago, Page } from '../components/page.tsx';
import { notify } from '../components/toast.tsx';
import { useNames, useSnapshot, useRights } from '../state/organization.ts';
import { useSession } from '../state/session.ts';

function Entry({
  entry,
  org,
  revoke,
}: {
  readonly entry: EnrollmentKey;
  readonly org: string;
  readonly revoke: (() => void) | undefined;
}): ReactNode {
  const { groups, groupById } = useSnapshot();
  const nameOf = useNames();
  const { isOwner } = useRights();
  const over = Date.parse(entry.expires_at) <= Date.now();
  const isDone = over || entry.uses_left === 0;
  const { security_groups: list = [], labels = [] } = entry;
  // What a device that joins now has: also groups by label, and the default group where there is none. After the end
  // only what the key itself has: its devices joined under the policy of their time.
  const starting: readonly GroupOn[] = isDone
    ? list.map((id) => ({ id, group: groupById.get(id), by: 'list' }))
    : groupsOn({ security_groups: list, labels }, { groups, groupById });
  const { forbid, require } = groupsOf({ labels }, groups);
  const guardrails = isDone ? [] : [...forbid, ...require];
  return (
    <li>
      <div className="grow stack tight">
        <p className="row">
          <strong>{entry.name || 'unnamed'}</strong>
          {over ? (
            <Tag tone="bad">expired</Tag>
          ) : entry.uses_left === 0 ? (
            <Tag>used up</Tag>
          ) : (
            <Tag>{plural(entry.uses_left, 'device')} left</Tag>
          )}
        </p>
        <p className="small dimmed">
          {nameOf(entry.user_id)} · made <Ago at={entry.created_at} /> · {over ? 'ended' : 'ends'}{' '}
          <Ago at={entry.expires_at} />
        </p>
        <div className="row small dimmed">
          {!isDone
            ? 'Devices start with'
            : starting.length > 0
              ? 'It was for devices in'
              : labels.length > 0
                ? 'It was for devices'
                : 'It gave no groups and no labels.'}{' '}
          <span className="tags">
            {starting.map(({ id, group, by }) => (
              <Tag key={id} tone={by === 'default' ? 'plain' : 'accent'}>
                {group?.group_name ?? 'a group that you may not see'}
                {by === 'label' ? ' (by label)' : ''}
              </Tag>
            ))}
            {guardrails.map(({ id, name }) => (
              <Tag key={id} tone="warn">
                guardrail {name}
              </Tag>
            ))}
          </span>
          {labels.length === 0 ? null : (
            <>
              labelled{' '}
              <span className="tags">
                {labels.map((label) => (
                  <Tag key={label}>{label}</Tag>
                ))}
              </span>
            </>
          )}
        </div>
      </div>
      {!isDone ? null : !isOwner ? (
        <span className="small dimmed">Only owners see which devices joined: the audit log says it.</span>
      ) : (
        <Link className="link small" to="/o/$org/activity" params={{ org }} search={{ q: entry.id }}>
          Devices that joined
        </Link>
      )}
      {revoke === undefined || isDone ? null : (
        <Button
          size="compact-sm"
          variant="default"
          aria-label={`Revoke ${entry.name || 'the unnamed key'}`}
          onClick={revoke}
        >
          Revoke
        </Button>
      )}
    </li>
  );
}

export function KeysPage(): ReactNode {
  const { org } = useParams({ from: '/o/$org/keys' });
  const { client } = useSession();
  const { isOwner, mayWrite, me } = useRights();
  const queries = useQueryClient();
  const [adding, setAdding] = useState(false);
  const [confirmation, setConfirmation] = useState<Confirmation>();
  const query = useQuery({
    queryKey: keysKey(org),
    queryFn: ({ signal }) => client.enrollmentKeys.list(org, { signal }),
    refetchInterval: 3_000,
  });
  const { data } = query;
  const revoke = (key: EnrollmentKey): void =>
    setConfirmation({
      title: `Revoke ${key.name || 'this key'}?`,
      body: 'No further device can join with it. Those that did stay.',
      action: 'Revoke the key',
      act: async () => {
        await client.enrollmentKeys.revoke(org, key.id);
        notify('The key is revoked.');
        await queries.invalidateQueries({ queryKey: keysKey(org) });
      },
    });
  const isMine = (key: EnrollmentKey): boolean => mayWrite && (isOwner || key.user_id === me.id);
  const offer = mayWrite ? (
    <Button leftSection={<PlusIcon />} onClick={() => setAdding(true)}>
      New key
    </Button>
  ) : null;
  return (
    <Page
      title="Enrollment keys"
      about="An agent uses a key to add its own device. A key limits how many devices join and for how long."
      actions={data?.length === 0 ? undefined : offer}
    >
      <Confirm confirmation={confirmation} close={() => setConfirmation(undefined)} />
      {adding ? <AddDevice close={() => setAdding(false)} org={org} /> : null}
      <section className="card" aria-label="Enrollment keys">
        <ListState query={query} loading="Loading the keys…" />
        {data?.length === 0 ? (
          <Empty icon={<KeyIcon size={40} />} title="No keys" action={offer ?? undefined}>
            Make one, run the command that comes with it on a Linux machine, and the device appears by itself.
          </Empty>
        ) : null}
        {data === undefined || data.length === 0 ? null : (
          <ul className="group-list wraps">
            {data.map((key) => (
              <Entry key={key.id} entry={key} org={org} revoke={isMine(key) ? () => revoke(key) : undefined} />
            ))}
          </ul>
        )}
      </section>
    </Page>
  );
}
