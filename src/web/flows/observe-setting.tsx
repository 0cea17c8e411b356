/** Owns the settings of an organization about observed traffic: what agents record and what senders get, with the cost and the privacy of each. */
import { Button } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { Organization } from '../../api/organization.ts';
import { RadioList, type RadioChoice } from '../components/radio-list.tsx';
import { notify, useWrite, type Write } from '../state/write.tsx';
import { Card } from '../components/page.tsx';
import { useLive, useOrganization, useRights } from '../state/organization.ts';
import { useSession } from '../state/session.ts';

type Observe = Organization['observe'];
type RefuseWith = Organization['refuse_with'];

const observeChoices: readonly RadioChoice<Observe>[] = [
  { value: 'off', label: 'Nothing', about: 'Agents count and record no traffic.' },
  {
    value: 'counters',
    label: 'Counters',
    about: 'How many packets each group admits, and how many are refused. No addresses.',
  },
  {
    value: 'refused',
    label: 'Refused packets',
    about:
      'Also direction, far address, protocol and port of first packets that no rule admitted. It costs a refused packet a little time, and packets of open connections nothing.',
  },
  {
    value: 'all',
    label: 'Refused and admitted packets',
    about:
      'The same of first packets that were admitted. It shows which rules are used, and who talks to whom. It costs each new connection a little time.',
  },
];

const refuseChoices: readonly RadioChoice<RefuseWith>[] = [
  {
    value: 'drop',
    label: 'No answer',
    about: 'The sender waits until its own time is over. It learns nothing about the device.',
  },
  {
    value: 'reject',
    label: 'An answer that says no',
    about: 'The sender knows at once. It also learns that there is a device. The answers are rate-limited.',
  },
];

/** What the recording of an organization says of itself after a change. */
const observeNews: { readonly [O in Observe]: string } = {
  off: 'Agents no longer record traffic.',
  counters: 'Agents count packets now and record no addresses.',
  refused: 'Agents record refused packets now. The first appear within two minutes.',
  all: 'Agents record refused and admitted packets now. The first appear within two minutes.',
};

type Settings = Partial<Pick<Organization, 'observe' | 'refuse_with'>>;

/** For owners. */
function useSettings(): Write<Settings> {
  const { client } = useSession();
  const { id } = useLive();
  const queries = useQueryClient();
  return useWrite(async (settings: Settings) => {
    await client.organizations.update(id, settings);
    await queries.invalidateQueries({ queryKey: ['organizations'] });
    notify(settings.observe === undefined ? 'The setting is saved.' : observeNews[settings.observe]);
  }, 'The setting was not saved');
}

/** One click to record more, for owners; others read who can. */
export function RecordButton({ observe }: { readonly observe: 'refused' | 'all' }): ReactNode {
  const { governs } = useRights();
  const { start, busy } = useSettings();
  if (!governs) return <span className="small dimmed">An owner can change this on the organization page.</span>;
  return (
    <Button loading={busy} onClick={() => start({ observe })}>
      {observe === 'refused' ? 'Record refused packets' : 'Record admitted packets too'}
    </Button>
  );
}

/** The choice for owners; for others what is chosen. */
function Setting<V extends string>({
  label,
  choices,
  value,
  onChange,
}: {
  readonly label: string;
  readonly choices: readonly RadioChoice<V>[];
  readonly value: V;
  readonly onChange: (value: V) => void;
}): ReactNode {
  const { governs } = useRights();
  if (governs) return <RadioList label={label} choices={choices} value={value} onChange={onChange} />;
  const chosen = choices.find((choice) => choice.value === value);
  return (
    <div>
      <strong>{label}</strong>
      <p>{chosen?.label}</p>
      <p className="small dimmed">{chosen?.about}</p>
    </div>
  );
}

/** The card on the page of the organization. */
export function TrafficSettings(): ReactNode {
  const organization = useOrganization();
  const { start } = useSettings();
  if (organization === undefined) return null;
  return (
    <Card title="Traffic">
      <div className="card-body stack">
        <div className="halves">
          <Setting
            label="What agents record"
            choices={observeChoices}
            value={organization.observe}
            onChange={(observe) => start({ observe })}
          />
          <Setting
            label="What the sender of a refused packet gets"
            choices={refuseChoices}
            value={organization.refuse_with}
            onChange={(refuse_with) => start({ refuse_with })}
          />
        </div>{' '}
        <p className="small dimmed">
          Agents never record the content of packets. Owners read the traffic of all devices, members that of their own.
          The server keeps it for some days; the activity shows who changed these settings.
        </p>
      </div>
    </Card>
  );
}
