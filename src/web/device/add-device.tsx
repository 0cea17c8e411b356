/** Owns adding a device to the organization: an enrollment key, and the command to run with it. */
import { groupChoices } from '../components/filter-bar.tsx';
import { MultiSelect, NumberInput, Select, TextInput, Button, SegmentedControl } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useState, type ReactNode } from 'react';
import { UnknownLabels, LabelInput } from '../group/far-end-input.tsx';
import { Dialog, FormDialog, DialogFoot } from '../components/dialog.tsx';
import type { IssuedEnrollmentKey } from '../../api/user.ts';
import { endOf, lengthChoices } from '../model/expiry.ts';
import { labelFault } from '../model/far-end.ts';
import { useRights, useSnapshot, deviceName, useLive } from '../state/organization.ts';
import { useSession } from '../state/session.ts';
import { useWrite } from '../state/write.tsx';
import { CheckIcon } from '../components/icons.tsx';
import { TakeAway } from '../components/secret.tsx';
import { writeEnrollmentKey } from '../../policy/names/enrollment-key.ts';
import { addressForDevices, isLoopback } from '../../client/words/server-address.ts';
import { DeviceLink } from '../components/record-link.tsx';

export const keysKey = (org: string): readonly string[] => ['keys', org];

export function AddDevice({ close }: { readonly close: () => void }): ReactNode {
  const { id: org } = useLive();
  const { client, me } = useSession();
  const queries = useQueryClient();
  const { groups, defaultGroup } = useSnapshot();
  const [name, setName] = useState('');
  const [uses, setUses] = useState<number>(1);
  const [lasts, setLasts] = useState('day');
  const [chosen, setChosen] = useState<string[]>([]);
  const [labels, setLabels] = useState<readonly string[]>([]);
  const { governs } = useRights();
  const wrongLabel = labelFault(labels);
  const [made, setMade] = useState<IssuedEnrollmentKey>();
  const write = useWrite(async () => {
    const expires_at = endOf(lasts, Date.now());
    setMade(
      await client.enrollmentKeys.create(org, {
        uses,
        name: name.trim() || 'made in the web UI',
        ...(expires_at === undefined ? {} : { expires_at }),
        ...(chosen.length === 0 ? {} : { security_groups: chosen }),
        ...(labels.length === 0 ? {} : { labels }),
      }),
    );
    await queries.invalidateQueries({ queryKey: keysKey(org) });
  });
  // What the devices may carry: they will be mine.
  const possible = groups.filter(
    ({ is_default, user_id, guardrail }) =>
      is_default !== true && guardrail === undefined && (user_id === undefined || user_id === me.id),
  );
  if (made !== undefined)
    return (
      <Dialog close={close} title="Add devices" size="lg" closeOnClickOutside={false} closeOnEscape={false}>
        <JoinInstructions made={made} leave={close} />
      </Dialog>
    );
  return (
    <FormDialog
      title="Add devices"
      size="lg"
      close={close}
      write={write}
      action="Make the key"
      disabled={wrongLabel !== undefined}
    >
      <p>
        A device joins with an <strong>enrollment key</strong>, and will be yours.
      </p>
      <TextInput
        label="What is the key for?"
        placeholder="Web servers, Kim's laptop …"
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        maxLength={255}
        data-autofocus
      />
      <div className="halves">
        <NumberInput
          label="How many devices may join with it?"
          min={1}
          max={1000}
          clampBehavior="strict"
          allowDecimal={false}
          value={uses}
          onChange={(value) => setUses(Number(value) || 1)}
        />
        <Select
          label="How long does it last?"
          data={lengthChoices('hour', 'day', 'week', 'month')}
          value={lasts}
          onChange={(value) => setLasts(value ?? 'day')}
          allowDeselect={false}
        />
      </div>
      {possible.length === 0 ? (
        <p className="small dimmed">Devices start under {defaultGroup?.group_name ?? 'the default group'}.</p>
      ) : (
        <MultiSelect
          label="Groups that the devices start with"
          description={`With none, the default group applies${defaultGroup === undefined ? '' : `: ${defaultGroup.group_name}`}.`}
          placeholder={chosen.length === 0 ? 'The default group' : ''}
          searchable
          data={groupChoices(possible)}
          value={chosen}
          onChange={setChosen}
          clearable
          clearButtonProps={{ 'aria-label': 'No groups' }}
        />
      )}
      {governs ? (
        <LabelInput
          label="Labels that the devices get"
          description="What the devices are. Rules and groups name labels."
          labels={labels}
          onChange={setLabels}
          error={wrongLabel}
        />
      ) : null}
      {wrongLabel === undefined ? <UnknownLabels labels={labels} areKnownToGroups /> : null}
    </FormDialog>
  );
}

type InstallMethod = 'service' | 'program';

/** The key is typed or read from a file: a list of processes shows every argument to everybody on the machine. */
const linesFor: Readonly<Record<InstallMethod, string>> = {
  service: 'sudo apt install ringfence-agent\nsudo ringfence-enroll --interface wg0',
  program:
    '(umask 077; cat > enrollment-key)   # paste the key, then Ctrl+D\nsudo ringfence agent --interface wg0 --enroll-file enrollment-key',
};

/** Devices that came while these lines were shown. */
function Joined({ since, uses }: { readonly since: ReadonlySet<string>; readonly uses: number }) {
  const { devices } = useSnapshot();
  const joined = devices.filter(({ id }) => !since.has(id));
  return (
    <div className="stack tight" role="status" aria-label="Joined">
      {joined.map((device) => (
        <p key={device.id} className="row joined">
          <CheckIcon size={16} />
          <span>
            <DeviceLink className="link" id={device.id}>
              {deviceName(device)}
            </DeviceLink>{' '}
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

function JoinInstructions({
  made,
  leave,
}: {
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
      <Joined since={since} uses={made.uses_left} />
      <DialogFoot>
        <Button onClick={leave}>Done</Button>
      </DialogFoot>
    </div>
  );
}
