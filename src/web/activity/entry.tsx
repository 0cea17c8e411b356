/** Owns one entry of the activity feed: a sentence with names, the state before and after, its origin, and how to take the change back. */
import { Button } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { useState, useMemo, type ReactNode } from 'react';
import type { AuditEntry } from '../../api/audit.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { actorName } from '../../client/words/action.ts';
import { deviceChanges, fieldLines, groupChanges, type Line } from '../../client/words/changes.ts';
import { sentenceOf, unseenGroup, type Names, type Sentence } from '../../client/words/sentence.ts';
import { shortId } from '../../client/words/short-id.ts';
import type { Confirmation } from '../components/dialog.tsx';
import { DownIcon, UpIcon } from '../components/icons.tsx';
import { Ago, Lines } from '../components/page.tsx';
import { failed, notify } from '../components/toast.tsx';
import type { Target } from '../group/restore.tsx';
import { credentialName } from '../model/activity.ts';
import {
  useSnapshot,
  deviceName,
  useAddressOwners,
  useLive,
  useMembers,
  useOrganizations,
} from '../state/organization.ts';
import { useSession, type Session } from '../state/session.ts';
import type { Device, UpdateDevice } from '../../api/device.ts';
import { ChangePreview } from '../change/change-preview.tsx';
import { writeOrAsk } from '../state/write.ts';
import { useQuery } from '@tanstack/react-query';

const isAbout = (kind: 'SecurityGroup' | 'Device', { operation }: AuditEntry): boolean => operation.endsWith(kind);

function linesOf(entry: AuditEntry, names: Names): readonly Line[] | undefined {
  const { before, after } = entry;
  if (before === undefined && after === undefined) return undefined;
  if (isAbout('SecurityGroup', entry))
    return groupChanges(before as Partial<SecurityGroup>, after as Partial<SecurityGroup>, { nameOf: names.deviceOf });
  if (isAbout('Device', entry)) return deviceChanges(before, after, (id) => names.groupOf(id) ?? unseenGroup);
  return fieldLines(before ?? {}, after ?? {});
}

/** The name of what it was done to, as a link while it is there. */
function Subject({
  id,
  name,
  org,
}: {
  readonly id: string | undefined;
  readonly name: string;
  readonly org: string;
}): ReactNode {
  const { deviceById, groupById } = useSnapshot();
  if (id !== undefined && deviceById.has(id)) {
    return (
      <Link className="plain-link" to="/o/$org/devices/$device" params={{ org, device: id }}>
        <strong>{name}</strong>
      </Link>
    );
  }
  if (id !== undefined && groupById.has(id)) {
    return (
      <Link className="plain-link" to="/o/$org/groups/$group" params={{ org, group: id }}>
        <strong>{name}</strong>
      </Link>
    );
  }
  return <strong>{name}</strong>;
}

export function Words({
  who,
  sentence,
  subjectId,
  org,
}: {
  readonly who: string | undefined;
  readonly sentence: Sentence;
  readonly subjectId: string | undefined;
  readonly org: string;
}): ReactNode {
  const { before, subject, after } = sentence;
  return (
    <>
      {who === undefined ? `${before.charAt(0).toUpperCase()}${before.slice(1)}` : <strong>{who}</strong>}
      {who === undefined ? ' ' : ` ${before} `}
      {subject === '' ? null : <Subject id={subjectId} name={subject} org={org} />}
      {after}
    </>
  );
}

/** Whether this was a change of a group that can be taken back. */
const hasWayBack = (entry: AuditEntry): boolean =>
  isAbout('SecurityGroup', entry) && entry.before !== undefined && entry.revision !== undefined;

