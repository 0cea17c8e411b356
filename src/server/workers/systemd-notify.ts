/** Owns the readiness message to systemd (`sd_notify`). */
import { execFile } from 'node:child_process';

/** Sends the message once and never fails: without systemd it does nothing. */
export function notifyReady({ NOTIFY_SOCKET, PATH }: NodeJS.ProcessEnv): Promise<void> {
  if (NOTIFY_SOCKET === undefined) return Promise.resolve();
  return new Promise((resolve) => {
    execFile('systemd-notify', ['--ready'], { env: { PATH, NOTIFY_SOCKET }, timeout: 10_000 }, () => resolve());
  });
}
