/** Owns the choice of a trial: how long people have to confirm the change, which devices try it, and the way from a few devices to more. */
import { SegmentedControl } from '@mantine/core';
import { useState, useMemo, type ReactNode } from 'react';
import { FormDialog } from '../components/dialog.tsx';
import { useWrite, writeOrAsk, notify } from '../state/write.tsx';
import { labelsIn } from '../../client/words/unknown-labels.ts';
import { devicesNamed } from '../../organization/of-records.ts';
import type { Selector } from '../../policy/rule.ts';
import { UnknownLabels, FarEndInput } from '../group/far-end-input.tsx';
import { misspelt, readSelectorChip, selectorChip, labelFault } from '../model/far-end.ts';
import { plural } from '../../client/words/number.ts';
import { useSnapshot, useLive } from '../state/organization.ts';
import { useQueryClient } from '@tanstack/react-query';
import type { Device } from '../../api/device.ts';
import type { Trial } from '../../api/trial/trials.ts';
import { clockTime } from '../components/page.tsx';
import { useSession } from '../state/session.ts';

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
  of: users,
  close,
  start,
}: {
  readonly title: string;
  /** The devices that the change concerns. Absent where it is of one device: then there is nothing to choose about where. */
  readonly of?: readonly Device[];
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
  const isForNobody =
    users !== undefined && (where === 'all' ? users : devicesNamed(selectorsOf(chips), users)).length === 0;
  /** Whether the labels are still to be written. */
  const isUnsaid = where === 'some' && scope === undefined;
  const length = lengths.find(([value]) => value === seconds)?.[1] ?? '';
  return (
    <FormDialog
      title={title}
      close={close}
      write={write}
      action={isForNobody && !isUnsaid ? 'Start it anyway' : 'Start the trial'}
      disabled={isUnsaid}
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
      {users === undefined ? null : (
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
      {isForNobody && !isUnsaid ? (
        <p className="note note-warn" role="status">
          No device would try this change:{' '}
          {where === 'all' ? 'none has the group' : 'none that has the group has such a label'}. The trial would show
          nothing.
        </p>
      ) : null}
    </FormDialog>
  );
}

/** A chip as the server reads it; a bare word is a label. */
const selectorOf = (chip: string): Selector | undefined => readSelectorChip(chip) ?? readSelectorChip(`label:${chip}`);
const selectorsOf = (chips: readonly string[]): readonly Selector[] => chips.flatMap((chip) => selectorOf(chip) ?? []);

/** What is wrong with the chips; undefined where they can be sent. */
function faultIn(chips: readonly string[]): string | undefined {
  for (const chip of chips) {
    const near = misspelt(chip);
    if (near !== undefined) return near;
    const selector = selectorOf(chip);
    if (selector === undefined || 'all_devices' in selector) continue;
    const fault = labelFault(selector.labels);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

/** The chips as the text of a scope, such as `label:canary,label:edge+prod`; undefined while they are none. */
const scopeText = (chips: readonly string[]): string | undefined =>
  chips.length === 0 || faultIn(chips) !== undefined
    ? undefined
    : chips.map((chip) => selectorChip(selectorOf(chip) ?? { labels: [chip] })).join(',');

function ScopeInput({
  label,
  description,
  chips,
  onChange,
}: {
  readonly label: string;
  readonly description: string;
  readonly chips: readonly string[];
  readonly onChange: (chips: readonly string[]) => void;
}): ReactNode {
  const { devices } = useSnapshot();
  const selectors = useMemo(() => selectorsOf(chips), [chips]);
  const count = useMemo(() => devicesNamed(selectors, devices).length, [selectors, devices]);
  return (
    <div className="stack tight">
      <FarEndInput
        label={label}
        description={description}
        placeholder="label:canary"
        suggest="labels"
        chips={chips}
        onChange={onChange}
        error={faultIn(chips)}
      />
      {chips.length === 0 ? null : (
        <p className="small dimmed" role="status">
          {plural(count, 'device')} of the organization {count === 1 ? 'has' : 'have'} such a label.
        </p>
      )}
      <UnknownLabels labels={labelsIn([{ applies_to: selectors }])} />
    </div>
  );
}

export function WidenDialog({
  trial,
  name,
  close,
}: {
  readonly trial: Trial;
  readonly name: string;
  readonly close: () => void;
}): ReactNode {
  const { client } = useSession();
  const { id: org } = useLive();
  const queries = useQueryClient();
  const [where, setWhere] = useState<'all' | 'some'>('all');
  const [chips, setChips] = useState<readonly string[]>(() => (trial.scope ?? []).map(selectorChip));
  const scope = where === 'all' ? null : scopeText(chips);
  const write = useWrite(async () => {
    if (scope === undefined) return;
    await writeOrAsk((agreed) => client.trials.widen(org, trial.id, { scope }, agreed));
    await queries.invalidateQueries({ queryKey: ['trials', org] });
    notify('More devices try the change now.');
    close();
  });
  return (
    <FormDialog
      title={`Try ${name} on more devices`}
      close={close}
      write={write}
      action="Try it there too"
      disabled={scope === undefined}
    >
      <SegmentedControl
        aria-label="Try it on"
        value={where}
        onChange={setWhere}
        data={[
          { value: 'all', label: 'All its devices' },
          { value: 'some', label: 'Devices with a label' },
        ]}
      />
      {where === 'all' ? null : (
        <ScopeInput
          label="Labels"
          description="Add labels. Those that try it now stay."
          chips={chips}
          onChange={setChips}
        />
      )}
      <p className="note note-plain">The trial still ends at {clockTime(Date.parse(trial.ends_at), Date.now())}.</p>
    </FormDialog>
  );
}
