/** Owns the enrollment keys of an organization: what each admits, for how long, and its revocation. */
import { Button } from '@mantine/core';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState, type ReactNode } from 'react';
import type { EnrollmentKey } from '../../api/user.ts';
import { plural } from '../../client/words/number.ts';
import { groupsOf } from '../../organization/of-records.ts';
import { Confirm, type Confirmation } from '../components/dialog.tsx';
import { KeyIcon, PlusIcon } from '../components/icons.tsx';
import { List, ListRow } from '../components/list.tsx';
import { SmallButton, Ago, Page, Tag, Tags } from '../components/page.tsx';
import { Empty } from '../components/placeholders.tsx';
import { notify } from '../state/write.tsx';
import { AddDevice, keysKey } from '../device/add-device.tsx';
import { groupsOn, type GroupOn } from '../model/device-policy.ts';
import { useLive, useNames, useRights, useSnapshot } from '../state/organization.ts';
import { useSession } from '../state/session.ts';

const isOver = ({ expires_at }: EnrollmentKey): boolean => Date.parse(expires_at) <= Date.now();
/** No further device can join with it. */
const isDone = (key: EnrollmentKey): boolean => isOver(key) || key.uses_left === 0;

function Entry({ entry, revoke }: { readonly entry: EnrollmentKey; readonly revoke: (() => void) | undefined }) {
  const { id: org } = useLive();
  const { groups, groupById } = useSnapshot();
  const nameOf = useNames();
  const { isOwner } = useRights();
  const over = isOver(entry);
  const done = isDone(entry);
  const { security_groups: list = [], labels = [] } = entry;
  // What a device that joins now has: also groups by label, and the default group where there is none. After the end
  // only what the key itself has: its devices joined under the policy of their time.
  const starting: readonly GroupOn[] = done
    ? list.map((id) => ({ id, group: groupById.get(id), by: 'list' }))
    : groupsOn({ security_groups: list, labels }, { groups, groupById });
  const { forbid, require } = groupsOf({ labels }, groups);
  return (
    <ListRow
      name={entry.name || 'unnamed'}
      tags={
        over ? (
          <Tag tone="bad">expired</Tag>
        ) : (
          <Tag>{entry.uses_left === 0 ? 'used up' : `${plural(entry.uses_left, 'device')} left`}</Tag>
        )
      }
      about={
        <>
          {nameOf(entry.user_id)} · made <Ago at={entry.created_at} /> · {over ? 'ended' : 'ends'}{' '}
          <Ago at={entry.expires_at} />
        </>
      }
      actions={
        !done ? (
          revoke && (
            <SmallButton aria-label={`Revoke ${entry.name || 'the unnamed key'}`} onClick={revoke}>
              Revoke
            </SmallButton>
          )
        ) : isOwner ? (
          <Link className="link small" to="/o/$org/activity" params={{ org }} search={{ q: entry.id }}>
            Devices that joined
          </Link>
        ) : (
          <span className="small dimmed">Only owners see which devices joined: the audit log says it.</span>
        )
      }
    >
      <div className="row small dimmed">
        {!done
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
          {(done ? [] : [...forbid, ...require]).map(({ id, name }) => (
            <Tag key={id} tone="warn">
              guardrail {name}
            </Tag>
          ))}
        </span>
        {labels.length === 0 ? null : (
          <>
            labelled <Tags of={labels} />
          </>
        )}
      </div>
    </ListRow>
  );
}

export function KeysPage(): ReactNode {
  const { client } = useSession();
  const { id: org } = useLive();
  const { isOwner, mayWrite, me } = useRights();
  const queries = useQueryClient();
  const [adding, setAdding] = useState(false);
  const [confirmation, setConfirmation] = useState<Confirmation>();
  const query = useQuery({
    queryKey: keysKey(org),
    queryFn: ({ signal }) => client.enrollmentKeys.list(org, { signal }),
    refetchInterval: 3_000,
  });
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
  ) : undefined;
  return (
    <Page
      title="Enrollment keys"
      about="An agent uses a key to add its own device. A key limits how many devices join and for how long."
      actions={query.data?.length === 0 ? undefined : offer}
    >
      <Confirm confirmation={confirmation} close={() => setConfirmation(undefined)} />
      {adding ? <AddDevice close={() => setAdding(false)} /> : null}
      <section className="card" aria-label="Enrollment keys">
        <List
          query={query}
          loading="Loading the keys…"
          // Those that still admit devices come first.
          entries={query.data?.toSorted((a, b) => Number(isDone(a)) - Number(isDone(b)))}
          empty={
            <Empty icon={<KeyIcon size={40} />} title="No keys" action={offer}>
              Make one, run the command that comes with it on a Linux machine, and the device appears by itself.
            </Empty>
          }
          row={(key) => <Entry key={key.id} entry={key} revoke={isMine(key) ? () => revoke(key) : undefined} />}
        />
      </section>
    </Page>
  );
}
