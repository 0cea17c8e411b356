/** Owns the locks of a running agent: one on its state directory, one in its network namespace, taken and released together. */
import { chmod, mkdir, stat } from 'node:fs/promises';
import { lockFolders, type FolderLock, type LockOptions } from '../node/lock.ts';
import { refuseSharedFolder } from './host/private-folder.ts';

/** Thrown where the agent cannot start: one line for a person. */
export class CannotStart extends Error {
  readonly code = 'cannot_start';
}

/** Also the runtime directory of the unit, which may write nowhere else in /run. */
const runtime = '/run/ringfence-agent';

/**
 * Two agents in one network namespace would undo each other's rules for ever, whatever directories they keep. So a directory is
 * locked that bears the namespace's number. Undefined where this system gives no place for it: it is a guard against a
 * mistake, and no reason to leave a device without its rules.
 */
async function namespaceFolder(): Promise<string | undefined> {
  try {
    const folder = `${runtime}/net-${(await stat('/proc/self/ns/net')).ino}`;
    await mkdir(folder, { recursive: true, mode: 0o700 });
    return folder;
  } catch {
    return undefined;
  }
}

/** Takes the locks. With `onSilence`, an agent enforces although `flock` hangs; what takes rules away never does. */
export async function lockState(
  state: string,
  options: Pick<LockOptions, 'onLost' | 'onSilence' | 'timeoutMs'> = {},
): Promise<FolderLock> {
  try {
    await mkdir(state, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw new CannotStart(
      `cannot create the state directory: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
  await refuseSharedFolder(state, process.geteuid?.());
  // Any user who may open a directory may lock it, and so block the next start of the agent. On a read-only disk the
  // mode stays as it is.
  await chmod(state, 0o700).catch(() => {});
  const places = [{ folder: state, held: `another agent is running with ${state}` }];
  const namespace = await namespaceFolder();
  if (namespace !== undefined)
    places.push({ folder: namespace, held: 'another agent is running in this network namespace' });
  return lockFolders(places, options);
}
