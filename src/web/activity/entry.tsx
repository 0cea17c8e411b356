/** Owns one thing that somebody did: a sentence, with before and after, where it came from, and the way back behind it. */
import { Button } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { useState, type ReactNode } from 'react';
import type { AuditEntry } from '../../api/audit.ts';
import type { SecurityGroup } from '../../api/group.ts';
import type { DevicePolicy } from '../../api/history/states.ts';
import { deviceChanges, groupChanges, type Line } from '../../client/words/changes.ts';
import { sentenceOf, type Names, type Sentence } from '../../client/words/sentence.ts';
import { shortId } from '../../client/words/short-id.ts';
import { DownIcon, UpIcon } from '../components/icons.tsx';
import { Ago } from '../components/time.tsx';
import type { Target } from '../group/restore.tsx';
import { credentialName } from '../model/activity.ts';
import { useSnapshot } from '../state/organization.ts';
import { Lines } from './lines.tsx';

const isGroup = (record: object | undefined): record is SecurityGroup => record !== undefined && 'group_name' in record;
const isDevice = (record: object | undefined): record is DevicePolicy => record !== undefined && 'hostname' in record;

function linesOf({ before, after }: AuditEntry, names: Names): readonly Line[] | undefined {
  if (isGroup(before) || isGroup(after)) {
    const [old, now] = [isGroup(before) ? before : undefined, isGroup(after) ? after : undefined];
    return groupChanges(old, now, { nameOf: names.deviceOf });
  }
  if (!isDevice(before) && !isDevice(after)) return undefined;
  const [old, now] = [isDevice(before) ? before : undefined, isDevice(after) ? after : undefined];
  return deviceChanges(old, now, (id) => names.groupOf(id) ?? shortId(id));
}

/** The name of what it was done to, as a link while it is there. */
export function Subject({
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

/** The state before this entry, where it was a change of a group that can be taken back. */
const wayBack = ({ before, revision, at, operation }: AuditEntry): Target | undefined =>
  isGroup(before) && revision !== undefined && !operation.startsWith('create')
    ? { record: before, revision: revision - 1, at }
    : undefined;

export function Entry({
  entry,
  org,
  names,
  restore,
}: {
  readonly entry: AuditEntry;
  readonly org: string;
  readonly names: Names;
  /** Absent where nothing may be changed. */
  readonly restore: ((target: Target) => void) | undefined;
}): ReactNode {
  const [open, setOpen] = useState(false);
  const sentence = sentenceOf(entry, names);
  const lines = open ? linesOf(entry, names) : undefined;
  const target = restore === undefined ? undefined : wayBack(entry);
  return (
    <li className="deed">
      <span className="small dimmed feed-time">
        <Ago at={entry.at} />
      </span>
      <div className="grow stack tight">
        <p className="deed-words">
          <Words who={entry.username} sentence={sentence} subjectId={entry.subject_id} org={org} />
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
            {target === undefined || restore === undefined ? null : (
              <div className="row">
                <Button size="compact-sm" variant="default" onClick={() => restore(target)}>
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
        aria-label={`Details: ${entry.username} ${sentence.before} ${sentence.subject}`}
        onClick={() => setOpen(!open)}
      >
        <span className="only-wide">Details</span> {open ? <UpIcon size={16} /> : <DownIcon size={16} />}
      </button>
    </li>
  );
}
