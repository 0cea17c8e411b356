/** Owns the buttons that let a watch-only group enforce and make a group watch only, after a preview of who gains and who loses access. */
import { DialogButton } from '../components/dialog.tsx';
import { Button } from '@mantine/core';
import { useState, type ReactNode } from 'react';
import type { SecurityGroup, WrittenGroup } from '../../api/group.ts';
import { RingfenceError } from '../../client/error.ts';
import { devicesOf } from '../../organization/of-records.ts';
import { isEnforced } from '../../policy/effective.ts';
import type { GroupMode } from '../../policy/rule.ts';
import { notify, writeOrAsk, useWrite } from '../state/write.tsx';
import { contentOf, type Content } from '../model/draft.ts';
import { useSnapshot } from '../state/organization.ts';
import { useSession } from '../state/session.ts';
import { TryDialog, type TrialQuery } from '../trial/try-dialog.tsx';
import { Preview } from './preview.tsx';

interface ModeWords {
  readonly button: string;
  readonly title: (name: string) => string;
  readonly about: string;
  readonly action: string;
  readonly done: (name: string) => string;
}

const words: { readonly [M in GroupMode]: ModeWords } = {
  enforce: {
    button: 'Enforce',
    title: (name) => `Let ${name} enforce?`,
    about: 'The rules of the group decide on its devices from then on.',
    action: 'Enforce it',
    done: (name) => `${name} enforces now.`,
  },
  observe: {
    button: 'Watch only',
    title: (name) => `Make ${name} watch only?`,
    about:
      'The group decides nothing on any device from then on. Its page shows what it would have refused and admitted.',
    action: 'Make it watch only',
    done: (name) => `${name} is watch only: it decides nothing.`,
  },
};

const withMode = (group: SecurityGroup, mode: GroupMode): Content => {
  const { mode: _, ...content } = contentOf(group);
  return mode === 'observe' ? { ...content, mode } : content;
};

/** For those who may change the group. */
export function ModeButton({ group }: { readonly group: SecurityGroup }): ReactNode {
  const { client } = useSession();
  const { devices, groups } = useSnapshot();
  const { org_id, id, group_name: name } = group;
  /** What the open dialog is about. It stays the same when the group changes meanwhile. */
  const [asked, setAsked] = useState<GroupMode>();
  const next = isEnforced(group) ? 'observe' : 'enforce';
  const mode = asked ?? next;
  const put = (to: GroupMode, ifMatch: number, trial?: TrialQuery): Promise<WrittenGroup> =>
    writeOrAsk((agreed) => client.groups.update(org_id, id, { mode: to }, { ifMatch, ...trial, ...agreed }));
  /** The dialog shows what is written: a save by someone else meanwhile is not overlooked. */
  const change = async (trial?: TrialQuery): Promise<WrittenGroup> => {
    const saved = await put(mode, group.revision, trial).catch((error: unknown) => {
      throw error instanceof RingfenceError && error.code === 'precondition_failed'
        ? new Error('Someone saved this group a moment ago. Look at the changes again.')
        : error;
    });
    setAsked(undefined);
    return saved;
  };
  const { start, busy } = useWrite(async () => {
    const { revision } = await change();
    notify(words[mode].done(name), () => put(mode === 'observe' ? 'enforce' : 'observe', revision));
  }, 'Not saved');
  return (
    <>
      {group.trial === undefined ? (
        <Button variant="default" onClick={() => setAsked(next)}>
          {words[next].button}
        </Button>
      ) : null}
      {asked === undefined ? null : (
        <Preview
          close={() => setAsked(undefined)}
          before={contentOf(group)}
          after={withMode(group, mode)}
          change={{ security_groups: [{ id, mode }] }}
          title={words[mode].title(name)}
          closeLabel="Cancel"
          choices={<p>{words[mode].about}</p>}
        >
          <DialogButton
            name="Try it first"
            dialog={(close) => (
              <TryDialog
                title={`Try it with ${name}`}
                of={devicesOf(id, devices, groups)}
                close={close}
                start={change}
              />
            )}
          />
          <Button loading={busy} onClick={() => start()}>
            {words[mode].action}
          </Button>
        </Preview>
      )}
    </>
  );
}
