/** Owns the draft that removes unused rules from their groups: the rules by group, what that does, and the write as one change set. */
import { useQueryClient } from '@tanstack/react-query';
import { type ReactNode } from 'react';
import { limits } from '../../api/limits.ts';
import type { ChangeSetBody, WrittenChangeSet } from '../../api/change/change-set.ts';
import type { UnusedRule } from '../../api/usage/rule-usage.ts';
import { sameRule } from '../../client/words/rule.ts';
import { devicesOf } from '../../organization/of-records.ts';
import { ChangePreview } from '../change/change-preview.tsx';
import { DialogButton, FormDialog } from '../components/dialog.tsx';
import { notify, writeOrAsk, useWrite } from '../state/write.tsx';
import { Changes } from '../group/preview.tsx';
import { contentOf, difference, patchOf, withoutUnused } from '../model/draft.ts';
import { plural } from '../../client/words/number.ts';
import { useRights, useSnapshot, useLive } from '../state/organization.ts';
import { useSession } from '../state/session.ts';
import { TryDialog, type TrialQuery } from '../trial/try-dialog.tsx';

export function RemoveUnused({
  unused,
  close,
}: {
  readonly unused: readonly UnusedRule[];
  readonly close: () => void;
}): ReactNode {
  const { id: org } = useLive();
  const { client } = useSession();
  const queries = useQueryClient();
  const { groupById, devices, groups } = useSnapshot();
  const { editGroup } = useRights();
  const drafts = [...new Set(unused.map(({ group_id }) => group_id))]
    .flatMap((id) => groupById.get(id) ?? [])
    .filter((group) => editGroup(group) && group.trial === undefined)
    .slice(0, limits.changeSetRecords)
    .map((group) => {
      const rules = unused.filter(({ group_id }) => group_id === group.id);
      const before = contentOf(group);
      // Rules are found by what they are: someone may have changed the group since.
      const { content, removed, kept } = withoutUnused(before, (direction, rule) =>
        rules.some((one) => one.direction === direction && sameRule(one.rule, rule)),
      );
      return { group, before, content, removed, kept };
    });
  const changed = drafts.filter(({ removed }) => removed > 0);
  const [removed, kept] = [
    drafts.reduce((sum, draft) => sum + draft.removed, 0),
    drafts.reduce((sum, draft) => sum + draft.kept, 0),
  ];
  const change: ChangeSetBody = {
    security_groups: changed.map(({ group, before, content }) => ({
      id: group.id,
      revision: group.revision,
      ...patchOf(before, content),
    })),
  };
  const write = async (trial?: TrialQuery): Promise<WrittenChangeSet> => {
    const written = await writeOrAsk((agreed) => client.changes.apply(org, change, { ...trial, ...agreed }));
    await queries.invalidateQueries({ queryKey: ['unused rules', org] });
    return written;
  };
  const writing = useWrite(async () => {
    const { change_id } = await write();
    notify(`${plural(removed, 'unused rule')} removed.`, () => client.changes.revert(org, change_id));
    close();
  });
  return (
    <FormDialog
      title={`Remove ${plural(removed, 'unused rule')}`}
      size="xl"
      close={close}
      write={writing}
      action="Remove them"
      disabled={changed.length === 0}
      others={
        <DialogButton
          name="Try it first"
          disabled={changed.length === 0}
          dialog={(done) => (
            <TryDialog
              title="Try it without the unused rules"
              of={changed.flatMap(({ group }) => devicesOf(group.id, devices, groups))}
              close={done}
              start={async (trial) => {
                await write(trial);
                close();
              }}
            />
          )}
        />
      }
    >
      {changed.map(({ group, before, content }) => (
        <section key={group.id} className="stack tight" aria-label={group.group_name}>
          <strong>{group.group_name}</strong>
          <Changes of={difference(before, content)} />
        </section>
      ))}
      {kept === 0 ? null : (
        <p className="note note-plain">
          {plural(kept, 'unused outbound rule')} {kept === 1 ? 'stays' : 'stay'}: without any outbound rule, everything
          could go out.
        </p>
      )}
      <p className="small dimmed">
        A rule that is used once a quarter looks unused too. With Try it first, the rules come back by themselves.
      </p>
      {changed.length === 0 ? null : <ChangePreview change={change} />}
    </FormDialog>
  );
}
