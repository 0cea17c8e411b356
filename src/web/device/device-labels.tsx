/** Owns the labels of one device. An owner changes them; each change takes effect at once and can be undone. */
import { useEffect, useState, type ReactNode } from 'react';
import type { Device } from '../../api/device.ts';
import { Tag } from '../components/tag.tsx';
import { notify } from '../components/toast.tsx';
import { labelFault } from '../model/labels.ts';
import { deviceName } from '../state/live.ts';
import { writeOrAsk } from '../state/opening.ts';
import { useRights } from '../state/organization.ts';
import { useSession } from '../state/session.ts';
import { useWrite } from '../state/write.ts';
import { LabelInput } from './label-input.tsx';

export function DeviceLabels({ device }: { readonly device: Device }): ReactNode {
  const { client } = useSession();
  const { governs } = useRights();
  const { labels = [], organization_id: org, id } = device;
  /** The field's content while it is not yet a valid list of labels. */
  const [draft, setDraft] = useState<readonly string[]>();
  const stored = labels.join();
  useEffect(() => setDraft(undefined), [stored]);
  const put = (wanted: readonly string[], ifMatch: number): Promise<Device> =>
    writeOrAsk((asked) => client.devices.update(org, id, { labels: wanted }, { ifMatch, ...asked }));
  const { start, busy } = useWrite(async (next: readonly string[]) => {
    try {
      const saved = await put(next.toSorted(), device.revision);
      notify(`Labels of ${deviceName(device)}: ${(saved.labels ?? []).join(', ') || 'none'}.`, () =>
        put(labels, saved.revision),
      );
    } catch (error) {
      setDraft(undefined);
      throw error;
    }
  }, 'The labels stay as they were');
  const change = (next: readonly string[]): void => {
    setDraft(next);
    if (labelFault(next) === undefined && next.toSorted().join() !== stored) start(next);
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
