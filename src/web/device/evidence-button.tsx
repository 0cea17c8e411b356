/** Owns the making of evidence about a device: a signed file about a span of the past, which is downloaded and shown. */
import { TextInput } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useState, type ReactNode } from 'react';
import type { Device } from '../../api/device.ts';
import { DialogButton, FormDialog } from '../components/dialog.tsx';
import { notify } from '../components/toast.tsx';
import { dayLimits } from '../model/activity-search.ts';
import { keepEvidence } from '../state/evidence.ts';
import { deviceName } from '../state/live.ts';
import { useRights } from '../state/organization.ts';
import { useSession } from '../state/session.ts';
import { useWrite } from '../state/write.ts';

const dayMs = 86_400_000;
const two = (value: number): string => String(value).padStart(2, '0');

/** A day of local time, as the browser's field has it. */
function dayText(time: number): string {
  const date = new Date(time);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

/** Letters that every file system takes. */
const fileName = (name: string, from: string, to: string): string =>
  `evidence-${name.replaceAll(/[^\w.-]+/g, '_').slice(0, 80)}-${from}-${to}.json`;

function save(file: string, name: string): void {
  const url = URL.createObjectURL(new Blob([file], { type: 'application/json' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

function EvidenceDialog({ device, close }: { readonly device: Device; readonly close: () => void }): ReactNode {
  const { client } = useSession();
  const navigate = useNavigate();
  const [today] = useState(() => dayText(Date.now()));
  const first = dayText(Date.parse(device.created_at));
  const [from, setFrom] = useState(() => dayText(Math.max(Date.now() - 7 * dayMs, Date.parse(device.created_at))));
  const [to, setTo] = useState(today);
  const name = deviceName(device);
  const isWrong = from === '' || to === '' || from < first || from > to || to > today;
  const write = useWrite(async () => {
    const now = Date.now();
    // Before the device was registered there is nothing to tell, and the history may not go back that far.
    const at = new Date(Math.max(dayLimits(from)[0], Date.parse(device.created_at))).toISOString();
    // The end of the last day, unless that is today.
    const end = new Date(Math.min(dayLimits(to)[1], now)).toISOString();
    const evidence = await client.evidence.create(device.organization_id, device.id, { at, to: end });
    const file = JSON.stringify(evidence, undefined, 2);
    save(file, fileName(name, from, to));
    keepEvidence(file);
    notify('The evidence is downloaded. The activity shows that it was made.');
    close();
    await navigate({ to: '/evidence' });
  });
  return (
    <FormDialog title={`Evidence about ${name}`} close={close} write={write} action="Download" disabled={isWrong}>
      <p>
        A signed file for an auditor: who could reach {name} and whom it could reach, by which rules, who wrote them,
        and what was refused. <code>ringfence evidence verify</code> checks it without a server.
      </p>
      <div className="halves">
        <TextInput
          type="date"
          label="From"
          value={from}
          min={first}
          max={to || today}
          onChange={(event) => setFrom(event.currentTarget.value)}
        />
        <TextInput
          type="date"
          label="To"
          value={to}
          min={from}
          max={today}
          onChange={(event) => setTo(event.currentTarget.value)}
        />
      </div>
      {isWrong ? (
        <p className="fault">
          Choose a first and a last day: not before {first}, when the device was registered, and not after today.
        </p>
      ) : null}
    </FormDialog>
  );
}

/** For owners. The audit records who made evidence, so a read-only sign-in cannot. */
export function EvidenceButton({ device }: { readonly device: Device }): ReactNode {
  const { governs } = useRights();
  if (!governs) return null;
  return <DialogButton name="Evidence" dialog={(close) => <EvidenceDialog device={device} close={close} />} />;
}
