/** Owns the way of a new device into the organization: an enrollment key, and the command to run with it. */
import { Button, CopyButton, Modal, NumberInput } from '@mantine/core';
import { useState, type ReactNode } from 'react';
import type { IssuedEnrollmentKey } from '../../api/user.ts';
import { useSession } from '../state/session.ts';
import { sentence } from './states.tsx';

const commandFor = (org: string, key: string): string =>
  `ringfence agent --server ${location.origin} \\\n  --organization ${org} \\\n  --interface wg0 --enroll ${key}`;

export function AddDevice({
  opened,
  close,
  org,
}: {
  readonly opened: boolean;
  readonly close: () => void;
  readonly org: string;
}): ReactNode {
  const { client } = useSession();
  const [uses, setUses] = useState<number>(1);
  const [key, setKey] = useState<IssuedEnrollmentKey>();
  const [fault, setFault] = useState<string>();
  const [busy, setBusy] = useState(false);
  const make = (): void => {
    setBusy(true);
    setFault(undefined);
    client.enrollmentKeys
      .create(org, { uses, name: 'made in the web UI' })
      .then(setKey, (error: unknown) => setFault(sentence(error)))
      .finally(() => setBusy(false));
  };
  const leave = (): void => {
    setKey(undefined);
    close();
  };
  return (
    <Modal opened={opened} onClose={leave} title="Add devices" size="lg" closeButtonProps={{ 'aria-label': 'Close' }}>
      {key === undefined ? (
        <div className="stack">
          <p>
            A device joins with an <strong>enrollment key</strong>. It will be yours, and it starts under the default
            group.
          </p>
          <NumberInput
            label="How many devices may join with this key?"
            description="The key ends after a day."
            min={1}
            max={1000}
            clampBehavior="strict"
            allowDecimal={false}
            value={uses}
            onChange={(value) => setUses(Number(value) || 1)}
            error={fault}
          />
          <div className="row end">
            <Button variant="default" onClick={leave}>
              Cancel
            </Button>
            <Button loading={busy} onClick={make}>
              Make the key
            </Button>
          </div>
        </div>
      ) : (
        <div className="stack">
          <p>
            Run this as root on {uses === 1 ? 'the device' : `up to ${uses} devices`}, with the interface to guard in
            place of <code>wg0</code>:
          </p>
          <pre className="code" tabIndex={0}>
            {commandFor(org, key.key)}
          </pre>
          <p className="note note-warn">
            The key is shown only now. The device appears in the list as soon as it has joined.
          </p>
          <div className="row end">
            <CopyButton value={commandFor(org, key.key).replaceAll('\\\n  ', '')}>
              {({ copied, copy }) => (
                <Button variant="default" onClick={copy}>
                  {copied ? 'Copied' : 'Copy the command'}
                </Button>
              )}
            </CopyButton>
            <Button onClick={leave}>Done</Button>
          </div>
        </div>
      )}
    </Modal>
  );
}
