/** Owns the page of one group: its rules, to read or to edit, the devices that it applies to, and its deletion. */
import { Back } from '../components/record-link.tsx';
import { Button } from '@mantine/core';
import { useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { lazy, Suspense, useMemo, useState, type ReactNode } from 'react';
import { isEnforced } from '../../policy/effective.ts';
import { defaultInboundRules, defaultOutboundRules } from '../../policy/rule.ts';
import { ChangePreview } from '../change/change-preview.tsx';
import { CopyIcon, EditIcon, TrashIcon } from '../components/icons.tsx';
import { devicesOf } from '../../organization/of-records.ts';
import { selectorChip } from '../model/far-end.ts';
import { Confirm, type Confirmation } from '../components/dialog.tsx';
import { WatchedGroup } from '../flows/group-observation.tsx';
import { RecentlyRefused } from '../flows/recently-refused.tsx';
import { GroupDevices } from '../group/group-devices.tsx';
import type { Beginning } from '../group/group-editor.tsx';
import { ModeButton } from '../group/group-mode.tsx';
import { Timeline } from '../group/restore.tsx';
import { Later, Loading, Tag, Ago, Page, Card, Revision } from '../components/page.tsx';
import { Empty } from '../components/placeholders.tsx';
import { notify, writeOrAsk, type Agreed } from '../state/write.tsx';
import { onDemand } from '../state/load-ahead.ts';
import { useNames, useSnapshot, useRights, useDeviceNames } from '../state/organization.ts';
import { useSession } from '../state/session.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { groupAccess } from '../model/device-policy.ts';
import { AddService } from '../group/add-service.tsx';
import { RuleSentences } from '../group/rules.tsx';
import { useQuery } from '@tanstack/react-query';
import type { RuleUsage } from '../../api/usage/rule-usage.ts';
import { ruleInSentence } from '../../client/words/rule.ts';
import { shareNote, usageSummary, usageWords } from '../../client/words/usage.ts';
import { plural } from '../../client/words/number.ts';

/** People read first, and the editor is large. */
const GroupEditor = lazy(onDemand(async () => ({ default: (await import('../group/group-editor.tsx')).GroupEditor })));

export function GroupPage(): ReactNode {
  const { org, group: id } = useParams({ from: '/o/$org/groups/$group' });
  const { allow, edit } = useSearch({ from: '/o/$org/groups/$group' });
  const { groupById, groups, devices } = useSnapshot();
  const { client } = useSession();
  const rights = useRights();
  const nameOf = useNames();
  const navigate = useNavigate();
  const [confirmation, setConfirmation] = useState<Confirmation>();
  const [beginning, setBeginning] = useState<Beginning>();
  const group = groupById.get(id.toLowerCase());
  const under = useMemo(
    () => (group === undefined ? [] : devicesOf(group.id, devices, groups)),
    [group, groups, devices],
  );
  const back = <Back to="groups" />;
  if (group === undefined) {
    return (
      <div className="page">
        <Empty whole title="This group is gone" action={back}>
          It was deleted, or you may no longer see it.
        </Empty>
      </div>
    );
  }
  const isDefault = group.is_default === true;
  const mayEdit = rights.editGroup(group);
  const isEditing = mayEdit && (edit === true || allow !== undefined);
  const show = (search: { readonly edit?: true }): void =>
    void navigate({ to: '/o/$org/groups/$group', params: { org, group: id }, search });
  const leave = (): void => {
    setBeginning(undefined);
    show({});
  };
  const begin = (from?: Beginning): void => {
    setBeginning(from);
    show({ edit: true });
  };
  const remove = (): void =>
    setConfirmation({
      title: isDefault ? 'Reset the default group?' : `Delete ${group.group_name}?`,
      isWide: true,
      body: (
        <div className="stack">
          <ChangePreview
            change={
              isDefault
                ? {
                    security_groups: [
                      {
                        id: group.id,
                        inbound_rules: [...defaultInboundRules],
                        outbound_rules: [...defaultOutboundRules],
                      },
                    ],
                  }
                : { delete: [group.id] }
            }
          />
          <p className="small dimmed">
            {isDefault
              ? 'A fresh default group takes its place: everything in, everything out.'
              : 'You can bring it back from the activity page.'}
          </p>
        </div>
      ),
      action: isDefault ? 'Reset it' : under.length === 0 ? 'Delete the group' : 'Take it off and delete it',
      act: async () => {
        // The dialog names the devices that have it.
        const agreed: Agreed = under.length > 0 && !isDefault ? { detach: true } : {};
        await writeOrAsk((more) => client.groups.delete(org, group.id, more), { agreed });
        notify(isDefault ? 'The default group is as it was in the beginning.' : `${group.group_name} is deleted.`);
        await navigate({ to: '/o/$org/groups', params: { org }, ignoreBlocker: true });
      },
    });
  return (
    <Page
      title={group.group_name}
      back={back}
      about={
        <p className="row small">
          <Tag tone="accent">
            {isDefault ? 'default group' : group.user_id === undefined ? "the organization's" : nameOf(group.user_id)}
          </Tag>
          {group.guardrail === undefined ? null : <Tag tone="warn">guardrail: {group.guardrail}</Tag>}
          {group.trial === undefined ? null : <Tag tone="accent">on trial</Tag>}
          {isEnforced(group) ? null : <Tag tone="warn">watch only</Tag>}
          {(isEditing ? [] : (group.applies_to ?? [])).map((selector) => (
            <Tag key={selectorChip(selector)}>applies to {selectorChip(selector)}</Tag>
          ))}
          <span>
            changed <Ago at={group.updated_at} />, revision <Revision of={group.revision} />
          </span>
        </p>
      }
      actions={
        <>
          {mayEdit ? (
            <Button
              variant={isEditing ? 'default' : 'filled'}
              leftSection={isEditing ? null : <EditIcon size={16} />}
              onClick={() => (isEditing ? leave() : begin())}
            >
              {isEditing ? 'Done' : 'Edit'}
            </Button>
          ) : null}
          {mayEdit && !isEditing && !isDefault ? <ModeButton group={group} /> : null}
          {rights.mayWrite ? (
            <Button
              variant="default"
              leftSection={<CopyIcon size={16} />}
              onClick={() => void navigate({ to: '/o/$org/groups/new', params: { org }, search: { from: group.id } })}
            >
              Duplicate
            </Button>
          ) : null}
          {mayEdit ? (
            <Button variant="default" className="danger" leftSection={<TrashIcon size={16} />} onClick={remove}>
              {isDefault ? 'Reset' : 'Delete'}
            </Button>
          ) : null}
        </>
      }
    >
      <Confirm confirmation={confirmation} close={() => setConfirmation(undefined)} />
      <div className="columns">
        {isEditing ? (
          <Suspense fallback={<Loading what="Loading the editor…" />}>
            <GroupEditor group={group} devices={under} allow={allow} beginning={beginning} />
          </Suspense>
        ) : (
          <ReadGroup group={group} edit={begin} />
        )}
        <Later>
          <GroupDevices group={group} devices={under} />
        </Later>
      </div>
      <Later>
        <WatchedGroup group={group} />
        <RecentlyRefused group={group.id} />
        <Timeline group={group} />
      </Later>
    </Page>
  );
}

function ReadGroup({
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

const tones = { used: 'accent', unused: 'warn', unknown: 'plain' } as const;

/** For those who may read it. */
function GroupRuleUsage({
  group,
  draftWithout,
  canDraft,
}: {
  readonly group: SecurityGroup;
  /** Begins a draft without these rules. */
  readonly draftWithout: (unused: readonly RuleUsage[]) => void;
  /** False while there is work that such a draft would wipe away. */
  readonly canDraft: boolean;
}): ReactNode {
  const { client } = useSession();
  const { editGroup } = useRights();
  const names = useDeviceNames();
  const mayRead = editGroup(group);
  const { data } = useQuery({
    queryKey: ['usage', group.org_id, group.id, group.revision],
    queryFn: ({ signal }) =>
      client.request('readSecurityGroupUsage', { params: { org_id: group.org_id, sg_id: group.id }, signal }),
    enabled: mayRead,
    retry: false,
  });
  const usage = data?.value;
  if (usage === undefined || usage.rules.length === 0) return null;
  const unused = usage.rules.filter(({ state }) => state === 'unused');
  return (
    <Card
      title="Usage"
      about={
        <span className="small dimmed">
          {usageSummary(usage)}. It counts the traffic of the last seven days. {shareNote(usage)}
        </span>
      }
    >
      <div className="table-scroll">
        <table className="table table-usage">
          <thead>
            <tr>
              <th scope="col">Rule</th>
              <th scope="col">Usage</th>
              <th scope="col">Traffic</th>
              <th scope="col">Last hit</th>
            </tr>
          </thead>
          <tbody>
            {usage.rules.map((one) => {
              const rule = group[`${one.direction}_rules`]?.[one.rule];
              return rule === undefined ? null : (
                <tr key={`${one.direction} ${one.rule}`}>
                  <td className="usage-rule">
                    {one.direction === 'inbound' ? 'in' : 'out'} {ruleInSentence(one.direction, rule, names)}
                  </td>
                  <td>
                    <Tag tone={tones[one.state]}>{one.state}</Tag>
                  </td>
                  <td className="small">{usageWords(one)}</td>
                  <td className="small">{one.last_hit === undefined ? '' : <Ago at={one.last_hit} />}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {unused.length === 0 ? null : (
        <div className="card-body">
          <Button variant="default" disabled={!canDraft} onClick={() => draftWithout(unused)}>
            Draft without the {plural(unused.length, 'unused rule')}
          </Button>
        </div>
      )}
    </Card>
  );
}
