/** Owns the message to systemd that the agent is ready, where systemd waits for one. */
import { execFile } from 'node:child_process';
import { helperEnvironment } from '../../node/helper-environment.ts';

/** Notifies systemd once, and never fails. Without systemd it does nothing. */
export function notifyReady(env: NodeJS.ProcessEnv): Promise<void> {
  const { NOTIFY_SOCKET } = env;
  if (NOTIFY_SOCKET === undefined) return Promise.resolve();
  return new Promise((resolve) => {
    const options = { env: { ...helperEnvironment, NOTIFY_SOCKET }, timeout: 10_000 };
    execFile('systemd-notify', ['--ready'], options, () => resolve());
  });
}
