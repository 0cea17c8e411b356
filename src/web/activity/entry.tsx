/** Owns one entry of the activity feed: a sentence with names, the state before and after, its origin, and how to take the change back. */
import { shortRevision } from '../../client/words/number.ts';
import { logLine, type ToldTogether } from '../../client/words/log-lines.ts';
import { useState, useMemo, type ReactNode } from 'react';
import type { AuditEntry } from '../../api/audit.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { actorName } from '../../client/words/action.ts';
import { deviceChanges, fieldLines, groupChanges, type Line } from '../../client/words/changes.ts';
import { sentenceOf, unseenGroup, type Names, type Sentence } from '../../client/words/sentence.ts';
import { shortId } from '../../client/words/short-id.ts';
import type { Confirmation } from '../components/dialog.tsx';
import { DownIcon, UpIcon } from '../components/icons.tsx';
import { Ago, Lines, SmallButton } from '../components/page.tsx';
import { failed, notify, writeOrAsk } from '../state/write.tsx';
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
import { useQuery } from '@tanstack/react-query';
import { DeviceLink, GroupLink } from '../components/record-link.tsx';

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
function Subject({ id, name }: { readonly id: string | undefined; readonly name: string }): ReactNode {
  const { deviceById, groupById } = useSnapshot();
  if (id !== undefined && deviceById.has(id)) {
    return (
      <DeviceLink id={id}>
        <strong>{name}</strong>
      </DeviceLink>
    );
  }
  if (id !== undefined && groupById.has(id)) {
    return (
      <GroupLink className="plain-link" id={id}>
        <strong>{name}</strong>
      </GroupLink>
    );
  }
  return <strong>{name}</strong>;
}

export function Words({
  who,
  sentence,
  subjectId,
}: {
  readonly who: string | undefined;
  readonly sentence: Sentence;
  readonly subjectId: string | undefined;
}): ReactNode {
  const { before, subject, after } = sentence;
  return (
    <>
      {who === undefined ? `${before.charAt(0).toUpperCase()}${before.slice(1)}` : <strong>{who}</strong>}
      {who === undefined ? ' ' : ` ${before} `}
      {subject === '' ? null : <Subject id={subjectId} name={subject} />}
      {after}
    </>
  );
}

/** Whether this was a change of a group that can be taken back. */
const hasWayBack = (entry: AuditEntry): boolean =>
  isAbout('SecurityGroup', entry) && entry.before !== undefined && entry.revision !== undefined;

function FeedLine({
  at,
  words,
  label,
  isOpen,
  setOpen,
  children,
}: {
  readonly at: string;
  readonly words: ReactNode;
  /** What a screen reader says of the button that opens it. */
  readonly label: string;
  readonly isOpen: boolean;
  readonly setOpen: (isOpen: boolean) => void;
  /** What it opens to. */
  readonly children: ReactNode;
}): ReactNode {
  return (
    <li className="deed">
      <span className="small dimmed feed-time">
        <Ago at={at} />
      </span>
      <div className="grow stack tight">
        <p className="breaks">{words}</p>
        {isOpen ? children : null}
      </div>
      <button
        type="button"
        className="more"
        aria-expanded={isOpen}
        aria-label={`Details: ${label}`}
        onClick={() => setOpen(!isOpen)}
      >
        Details {isOpen ? <UpIcon size={16} /> : <DownIcon size={16} />}
      </button>
    </li>
  );
}

interface EntryProps {
  readonly entry: AuditEntry;
  readonly names: Names;
  /** Asks before a change of a device is taken back; absent where nothing may be changed. */
  readonly confirm: ((confirmation: Confirmation) => void) | undefined;
  /** Absent where nothing may be changed. */
  readonly restore: ((target: Target) => void) | undefined;
}

function Entry({ entry, names, restore, confirm }: EntryProps): ReactNode {
  const { id: org } = useLive();
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
    <FeedLine
      at={entry.at}
      label={`${actorName(entry)} ${sentence.before} ${sentence.subject}`}
      isOpen={open}
      setOpen={setOpen}
      words={<Words who={actorName(entry)} sentence={sentence} subjectId={entry.subject_id} />}
    >
      <>
        {lines === undefined ? null : <Lines lines={lines} />}
        <p className="small dimmed breaks">
          From <span className="mono">{entry.address}</span> with {credentialName(entry.credential.kind)}
          {entry.credential.id === undefined ? '' : ` (${shortId(entry.credential.id)})`}
          {entry.revision === undefined ? '' : `, revision ${shortRevision(entry.revision)}`}. Request{' '}
          <span className="mono">{entry.request_id}</span>.
        </p>
        {back === undefined || device === undefined ? null : (
          <div className="row">
            <SmallButton onClick={() => confirm?.(askWayBack(device, back, client))}>Take this back</SmallButton>
          </div>
        )}
        {restore === undefined || !hasWayBack(entry) ? null : (
          <div className="row">
            <SmallButton onClick={takeBack}>
              {entry.after === undefined ? 'Bring it back' : 'Take this back'}
            </SmallButton>
          </div>
        )}
      </>
    </FeedLine>
  );
}

/** One line for what was done together, such as the parts of a change: it opens to them. */
function Fold({ entries, ...rest }: Omit<EntryProps, 'entry'> & { readonly entries: ToldTogether }): ReactNode {
  const [open, setOpen] = useState(false);
  const [first, ...others] = entries;
  const { sentence } = logLine(entries, rest.names);
  // The entry of a change itself says no more than its line.
  const parts = first.change_id === undefined && others[0]?.change_id === undefined ? entries : others;
  return (
    <FeedLine
      at={first.at}
      label={`${actorName(first)} ${sentence}`}
      isOpen={open}
      setOpen={setOpen}
      words={<FoldWords entries={entries} names={rest.names} />}
    >
      <ul className="rows feed">
        {parts.map((entry) => (
          <Entry key={entry.id} entry={entry} {...rest} />
        ))}
      </ul>
    </FeedLine>
  );
}

const FoldWords = ({ entries, names }: { readonly entries: ToldTogether; readonly names: Names }): ReactNode => (
  <>
    <strong>{actorName(entries[0])}</strong> {logLine(entries, names).sentence}
  </>
);

/** What a line of the feed says, in one sentence. */
export function DeedWords({ entries, names }: { readonly entries: ToldTogether; readonly names: Names }): ReactNode {
  const [entry, ...others] = entries;
  if (others.length > 0) return <FoldWords entries={entries} names={names} />;
  return <Words who={actorName(entry)} sentence={sentenceOf(entry, names)} subjectId={entry.subject_id} />;
}

/** A line of the feed: one entry, or several that are told together. */
export function Deed({ entries, ...rest }: Omit<EntryProps, 'entry'> & { readonly entries: ToldTogether }): ReactNode {
  const [entry, ...others] = entries;
  return others.length === 0 ? <Entry entry={entry} {...rest} /> : <Fold entries={entries} {...rest} />;
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
