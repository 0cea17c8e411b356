/** Owns the way from a few devices to more: the scope of a trial becomes wider, and its end stays. */
import { SegmentedControl } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useState, type ReactNode } from 'react';
import type { Trial } from '../../api/trial/trials.ts';
import { FormDialog } from '../components/dialog.tsx';
import { clockTime } from '../components/time.tsx';
import { notify } from '../components/toast.tsx';
import { selectorChip } from '../model/far-end.ts';
import { useLive } from '../state/organization.ts';
import { writeOrAsk } from '../state/refusal.ts';
import { useSession } from '../state/session.ts';
import { useWrite } from '../state/write.ts';
import { ScopeInput, scopeText } from './scope-input.tsx';

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
