/** Owns the read view of a group: its rules as sentences, their usage, and where an edit begins. */
import type { ReactNode } from 'react';
import type { SecurityGroup } from '../../api/group.ts';
import { Later } from '../components/later.tsx';
import { groupAccess } from '../model/device-access.ts';
import { useRights } from '../state/organization.ts';
import { AddService } from './add-service.tsx';
import type { Beginning } from './group-editor.tsx';
import { RuleSentences } from './rules.tsx';
import { GroupRuleUsage } from './usage.tsx';

export function ReadGroup({
  group,
  edit,
}: {
  readonly group: SecurityGroup;
  /** Opens the editor with these changes of the draft. */
  readonly edit: (beginning: Beginning) => void;
}): ReactNode {
  const rights = useRights();
  const mayEdit = rights.editGroup(group);
  const canBegin = mayEdit && group.trial === undefined;
  return (
    <div className="stack">
      {mayEdit ? null : (
        <p className="note note-plain">
          {!rights.mayWrite
            ? 'You are signed in with a token that only reads.'
            : group.user_id === undefined
              ? "Only the organization's owner changes this group."
              : 'Only the member who owns this group changes it.'}
        </p>
      )}
      {group.group_description === undefined || group.group_description === '' ? null : (
        <p>{group.group_description}</p>
      )}
      {(['inbound', 'outbound'] as const).map((direction) => (
        <RuleSentences
          key={direction}
          direction={direction}
          access={groupAccess(group[`${direction}_rules`] ?? [], direction, group.guardrail)}
          foot={
            canBegin ? (
              <AddService direction={direction} add={(rule) => edit({ add: { direction, rule } })} />
            ) : undefined
          }
        />
      ))}
      <Later>
        <GroupRuleUsage group={group} canDraft={canBegin} draftWithout={(unused) => edit({ without: unused })} />
      </Later>
    </div>
  );
}
