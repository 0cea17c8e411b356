/** Owns the labels of one device: an owner changes them, after a look at what that does where it does something, and can undo it. */
import { useEffect, useState, type ReactNode } from 'react';
import type { Device } from '../../api/device.ts';
import type { Line } from '../../client/words/changes.ts';
import { SimulationView, openedIn, useSimulation } from '../change/change-preview.tsx';
import { FormDialog } from '../components/dialog.tsx';
import { Lines, Tag, Card } from '../components/page.tsx';
import { notify, writeOrAsk, useWrite, type Seen } from '../state/write.tsx';
import { groupMoves } from '../model/device-policy.ts';
import { labelFault } from '../model/far-end.ts';
import { deviceName, useRights, useSnapshot } from '../state/organization.ts';
import { useSession } from '../state/session.ts';
import { LabelInput } from '../group/far-end-input.tsx';

const listed = (names: readonly string[]): string => `${names.length === 1 ? 'group' : 'groups'} ${names.join(', ')}`;

/** The question before labels that change what devices admit. */
function LabelQuestion({
  device,
  labels,
  close,
  write,
}: {
  readonly device: Device;
  readonly labels: readonly string[];
  readonly close: () => void;
  readonly write: (labels: readonly string[], seen: Seen) => Promise<unknown>;
}): ReactNode {
  const { groups } = useSnapshot();
  const asked = useSimulation({ devices: [{ id: device.id, labels: [...labels] }] });
  const { joins, leaves } = groupMoves(groups, device, { ...device, labels: [...labels] });
  const lines: readonly Line[] = [
    ...joins.map((name): Line => ['+', `${deviceName(device)} joins ${listed([name])}`]),
    ...leaves.map((name): Line => ['-', `${deviceName(device)} leaves ${listed([name])}`]),
  ];
  const opened = openedIn(asked.simulation);
  const wouldOpen = opened.size > 0;
  const writing = useWrite(async () => {
    await write(labels, { opened });
    close();
  });
  return (
    <FormDialog
      title={`Change the labels of ${deviceName(device)}?`}
      size="xl"
      close={close}
      write={writing}
      action="Change the labels"
      danger={wouldOpen}
      focusCancel={wouldOpen}
    >
      <p>
        {(device.labels ?? []).join(', ') || 'no labels'} → <strong>{labels.join(', ') || 'no labels'}</strong>
      </p>
      {lines.length === 0 ? null : <Lines lines={lines} />}
      <SimulationView asked={asked} />
    </FormDialog>
  );
}

export function DeviceLabels({ device }: { readonly device: Device }): ReactNode {
  const { client } = useSession();
  const { governs } = useRights();
  const { labels = [], organization_id: org, id } = device;
  /** What the field holds while it is no list of labels yet, or not written. */
  const [draft, setDraft] = useState<readonly string[]>();
  const [question, setQuestion] = useState<readonly string[]>();
  const stored = labels.join();
  useEffect(() => setDraft(undefined), [stored]);
  const put = (wanted: readonly string[], ifMatch: number, seen?: Seen): Promise<Device> =>
    writeOrAsk((agreed) => client.devices.update(org, id, { labels: wanted }, { ifMatch, ...agreed }), seen);
  const write = async (next: readonly string[], seen?: Seen): Promise<void> => {
    const saved = await put(next, device.revision, seen);
    notify(`Labels of ${deviceName(device)}: ${(saved.labels ?? []).join(', ') || 'none'}.`, () =>
      put(labels, saved.revision),
    );
  };
  /** Labels that no rule and no group names change nothing: they are written at once. */
  const { start, busy } = useWrite(async (next: readonly string[]) => {
    try {
      const { affected } = await client.simulate(org, { devices: [{ id, labels: [...next] }] }, { limit: 1 });
      if (affected === 0) await write(next);
      else setQuestion(next);
    } catch (error) {
      setDraft(undefined);
      throw error;
    }
  }, 'The labels stay as they were');
  const change = (next: readonly string[]): void => {
    setDraft(next);
    if (labelFault(next) === undefined && next.toSorted().join() !== stored) start(next.toSorted());
  };
  return (
    <Card title="Labels">
      {question === undefined ? null : (
        <LabelQuestion
          device={device}
          labels={question}
          write={write}
          close={() => {
            setQuestion(undefined);
            setDraft(undefined);
          }}
        />
      )}
      <div className="card-body stack tight">
        {governs ? (
          <LabelInput
            label="What is this device?"
            description="Rules and groups name labels. A label that none of them names decides nothing."
            labels={draft ?? labels}
            onChange={change}
            error={draft === undefined ? undefined : labelFault(draft)}
            disabled={busy || question !== undefined}
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
    </Card>
  );
}
