/** Owns the choice of a trial: how long people have to confirm the change, and which devices try it. */
import { SegmentedControl } from '@mantine/core';
import { useState, type ReactNode } from 'react';
import { FormDialog } from '../components/dialog.tsx';
import { useWrite } from '../state/write.ts';
import { ScopeInput, scopeText } from './scope-input.tsx';

const lengths = [
  ['120', '2 minutes'],
  ['600', '10 minutes'],
  ['3600', '1 hour'],
] as const;
type Seconds = (typeof lengths)[number][0];

/** The trial as a write carries it. */
export interface TrialQuery {
  readonly confirm_within: number;
  readonly scope?: string;
}

export function TryDialog({
  title,
  isOneDevice = false,
  close,
  start,
}: {
  readonly title: string;
  /** The change is of one device, so there is nothing to choose about where. */
  readonly isOneDevice?: boolean;
  readonly close: () => void;
  /** Writes the change as a trial. */
  readonly start: (trial: TrialQuery) => Promise<unknown>;
}): ReactNode {
  const [seconds, setSeconds] = useState<Seconds>('600');
  const [where, setWhere] = useState<'all' | 'some'>('all');
  const [chips, setChips] = useState<readonly string[]>([]);
  const scope = where === 'all' ? undefined : scopeText(chips);
  const write = useWrite(async () => {
    await start({ confirm_within: Number(seconds), ...(scope !== undefined && { scope }) });
    close();
  });
  const length = lengths.find(([value]) => value === seconds)?.[1] ?? '';
  return (
    <FormDialog
      title={title}
      close={close}
      write={write}
      action="Start the trial"
      disabled={where === 'some' && scope === undefined}
    >
      <div className="stack tight">
        <span>Keep it within</span>
        <SegmentedControl
          aria-label="Keep it within"
          value={seconds}
          onChange={setSeconds}
          data={lengths.map(([value, label]) => ({ value, label }))}
        />
      </div>
      {isOneDevice ? null : (
        <div className="stack tight">
          <span>Try it on</span>
          <SegmentedControl
            aria-label="Try it on"
            value={where}
            onChange={setWhere}
            data={[
              { value: 'all', label: 'All its devices' },
              { value: 'some', label: 'Devices with a label' },
            ]}
          />
        </div>
      )}
      {where === 'all' ? null : (
        <ScopeInput
          label="Labels"
          description="Other devices keep what they have now."
          chips={chips}
          onChange={setChips}
        />
      )}
      <p className="note note-plain">
        The change is in force at once. Unless someone keeps it within {length}, the server takes it back. A device that
        cannot reach the server goes back by itself. You may close this page.
      </p>
    </FormDialog>
  );
}
