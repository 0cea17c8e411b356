/** Owns the labels of one device: what it is; an owner changes them, and each change takes effect at once and can be undone. */
import { useEffect, useState, type ReactNode } from 'react';
import type { Device } from '../../api/device.ts';
import { Tag } from '../components/tag.tsx';
import { failed, notify } from '../components/toast.tsx';
import { labelFault } from '../model/labels.ts';
import { deviceName } from '../state/live.ts';
import { writeOrAsk } from '../state/opening.ts';
import { useRights } from '../state/organization.ts';
import { useSession } from '../state/session.ts';
import { LabelInput } from './label-input.tsx';

export function DeviceLabels({ device }: { readonly device: Device }): ReactNode {
  const { client } = useSession();
  const { governs } = useRights();
  const { labels = [], organization_id: org, id } = device;
  /** What stands in the field while it is no list of labels yet. */
  const [draft, setDraft] = useState<readonly string[]>();
  const [busy, setBusy] = useState(false);
  const stored = labels.join();
  useEffect(() => setDraft(undefined), [stored]);
  const change = (next: readonly string[]): void => {
    setDraft(next);
    if (labelFault(next) !== undefined || next.toSorted().join() === stored) return;
    setBusy(true);
    const write = (wanted: readonly string[], ifMatch: number): Promise<Device> =>
      writeOrAsk((asked) => client.devices.update(org, id, { labels: [...wanted] }, { ifMatch, ...asked }));
    write(next.toSorted(), device.revision)
      .then(
        (saved) =>
          notify(`Labels of ${deviceName(device)}: ${(saved.labels ?? []).join(', ') || 'none'}.`, () =>
            write(labels, saved.revision),
          ),
        (error: unknown) => {
          setDraft(undefined);
          failed(error, 'The labels stay as they were');
        },
      )
      .finally(() => setBusy(false));
  };
  return (
    <section className="card" aria-label="Labels">
      <div className="card-head">
        <h2>Labels</h2>
      </div>
      <div className="card-body stack tight">
        {governs ? (
          <LabelInput
            label="What is this device?"
            description="Rules and groups name labels. A label changes nothing by itself."
            labels={draft ?? labels}
            onChange={change}
            error={draft === undefined ? undefined : labelFault(draft)}
            disabled={busy}
          />
        ) : (
          <>
            <span className="tags">
              {labels.length === 0 ? <span className="dimmed">none</span> : null}
              {labels.map((label) => (
                <Tag key={label}>{label}</Tag>
              ))}
            </span>
            <p className="small dimmed">Only an owner sets labels.</p>
          </>
        )}
      </div>
    </section>
  );
}
