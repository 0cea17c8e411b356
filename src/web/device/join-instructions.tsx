/**
 * Owns the instructions for a device that joins: the key, the commands to run with it, and the wait until it appears.
 */
import { Button, SegmentedControl } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { useState, type ReactNode } from 'react';
import type { IssuedEnrollmentKey } from '../../api/user.ts';
import { DialogFoot } from '../components/dialog.tsx';
import { CheckIcon } from '../components/icons.tsx';
import { TakeAway } from '../components/secret.tsx';
import { writeEnrollmentKey } from '../../policy/names/enrollment-key.ts';
import { addressForDevices, isLoopback } from '../../client/words/server-address.ts';
import { deviceName } from '../state/live.ts';
import { useSnapshot } from '../state/organization.ts';

type InstallMethod = 'service' | 'program';

/** The key is typed or read from a file: a list of processes shows every argument to everybody on the machine. */
const linesFor: Readonly<Record<InstallMethod, string>> = {
  service: 'sudo apt install ringfence-agent\nsudo ringfence-enroll --interface wg0',
  program:
    '(umask 077; cat > enrollment-key)   # paste the key, then Ctrl+D\nsudo ringfence agent --interface wg0 --enroll-file enrollment-key',
};

/** Devices that came while these lines were shown. */
function Joined({
  org,
  since,
  uses,
}: {
  readonly org: string;
  readonly since: ReadonlySet<string>;
  readonly uses: number;
}) {
  const { devices } = useSnapshot();
  const joined = devices.filter(({ id }) => !since.has(id));
  return (
    <div className="stack tight" role="status" aria-label="Joined">
      {joined.map((device) => (
        <p key={device.id} className="row joined">
          <CheckIcon size={16} />
          <span>
            <Link className="link" to="/o/$org/devices/$device" params={{ org, device: device.id }}>
              {deviceName(device)}
            </Link>{' '}
            joined
          </span>
        </p>
      ))}
      {joined.length < uses ? (
        <p className="row dimmed">
          <span className="pulse" aria-hidden="true" />
          {joined.length === 0 ? 'Waiting for the device…' : 'Waiting for more…'}
        </p>
      ) : null}
    </div>
  );
}

export function JoinInstructions({
  org,
  made,
  leave,
}: {
  readonly org: string;
  readonly made: IssuedEnrollmentKey;
  readonly leave: () => void;
}): ReactNode {
  const { deviceById } = useSnapshot();
  const [since] = useState<ReadonlySet<string>>(() => new Set(deviceById.keys()));
  const [way, setWay] = useState<InstallMethod>('service');
  const server = addressForDevices(made.public_url, location.origin);
  const key = writeEnrollmentKey(made.key, made.organization_id, server);
  return (
    <div className="stack">
      <TakeAway text={key} label="The key" />
      <p className="note note-warn">The key is shown only now. It carries the server and the organization.</p>
      <SegmentedControl
        aria-label="How the agent runs"
        value={way}
        onChange={(value) => setWay(value === 'program' ? 'program' : 'service')}
        data={[
          { value: 'service', label: 'As a service (Debian, systemd)' },
          { value: 'program', label: 'By hand' },
        ]}
      />
      <p>
        Run this on {made.uses_left === 1 ? 'the device' : `up to ${made.uses_left} devices`}, with the interface to
        guard in place of <code>wg0</code>. {way === 'service' ? 'It asks for the key.' : ''}
      </p>
      <TakeAway text={linesFor[way]} label="The command" />
      {isLoopback(server) ? (
        <p className="note note-warn" role="alert">
          The key names <code>{server}</code>, which is this machine only: no other device reaches it there. Add{' '}
          <code>--server</code> with the address that devices reach, or start the server with it as{' '}
          <code>--public-url</code>.
        </p>
      ) : null}
      <Joined org={org} since={since} uses={made.uses_left} />
      <DialogFoot>
        <Button onClick={leave}>Done</Button>
      </DialogFoot>
    </div>
  );
}