export function Entry({
  entry,
  org,
  names,
  restore,
  confirm,
}: {
  readonly entry: AuditEntry;
  readonly org: string;
  readonly names: Names;
  /** Asks before a change of a device is taken back; absent where nothing may be changed. */
  readonly confirm: ((confirmation: Confirmation) => void) | undefined;
  /** Absent where nothing may be changed. */
  readonly restore: ((target: Target) => void) | undefined;
}): ReactNode {
  const [open, setOpen] = useState(false);
  const sentence = sentenceOf(entry, names);
  const lines = open ? linesOf(entry, names) : undefined;
  const { client } = useSession();
  const device = useSnapshot().deviceById.get(entry.subject_id ?? '');
  const back = open && device !== undefined && confirm !== undefined ? deviceWayBack(entry) : undefined;
  /** The state that stood before this entry is what the group goes back to. */
  const takeBack = (): void => {
    const page = { limit: 1, after: String(entry.revision ?? 0) };
    client.history.group(org, entry.subject_id ?? '', page).then(
      ([state]) => {
        if (state !== undefined) restore?.(state);
      },
      (error: unknown) => failed(error),
    );
  };
  return (
    <li className="deed">
      <span className="small dimmed feed-time">
        <Ago at={entry.at} />
      </span>
      <div className="grow stack tight">
        <p className="deed-words">
          <Words who={actorName(entry)} sentence={sentence} subjectId={entry.subject_id} org={org} />
        </p>
        {open ? (
          <>
            {lines === undefined ? null : <Lines lines={lines} />}
            <p className="small dimmed deed-words">
              From <span className="mono">{entry.address}</span> with {credentialName(entry.credential.kind)}
              {entry.credential.id === undefined ? '' : ` (${shortId(entry.credential.id)})`}
              {entry.revision === undefined ? '' : `, revision ${entry.revision}`}. Request{' '}
              <span className="mono">{entry.request_id}</span>.
            </p>
            {back === undefined || device === undefined ? null : (
              <div className="row">
                <Button size="compact-sm" variant="default" onClick={() => confirm?.(askWayBack(device, back, client))}>
                  Take this back
                </Button>
              </div>
            )}
            {restore === undefined || !hasWayBack(entry) ? null : (
              <div className="row">
                <Button size="compact-sm" variant="default" onClick={takeBack}>
                  {entry.after === undefined ? 'Bring it back' : 'Take this back'}
                </Button>
              </div>
            )}
          </>
        ) : null}
      </div>
      <button
        type="button"
        className="more"
        aria-expanded={open}
        aria-label={`Details: ${actorName(entry)} ${sentence.before} ${sentence.subject}`}
        onClick={() => setOpen(!open)}
      >
        Details {open ? <UpIcon size={16} /> : <DownIcon size={16} />}
      </button>
    </li>
  );
}

/** By name, how the question calls each and what it is where it is absent. */
const fields = {
  hostname: ['name', ''],
  tunnel_ip: ['tunnel address', ''],
  addresses: ['addresses', []],
  labels: ['labels', []],
  security_groups: ['groups', []],
} as const;
const isField = (name: string): name is keyof typeof fields => Object.hasOwn(fields, name);

/** What the entry changed of these fields, as it was before; undefined where it changed none. */
function deviceWayBack({ operation, before, after, revision }: AuditEntry): UpdateDevice | undefined {
  if (operation !== 'updateDevice' || before === undefined || after === undefined || revision === undefined)
    return undefined;
  const empty = Object.fromEntries(Object.entries(fields).map(([name, [, absent]]) => [name, absent]));
  const old: Readonly<Record<string, unknown>> = { ...empty, ...before };
  const now: Readonly<Record<string, unknown>> = { ...empty, ...after };
  const changed = Object.keys(fields).filter((name) => JSON.stringify(old[name]) !== JSON.stringify(now[name]));
  return changed.length === 0 ? undefined : Object.fromEntries(changed.map((name) => [name, old[name]]));
}

/** The question before it, with what it changes. The device must not have changed after that. */
function askWayBack(device: Device, back: UpdateDevice, client: Session['client']): Confirmation {
  const { id, organization_id: org, revision } = device;
  const body: ReactNode = (
    <div className="stack">
      <p>
        Its{' '}
        {Object.keys(back)
          .map((name) => (isField(name) ? fields[name][0] : name))
          .join(' and ')}{' '}
        become what they were before this change.
      </p>
      <ChangePreview change={{ devices: [{ id, ...back }] }} />
    </div>
  );
  return {
    title: `Take back the change of ${deviceName(device)}?`,
    isWide: true,
    body,
    action: 'Take it back',
    act: async () => {
      await writeOrAsk((agreed) => client.devices.update(org, id, back, { ifMatch: revision, ...agreed }));
      notify(`The change of ${deviceName(device)} is taken back.`);
    },
  };
}

export function useSentenceNames(): Names {
  const { deviceById, groupById } = useSnapshot();
  const { client } = useSession();
  const { id: org } = useLive();
  const { data: members } = useMembers();
  const { data: organizations } = useOrganizations();
  const { data: keys } = useQuery({
    queryKey: ['keys', org],
    queryFn: ({ signal }) => client.enrollmentKeys.list(org, { signal }),
  });
  const owners = useAddressOwners();
  return useMemo(() => {
    const others = new Map<string, string>([
      ...(members ?? []).map(({ user_id, username }) => [user_id, username] as const),
      ...[...(organizations ?? []), ...(keys ?? [])].map(({ id, name }) => [id, name] as const),
    ]);
    return {
      deviceOf: (id) => {
        const device = deviceById.get(id);
        return device === undefined ? undefined : deviceName(device);
      },
      groupOf: (id) => groupById.get(id)?.group_name,
      otherOf: (id) => others.get(id) || undefined,
      ownerOf: (address) => owners.get(address),
    };
  }, [deviceById, groupById, members, organizations, keys, owners]);
}
