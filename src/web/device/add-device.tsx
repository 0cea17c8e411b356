/** Owns adding a device to the organization: an enrollment key, and the command to run with it. */
import { MultiSelect, NumberInput, Select, TextInput } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useState, type ReactNode } from 'react';
import { UnknownLabels } from '../components/unknown-labels.tsx';
import { Dialog, FormDialog } from '../components/dialog.tsx';
import type { IssuedEnrollmentKey } from '../../api/user.ts';
import { endOf, lengthChoices } from '../model/expiry.ts';
import { labelFault } from '../model/labels.ts';
import { useRights, useSnapshot } from '../state/organization.ts';
import { useSession } from '../state/session.ts';
import { useWrite } from '../state/write.ts';
import { JoinInstructions } from './join-instructions.tsx';
import { LabelInput } from './label-input.tsx';

export const keysKey = (org: string): readonly string[] => ['keys', org];

export function AddDevice({ close, org }: { readonly close: () => void; readonly org: string }): ReactNode {
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
        <JoinInstructions org={org} made={made} leave={close} />
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
          data={possible.map(({ id, group_name }) => ({ value: id, label: group_name }))}
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
