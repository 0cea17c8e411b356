/** Owns the warning about a file with a secret that other users can read or change. */
import { statSync } from 'node:fs';

/** All rights of others, and of the group except to read: systemd lets a group read credentials that are meant for it. */
const forOthers = 0o037;

/** What a person should know of the file; nothing where it is closed to others, or cannot be looked at. */
export function openFileWarning(path: string): string | undefined {
  const { mode } = statSync(path, { throwIfNoEntry: false }) ?? { mode: 0 };
  if ((mode & forOthers) === 0) return undefined;
  const how = (mode & 0o022) === 0 ? 'read' : 'change';
  return `other users of this machine can ${how} ${path}, which holds a secret: run chmod 600 ${path}`;
}
