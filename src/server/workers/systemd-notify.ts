/** Owns the message to systemd that the server is ready, where systemd waits for one. */
import { execFile } from 'node:child_process';

/** Says it once, and never fails: without systemd there is nobody to tell. */
export function notifyReady({ NOTIFY_SOCKET, PATH }: NodeJS.ProcessEnv): Promise<void> {
  if (NOTIFY_SOCKET === undefined) return Promise.resolve();
  return new Promise((resolve) => {
    execFile('systemd-notify', ['--ready'], { env: { PATH, NOTIFY_SOCKET }, timeout: 10_000 }, () => resolve());
  });
}
