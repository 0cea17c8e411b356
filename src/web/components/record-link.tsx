/** Owns the ways to the pages of devices and groups. What the page does not know, because it is gone or not to be seen, is only named. */
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { deviceName, useLive, useSnapshot } from '../state/organization.ts';
import { BackIcon } from './icons.tsx';

interface RecordLinkProps {
  readonly id: string;
  readonly className?: string;
  /** Its name, unless something else is given. */
  readonly children?: ReactNode;
}

export function DeviceLink({ id, className = 'plain-link', children }: RecordLinkProps): ReactNode {
  const { id: org } = useLive();
  const device = useSnapshot().deviceById.get(id);
  if (device === undefined) return children ?? <strong>a deleted device</strong>;
  return (
    <Link className={className} to="/o/$org/devices/$device" params={{ org, device: id }}>
      {children ?? <strong>{deviceName(device)}</strong>}
    </Link>
  );
}

export function GroupLink({ id, className = 'link', children }: RecordLinkProps): ReactNode {
  const { id: org } = useLive();
  const group = useSnapshot().groupById.get(id);
  if (group === undefined) return children ?? 'a group that you may not see';
  return (
    <Link className={className} to="/o/$org/groups/$group" params={{ org, group: id }} title={group.group_name}>
      {children ?? group.group_name}
    </Link>
  );
}

/** The way up, above the title of a page. */
export function Back({ to }: { readonly to: 'devices' | 'groups' }): ReactNode {
  const { id: org } = useLive();
  return (
    <Link className="link row small" to={`/o/$org/${to}`} params={{ org }}>
      <BackIcon size={16} /> {to === 'devices' ? 'Devices' : 'Groups'}
    </Link>
  );
}
